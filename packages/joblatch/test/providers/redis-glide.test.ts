import { keepsTheContract } from '../support/redis-contract.ts';
import { describeWithRedis } from '../support/redis-servers.ts';

for (const client of ['Valkey GLIDE']) {
  describeWithRedis(`${client}: the Redis provider keeps the contract`, (url) => {
    keepsTheContract({ client, url, everything: true });
  });
}
