export { letAssertLockedPass } from '../jobs/run-job.js';
export type { CaseReport, ContractCase, Need } from './contract/case.js';
export type {
  ContractClock,
  ContractLimits,
  ContractOptions,
  ContractTransaction,
} from './contract/options.js';
export { multiProcessContract, providerContract } from './contract.js';
export { type Fault, fault } from './fault.js';
export {
  type FaultyProvider,
  type FaultyProviderOptions,
  type FaultyVerb,
  faultyProvider,
} from './faulty-provider.js';
export {
  type InstanceOptions,
  type ManualRuntime,
  type ManualRuntimeOptions,
  manualRuntime,
} from './manual-runtime.js';
