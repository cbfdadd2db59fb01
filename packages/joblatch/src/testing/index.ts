export type { CaseReport, ContractCase, Need } from './contract/case.js';
export type { ContractClock, ContractLimits, ContractOptions } from './contract/options.js';
export { providerContract } from './contract.js';
