import type { TestPool } from './mysql-clients.js';

/** Its clocks are moved on the last Sundays of March and October at one o'clock in UTC. */
export const PRAGUE = 'Europe/Prague';

const FIRST_YEAR = 2000;
const LAST_YEAR = 2037;
const WINTER = { id: 0, offset: 3_600, isDst: 0, abbreviation: 'CET' };
const SUMMER = { id: 1, offset: 7_200, isDst: 1, abbreviation: 'CEST' };

/** Tells the server a zone by its name: packages bring none, and the program that loads them is not in each. */
export async function loadPrague(server: TestPool): Promise<void> {
  const [found] = await server.query('select 1 from mysql.time_zone_name where name = ?', [PRAGUE]);
  if (found.length > 0) return;
  const [{ insertId }] = await server.query("insert into mysql.time_zone (use_leap_seconds) values ('N')");
  for (const { id, offset, isDst, abbreviation } of [WINTER, SUMMER]) {
    await server.query('insert into mysql.time_zone_transition_type values (?, ?, ?, ?, ?)', [
      insertId,
      id,
      offset,
      isDst,
      abbreviation,
    ]);
  }
  for (let year = FIRST_YEAR; year <= LAST_YEAR; year += 1) {
    for (const [month, to] of [
      [2, SUMMER],
      [9, WINTER],
    ] as const) {
      await server.query('insert into mysql.time_zone_transition values (?, ?, ?)', [
        insertId,
        lastSundayAtOne(year, month) / 1_000,
        to.id,
      ]);
    }
  }
  await server.query('insert into mysql.time_zone_name values (?, ?)', [PRAGUE, insertId]);
}

/** In epoch milliseconds. Both months have 31 days. */
export function lastSundayAtOne(year: number, month: number): number {
  const last = Date.UTC(year, month, 31, 1);
  return last - new Date(last).getUTCDay() * 86_400_000;
}
