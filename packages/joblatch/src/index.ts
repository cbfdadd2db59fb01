export { type Duration, parseDuration } from './provider/duration.js';
export {
  isLockError,
  LockError,
  type LockErrorCode,
  LockLostError,
  LockNotAcquiredError,
  LockOptionsError,
  LockStoreError,
  type LossDetection,
  type StoreOperation,
} from './provider/errors.js';
export { checkKey } from './provider/key.js';
export type * from './provider/lock-provider.js';
export { SLOT_AHEAD_MS, SLOT_MEMORY_MS } from './provider/lock-provider.js';
export { createOwnerId } from './provider/owner.js';
export { nodeRuntime, type Runtime } from './provider/runtime.js';
