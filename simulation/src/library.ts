import { pathToFileURL } from 'node:url';
import type * as Joblatch from 'joblatch';
import type * as Memory from 'joblatch/memory';

/** The library under test: as it is built, or a mutant's build. Its code runs unchanged. */
export interface Library {
  readonly core: typeof Joblatch;
  readonly memory: typeof Memory;
  readonly suspensionAwareClock: (
    fineMs: () => number,
    uptimeMs: () => number,
    stepMs: number,
  ) => () => number;
}

/** @param dist the folder that holds the compiled library */
export async function loadLibrary(dist: string): Promise<Library> {
  const load = (path: string): Promise<unknown> => import(pathToFileURL(`${dist}/${path}`).href);
  const [core, memory, runtime] = await Promise.all([
    load('index.js'),
    load('providers/memory/index.js'),
    load('provider/runtime.js'),
  ]);
  return {
    core: core as typeof Joblatch,
    memory: memory as typeof Memory,
    suspensionAwareClock: (runtime as Pick<Library, 'suspensionAwareClock'>).suspensionAwareClock,
  };
}
