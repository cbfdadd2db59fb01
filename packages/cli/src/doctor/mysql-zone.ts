import type { MysqlSession } from '../stores/mysql-client.js';
import type { MysqlTarget } from '../stores/mysql-url.js';
import { error, type Finding, info, ok, warning } from './finding.js';
import { readColumns } from './mysql-columns.js';

const INSTANTS = ['lock_until', 'locked_at'];
const CURE = 'DATETIME(3) columns, for which no zone matters; or sessions in UTC everywhere';

export interface ZoneFacts {
  /** As the server has it for sessions that do not choose one; `SYSTEM` is that of its machine. */
  readonly server: string;
  readonly machine: string;
  /** What the URL says that the sessions of Java have. */
  readonly said: string | undefined;
  /** How far the zone is from UTC in January and in July, in minutes; null if the server does not know the zone. */
  readonly offsets: readonly (number | null)[];
  /** MariaDB has moved it far away. */
  readonly endsIn2038: boolean;
}

/** The zone of a session decides what is read from a TIMESTAMP column, and what is written there. */
export async function examineZone(session: MysqlSession, target: MysqlTarget): Promise<readonly Finding[]> {
  const columns = await readColumns(session, target);
  if (columns.size === 0) return [];
  if (!INSTANTS.some((name) => /^timestamp/i.test(columns.get(name)?.type ?? '')))
    return [ok('time-zone', 'the columns are DATETIME: the zones of sessions do not matter')];
  const [about] = await session.ask<readonly [string, string, string]>(
    'select cast(json_array(@@global.time_zone, @@global.system_time_zone, version()) as char)',
  );
  const [server, machine, version] = about as readonly [string, string, string];
  const { sessionTimeZone: said } = target.zone;
  const year = new Date().getUTCFullYear();
  const offset = (instant: string): string =>
    `timestampdiff(minute, '${instant}', convert_tz('${instant}', '+00:00', ?))`;
  const [offsets = []] = await session.ask<(number | null)[]>(
    `select cast(json_array(${offset(`${year}-01-15 12:00:00`)}, ${offset(`${year}-07-15 12:00:00`)}) as char)`,
    [said ?? server, said ?? server],
  );
  return judgeZone({ server, machine, said, offsets, endsIn2038: endsIn2038(version) });
}

export function judgeZone({ server, machine, said, offsets, endsIn2038 }: ZoneFacts): readonly Finding[] {
  return [judge(said, server === 'SYSTEM' ? `SYSTEM (${machine})` : server, offsets), ...range(endsIn2038)];
}

function judge(said: string | undefined, server: string, offsets: readonly (number | null)[]): Finding {
  const code = 'time-zone';
  const found = `the columns are TIMESTAMP, in the zone ${said === undefined ? `of the server, ${server}` : `${said} (sessionTimeZone; the server has ${server})`}`;
  if (offsets.includes(null))
    return error(
      code,
      `${found}, which the server does not know`,
      'no lock can be taken',
      'load its zone tables (mariadb-tzinfo-to-sql, mysql_tzinfo_to_sql), or write an offset: sessionTimeZone=+01:00',
    );
  const [january, july] = offsets;
  const others =
    "a session in another zone, of Java's ShedLock or of a joblatch with another sessionTimeZone, reads other ends there: " +
    'two could hold one lock, or nobody for hours';
  const same = "sessionTimeZone in the URL, if Java's sessions have another zone than the server";
  if (january !== july)
    return warning(
      code,
      `${found}, which has daylight saving time`,
      `${others}. In the hour that is left out in spring, ends are moved to its end: locks last longer`,
      `${CURE}; else ${same}`,
    );
  if (january !== 0) return warning(code, found, others, `${CURE}; else ${same}`);
  if (said !== undefined) return ok(code, found);
  return info(code, found, `right, as long as no session sets another one: ${others}`, `only then: ${same}`);
}

function range(endsIn2038: boolean): readonly Finding[] {
  if (!endsIn2038) return [];
  return [
    info(
      'table-range',
      'TIMESTAMP ends on 2038-01-19',
      'no lock can be taken that ends later',
      'DATETIME(3) columns, by then',
    ),
  ];
}

/** MariaDB 11.5 has doubled it, where its machine has 64 bits. */
function endsIn2038(version: string): boolean {
  const [major = 0, minor = 0] = (/\d+\.\d+/.exec(version)?.[0] ?? '').split('.').map(Number);
  return !(/mariadb/i.test(version) && (major > 11 || (major === 11 && minor >= 5)));
}
