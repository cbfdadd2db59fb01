import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Mutant } from './mutants.js';
import { LIBRARY, ROOT } from './paths.js';

/**
 * A build of the library with one fault in it, in a folder of its own.
 *
 * @throws if the source is not as the mutant says any more
 */
export function buildMutant({ name, file, find, replace }: Mutant): {
  readonly dist: string;
  remove(): void;
} {
  const folder = mkdtempSync(join(tmpdir(), 'joblatch-mutant-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    const library = join(folder, 'packages', 'joblatch');
    mkdirSync(library, { recursive: true });
    cpSync(join(LIBRARY, 'src'), join(library, 'src'), { recursive: true });
    for (const path of ['package.json', 'tsconfig.json']) cpSync(join(LIBRARY, path), join(library, path));
    cpSync(join(ROOT, 'tsconfig.base.json'), join(folder, 'tsconfig.base.json'));
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));

    const path = join(library, 'src', file);
    const parts = readFileSync(path, 'utf8').split(find);
    if (parts.length !== 2) {
      throw new Error(
        `The mutant "${name}" does not fit any more: what it replaces is ${parts.length - 1} times in ${file}. ` +
          'Look at what became of that code, and write the mutant anew (simulation/src/mutants.ts).',
      );
    }
    writeFileSync(path, parts.join(replace));
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    const loose = ['--noUnusedLocals', 'false', '--noUnusedParameters', 'false', '--declaration', 'false'];
    const more = ['--declarationMap', 'false', '--isolatedDeclarations', 'false'];
    execFileSync(process.execPath, [tsc, '-p', join(library, 'tsconfig.json'), ...loose, ...more], {
      stdio: 'pipe',
    });
    return { dist: join(library, 'dist'), remove };
  } catch (error) {
    remove();
    const output = (error as { readonly stdout?: Buffer }).stdout?.toString();
    throw output ? new Error(`The mutant "${name}" does not compile:\n${output}`, { cause: error }) : error;
  }
}
