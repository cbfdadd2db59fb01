// The shop as the director sees it: it places the orders that nobody is going to pay, and counts.

const PRODUCTS = [1, 2, 3];
const STOCK_OF_EACH = 1_000;
const ORDERS_AT_A_TIME = 16;
/** When the first of them expires, and how long after that the next. */
const FIRST_EXPIRES_MS = 200;
const EXPIRE_EVERY_MS = 150;

/**
 * @typedef {object} Counts
 * @property {number} open orders that are not cancelled yet
 * @property {number} pending events that are not published yet
 * @property {number} cancellations more than there are orders, if some were cancelled twice
 * @property {number} restored units of stock that were given back
 * @property {number} published events in the topic, repeated ones too
 * @property {number} duplicates cancellations and published events beyond the first of each
 */

export class Shop {
  /** What was ordered so far. */
  placed = { orders: 0, units: 0 };
  #database;

  constructor(database) {
    this.#database = database;
  }

  async open() {
    await this.#database.transaction(() => {
      for (const id of PRODUCTS) {
        this.#database.run('insert into products (id, stock) values (?, ?)', id, STOCK_OF_EACH);
      }
    });
  }

  /** Places orders that expire one after the other, from now on. */
  async placeOrders() {
    const expiresFrom = Date.now() + FIRST_EXPIRES_MS;
    const orders = Array.from({ length: ORDERS_AT_A_TIME }, (_, index) => ({
      product: PRODUCTS[index % PRODUCTS.length],
      quantity: 1 + (index % 4),
      expiresAt: expiresFrom + index * EXPIRE_EVERY_MS,
    }));
    await this.#database.transaction(() => {
      for (const { product, quantity, expiresAt } of orders) {
        this.#database.run('update products set stock = stock - ? where id = ?', quantity, product);
        this.#database.run(
          'insert into orders (product_id, quantity, expires_at) values (?, ?, ?)',
          product,
          quantity,
          expiresAt,
        );
      }
    });
    this.placed.orders += orders.length;
    this.placed.units += orders.reduce((units, { quantity }) => units + quantity, 0);
  }

  /** @returns {Counts} */
  count() {
    const [counts] = this.#database.all(
      `select
        (select count(*) from orders where status = 'open') as open,
        (select count(*) from outbox where published = 0) as pending,
        (select count(*) from outbox) as cancellations,
        (select sum(stock) from products) - ? as restored,
        (select count(*) from published) as published,
        (select count(*) - count(distinct order_id) from outbox)
          + (select count(*) - count(distinct event_id) from published) as duplicates`,
      PRODUCTS.length * STOCK_OF_EACH - this.placed.units,
    );
    return counts;
  }

  /** Whether every order is cancelled and every event published. */
  get idle() {
    const { open, pending } = this.count();
    return open === 0 && pending === 0;
  }

  timesPublished(event) {
    return this.#database.all('select 1 from published where event_id = ?', event).length;
  }
}
