import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const DATABASE = 'joblatch';
const ERROR_PACKET = 0xff;

export const mariadb = {
  name: 'mariadb',
  variable: 'JOBLATCH_TEST_MARIADB',
  packages: ['mariadb-server-core', 'mariadb-client-core'],
  binaries: { install: ['mariadb-install-db'], server: ['mariadbd'] },
  prepare: ({ binaries, data }) => {
    // Run by the server before it listens: who is answered has a database.
    writeFileSync(join(data, '..', 'mariadb-init.sql'), `CREATE DATABASE IF NOT EXISTS ${DATABASE};\n`);
    return [
      [
        binaries.install,
        '--no-defaults',
        `--datadir=${join(data, 'data')}`,
        '--auth-root-authentication-method=normal',
        '--skip-test-db',
      ],
    ];
  },
  command: ({ binaries, data, port }) => [
    binaries.server,
    '--no-defaults',
    `--datadir=${join(data, 'data')}`,
    `--socket=${join(data, 'socket')}`,
    `--pid-file=${join(data, 'pid')}`,
    // Not the one of all: a server that starts removes what others have there.
    `--tmpdir=${data}`,
    `--init-file=${join(data, '..', 'mariadb-init.sql')}`,
    '--bind-address=127.0.0.1',
    `--port=${port}`,
    '--max-connections=200',
    // The data is thrown away, and a server that is killed keeps what it has handed to the kernel.
    '--innodb-flush-log-at-trx-commit=2',
  ],
  url: ({ port }) => `mysql://root@127.0.0.1:${port}/${DATABASE}`,
  // It speaks first: 4 bytes of frame, then the version of its protocol or the mark of an error.
  isReady: (answer) => answer.length > 4 && answer[4] !== ERROR_PACKET,
  stopSignal: 'SIGTERM',
};
