import { error, type Finding, ok, warning } from './finding.js';
import type { RedisFacts } from './redis-facts.js';

const MEANS =
  'after a restart a held lock can be taken by another one, and a slot a second time. Tokens grow all the same';

export function judgePersistence({ info, config }: RedisFacts): readonly Finding[] {
  const failing = ['rdb_last_bgsave_status', 'aof_last_write_status'].filter(
    (name) => info.get(name) === 'err',
  );
  if (failing.length > 0)
    return [
      error(
        'persistence',
        `${failing.join(', ')}: err`,
        'the server can not write to its disk, and by default refuses all writes',
        'make room on the disk of the server, and see its log',
      ),
    ];
  return [judge(info.get('aof_enabled') === '1', config.get('appendfsync'), config.get('save'))];
}

function judge(appendOnly: boolean, fsync: string | undefined, save: string | undefined): Finding {
  const code = 'persistence';
  const remedy = 'appendonly yes and appendfsync always, or let what is guarded check the fencing token';
  if (appendOnly) {
    const found = `appendonly, appendfsync ${fsync ?? 'not told'}`;
    return fsync === 'always'
      ? ok(code, found)
      : warning(code, found, `a crash can lose the last second and more: ${MEANS}`, remedy);
  }
  const found =
    save === undefined
      ? 'no append-only file'
      : save === ''
        ? 'nothing is on disk'
        : `snapshots only (save ${save})`;
  return warning(code, found, MEANS, remedy);
}
