import { createOwnerId, nodeRuntime } from '../provider/runtime.js';
import { aborting } from './contract/aborting.js';
import { acrossProcesses } from './contract/across-processes.js';
import { bindCase, type CaseDefinition, type ContractCase } from './contract/case.js';
import { contending } from './contract/contending.js';
import { ending } from './contract/ending.js';
import { guarding } from './contract/guarding.js';
import { inspecting } from './contract/inspecting.js';
import { keys } from './contract/keys.js';
import { oncePer } from './contract/once-per.js';
import type { ContractOptions } from './contract/options.js';
import { purging } from './contract/purging.js';
import { releasing } from './contract/releasing.js';
import { renewing } from './contract/renewing.js';
import { skewed } from './contract/skewed.js';
import { slots } from './contract/slots.js';
import { slotsOnRelease } from './contract/slots-on-release.js';
import { taking } from './contract/taking.js';
import { tokens } from './contract/tokens.js';
import { troubles } from './contract/troubles.js';

const CASES: readonly CaseDefinition[] = [
  ...taking,
  ...ending,
  ...renewing,
  ...releasing,
  ...tokens,
  ...slots,
  ...slotsOnRelease,
  ...oncePer,
  ...inspecting,
  ...purging,
  ...keys,
  ...contending,
  ...aborting,
  ...guarding,
  ...skewed,
  ...troubles,
  ...acrossProcesses,
];

/**
 * The contract of a provider, as data: run the cases in whatever way your tests are run, one after another.
 * The provider is held to `LockProvider` and to the abilities it declares; what does not apply is reported as
 * `skip` with the reason. The store should be one for tests: some cases purge what others have left idle.
 *
 * ```ts
 * // vitest
 * for (const { name, run } of providerContract({ open: () => myProvider(client) })) {
 *   test(name, async (context) => {
 *     const { skip } = await run();
 *     if (skip !== undefined) context.skip(skip);
 *   });
 * }
 *
 * // node:test
 * for (const { name, run } of providerContract({ open: () => myProvider(client) })) {
 *   test(name, async (t) => {
 *     const { skip, notes } = await run();
 *     if (skip !== undefined) t.skip(skip);
 *     for (const note of notes) t.diagnostic(note);
 *   });
 * }
 * ```
 */
export function providerContract(options: ContractOptions): readonly ContractCase[] {
  return bindCases(CASES, options);
}

/**
 * Only the cases of the contract that need several processes; for a run with more `limits.rounds`. They take
 * `moduleUrl`, a module whose `open()` the workers call.
 */
export function multiProcessContract(options: ContractOptions): readonly ContractCase[] {
  return bindCases(acrossProcesses, options);
}

function bindCases(cases: readonly CaseDefinition[], options: ContractOptions): readonly ContractCase[] {
  const prefix = options.prefix ?? `contract-${createOwnerId(options.runtime ?? nodeRuntime).slice(-10)}-`;
  return cases.map((definition, index) => bindCase(definition, options, `${prefix}${index}.`));
}
