/*
 * What is settled within a statement before it touches the table.
 *
 * A statement that is sent alone is a transaction of its own. So a setting that is local to the transaction ends with
 * it: the session keeps its own, and a pooler may give the connection to anybody.
 */

/**
 * Sent before a statement where the client does not know whether a transaction is open. Outside of one, the setting is
 * gone when the next message comes; who still sees it is in a transaction. No clock and no luck is needed: with
 * bound values a statement is several messages, between which the server's clock goes on.
 */
export const PROBE = "select set_config('joblatch.probe', 'on', true)";

/**
 * False in a transaction that was open before: what we write could be rolled back after we answered. Asked before we
 * write anything ourselves, which would have assigned an id.
 */
export const ALONE =
  "coalesce(current_setting('joblatch.probe', true), '') = '' and txid_current_if_assigned() is null";

/** Whether {@link PROBE} was sent before, and its transaction is still open. */
export const PROBED = "coalesce(current_setting('joblatch.probe', true), '') = 'on'";

/** As the first of several statements in one message: bounds how long each of the others may wait. */
export const waitAtMost = (ms: number): string => `select set_config('lock_timeout', '${ms}', true)`;

/** What a condition on the table has to ask, and the last select too. */
export const READY = '(select ready from gate)';

/**
 * The first CTE of a statement: bounds how long it may wait for what can not be skipped. {@link READY} does not depend
 * on a row, so the server asks it before it reads one; and before the first row is locked or inserted, the
 * setting holds. In a transaction of somebody else nothing is set.
 *
 * It comes too late for a lock on the whole table, which is waited for before anything is executed; see session.ts.
 */
export function gate(waitMs: number, relaxed?: string): string {
  const commit = relaxed
    ? ` and (not ${relaxed} or set_config('synchronous_commit', 'off', true) is not null)`
    : '';
  return `gate as materialized (
  select case when ${ALONE} then set_config('lock_timeout', '${waitMs}', true) is not null${commit} else false end as ready)`;
}
