// The two jobs, written as one writes them for a single process: look for work, ask somebody over the network,
// write. Between the look and the write there is time, and in it other workers look too.

import { setTimeout as delay } from 'node:timers/promises';
import { raiseFence, refuseStale } from './fence.js';

export const CANCEL = {
  name: 'cancel-expired-orders',
  every: 1_000,
  lockAtMostFor: 2_000,
  lockAtLeastFor: 700,
};

export const PUBLISH = {
  name: 'publish-outbox',
  every: 500,
  lockAtMostFor: 2_000,
  lockAtLeastFor: 300,
};

export const JOBS = [CANCEL, PUBLISH];

/** Where the director lets something happen; see incidents.js. */
export const HALF_CANCELLED = 'half-cancelled';
export const CHECKED_NOT_WRITTEN = 'checked-not-written';

/** Cancels the orders that nobody paid in time, and gives their stock back. */
export function cancelExpiredOrders({ database, incidents }) {
  return async ({ token, assertHeld }) => {
    await raiseFence(database, CANCEL.name, token);
    const expired = database.all(
      "select id, product_id, quantity from orders where status = 'open' and expires_at <= ? order by id",
      Date.now(),
    );
    for (const order of expired) {
      await askPaymentService(order);
      assertHeld();
      await database.transaction(() => {
        refuseStale(database, CANCEL.name, token);
        database.run("update orders set status = 'cancelled' where id = ?", order.id);
        incidents.at(HALF_CANCELLED, order.id);
        database.run('update products set stock = stock + ? where id = ?', order.quantity, order.product_id);
        database.run('insert into outbox (order_id) values (?)', order.id);
      });
    }
    return expired.length;
  };
}

/** Publishes what the outbox holds: appends the event to the topic and marks it, in one transaction. */
export function publishOutbox({ database, incidents, worker }) {
  return async ({ token, assertHeld }) => {
    await raiseFence(database, PUBLISH.name, token);
    const pending = database.all('select id, order_id from outbox where published = 0 order by id limit 20');
    for (const event of pending) {
      await askCustomerService(event);
      assertHeld();
      incidents.at(CHECKED_NOT_WRITTEN, event.id);
      await database.transaction(() => {
        refuseStale(database, PUBLISH.name, token);
        database.run('insert into published (event_id, worker) values (?, ?)', event.id, worker);
        database.run('update outbox set published = 1 where id = ?', event.id);
      });
    }
    return pending.length;
  };
}

/** Stands for an HTTP request: has the order been paid after all? */
async function askPaymentService(_order) {
  await delay(40);
}

/** Stands for an HTTP request: what belongs into the event? */
async function askCustomerService(_event) {
  await delay(15);
}
