import { error, type Finding, info as note, ok, warning } from './finding.js';
import type { RedisFacts } from './redis-facts.js';

const NEARLY_FULL = 0.9;
const MIB = 1_048_576;

export function judgeMemory({ info, config }: RedisFacts): readonly Finding[] {
  const limit = Number(info.get('maxmemory') ?? config.get('maxmemory') ?? Number.NaN);
  const used = Number(info.get('used_memory') ?? Number.NaN);
  const policy = info.get('maxmemory_policy') ?? config.get('maxmemory-policy');
  return [eviction(policy, limit), memory(used, limit)];
}

function eviction(policy: string | undefined, limit: number): Finding {
  const code = 'eviction';
  if (policy === undefined)
    return note(code, 'the server does not tell', undefined, 'see that maxmemory-policy is noeviction');
  if (policy === 'noeviction') return ok(code, policy);
  const means =
    'when memory is full Redis removes keys that are in use, locks among them: a held lock is then taken by another one';
  const remedy = 'CONFIG SET maxmemory-policy noeviction, or a server for locks alone';
  return limit > 0
    ? error(code, policy, means, remedy)
    : warning(code, `${policy}, but without a maxmemory nothing is evicted yet`, means, remedy);
}

function memory(used: number, limit: number): Finding {
  const mib = (bytes: number): string => `${Math.round(bytes / MIB)} MiB`;
  if (!(limit > 0)) return ok('memory', `${mib(used)} in use, no maxmemory`);
  const found = `${mib(used)} of ${mib(limit)} in use`;
  return used < limit * NEARLY_FULL
    ? ok('memory', found)
    : warning(
        'memory',
        found,
        'when it is full no lock can be taken, or locks are evicted',
        'raise maxmemory',
      );
}
