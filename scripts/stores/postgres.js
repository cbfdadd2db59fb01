const USER = 'joblatch';

export const postgres = {
  name: 'postgres',
  variable: 'JOBLATCH_TEST_POSTGRES',
  packages: ['postgresql', 'pgbouncer', 'faketime'],
  // Without them the tests that start them are left out.
  extras: ['pgbouncer', 'faketime'],
  binaries: { initdb: ['initdb'], postgres: ['postgres'] },
  prepare: ({ binaries, data }) => [
    [binaries.initdb, '-D', data, '-U', USER, '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync'],
  ],
  command: ({ binaries, data, port }) => [
    binaries.postgres,
    ...['-D', data, '-p', String(port)],
    ...['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
    // The data is thrown away, and a server that is killed keeps what it has handed to the kernel.
    ...['-c', 'fsync=off', '-c', 'max_connections=200'],
  ],
  url: ({ port }) => `postgres://${USER}@127.0.0.1:${port}/postgres`,
  greeting: startUpMessage(),
  // 'R': who asks is let in. While it starts up it answers 'E', an error.
  isReady: (answer) => answer[0] === 0x52,
  // The fast shutdown: open connections are ended.
  stopSignal: 'SIGINT',
};

/** Protocol 3.0: length, version, pairs of names and values, each ended by a zero byte. */
function startUpMessage() {
  const body = Buffer.from(`user\0${USER}\0database\0postgres\0\0`);
  const head = Buffer.alloc(8);
  head.writeInt32BE(head.length + body.length, 0);
  head.writeInt32BE(3 << 16, 4);
  return Buffer.concat([head, body]);
}
