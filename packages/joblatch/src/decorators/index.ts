export {
  SchedulerLock,
  type SchedulerLockDecorator,
  type SchedulerLockOptions,
  setDefaultLocks,
} from './scheduler-lock.js';
