import { migrateMysql } from 'joblatch/mysql';
import { migratePostgres } from 'joblatch/postgres';
import { createPool } from 'mysql2/promise';
import { Pool } from 'pg';
import { afterAll, describe, test } from 'vitest';

/** A real server that the tests may use; `npm run stores -- --exec "npm test"` says where it is. */
export interface Server {
  readonly url: string;
  /** The URL of a place on it that nobody else uses, ready for locks. */
  fresh(): Promise<string>;
}

const KINDS = { mariadb, postgres, redis } as const;
export type ServerKind = keyof typeof KINDS;

/** Describes what needs a server; without it a skipped test says why. */
export function describeOn(kind: ServerKind, what: string, body: (server: Server) => void): void {
  const variable = `JOBLATCH_TEST_${kind.toUpperCase()}`;
  const url = process.env[variable];
  const title = `${kind}: ${what}`;
  describe(title, () => {
    if (url !== undefined) return body(KINDS[kind](url));
    const reason = `${variable} is not set; npm run stores -- --only ${kind} --exec "npm test" sets it`;
    console.warn(`skipped, ${title}: ${reason}`);
    test.skip(`not here: ${reason}`, () => {});
  });
}

const unique = (): string => Math.random().toString(36).slice(2, 12);

/** A schema for each `describe`, with a table for each test. */
function postgres(url: string): Server {
  const pool = new Pool({ connectionString: url, max: 2 });
  const schema = `joblatch_cli_${unique()}`;
  const made = pool.query(`create schema ${schema}`);
  made.catch(() => {}); // Told by the first test.
  afterAll(async () => {
    await pool.query(`drop schema if exists ${schema} cascade`);
    await pool.end();
  });
  return {
    url: `${url}?schema=${schema}`,
    async fresh() {
      await made;
      const table = `locks_${unique()}`;
      await migratePostgres({ pool, schema, table });
      return `${url}?schema=${schema}&table=${table}`;
    },
  };
}

/** A database for each `describe`, with a table for each test. */
function mariadb(url: string): Server {
  const pool = createPool({ uri: url, connectionLimit: 2 });
  const schema = `joblatch_cli_${unique()}`;
  const made = pool.query(`create database ${schema}`);
  made.catch(() => {}); // Told by the first test.
  afterAll(async () => {
    await pool.query(`drop database if exists ${schema}`);
    await pool.end();
  });
  return {
    url: `${url}?schema=${schema}`,
    async fresh() {
      await made;
      const table = `locks_${unique()}`;
      await migrateMysql({ pool, schema, table });
      return `${url}?schema=${schema}&table=${table}`;
    },
  };
}

function redis(url: string): Server {
  return { url, fresh: async () => `${url}?env=cli-${unique()}` };
}
