import { holdsBothWays } from './support/both-ways.ts';
import { javaPassesGuards } from './support/guards.ts';
import { countsExactly } from './support/mixed-fleet.ts';
import { describeShared } from './support/stores.ts';

describeShared.PostgreSQL((setting) => {
  holdsBothWays(setting);
  javaPassesGuards(setting);
  countsExactly(setting);
});
