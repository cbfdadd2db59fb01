import { holdsBothWays } from './support/both-ways.ts';
import { countsExactly, countsWrongWithoutCommonLock } from './support/mixed-fleet.ts';
import { describeShared } from './support/stores.ts';

describeShared.Redis((setting) => {
  holdsBothWays(setting);
  countsExactly(setting);
  countsWrongWithoutCommonLock(setting);
});
