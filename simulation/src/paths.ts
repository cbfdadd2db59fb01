import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the repository. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const LIBRARY = join(ROOT, 'packages', 'joblatch');
export const DIST = join(LIBRARY, 'dist');
