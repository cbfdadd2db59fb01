import { holdsBothWays } from './support/both-ways.ts';
import { javaWaitsForGuards } from './support/guards.ts';
import { countsExactly } from './support/mixed-fleet.ts';
import { describeShared } from './support/stores.ts';

describeShared.MariaDB((setting) => {
  holdsBothWays(setting);
  if (setting.has.tokens) javaWaitsForGuards(setting);
  countsExactly(setting);
});
