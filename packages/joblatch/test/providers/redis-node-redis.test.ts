import { keepsTheContract } from '../support/redis-contract.ts';
import { describeWithRedis } from '../support/redis-servers.ts';

for (const client of ['node-redis 4', 'node-redis 5', 'node-redis 6']) {
  describeWithRedis(`${client}: the Redis provider keeps the contract`, (url) => {
    keepsTheContract({ client, url, everything: true });
  });
}
