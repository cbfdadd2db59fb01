// Keeps a write transaction open on a SQLite file for some milliseconds:
// node hold-sqlite.js DRIVER PATH MS immediate|exclusive. With the latter nobody can read, outside WAL mode.
//
// Says 'locked' when it has it; its exit means that it was given up.

import { loadDriver } from './sqlite-handles.js';

const [driver, path, ms, kind] = process.argv.slice(2);
const database = loadDriver(driver)(path);
database.exec('pragma busy_timeout = 5000');
database.exec(`begin ${kind}`);
process.send('locked');
setTimeout(() => {
  database.exec('commit');
  process.send(Date.now(), () => process.exit());
}, Number(ms));
