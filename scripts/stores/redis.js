export const redis = {
  name: 'redis',
  variable: 'JOBLATCH_TEST_REDIS',
  packages: ['redis-server', 'redis-tools', 'openssl'],
  // Without them the tests that make clusters and certificates are left out.
  extras: ['redis-cli', 'openssl'],
  binaries: { server: ['redis-server'] },
  command: ({ binaries, data, port }) => [
    binaries.server,
    ...['--port', String(port), '--bind', '127.0.0.1', '--dir', data],
    // Nothing on disk: the data is thrown away.
    ...['--save', '', '--appendonly', 'no'],
  ],
  url: ({ port }) => `redis://127.0.0.1:${port}`,
  greeting: 'PING\r\n',
  // While it loads it answers -LOADING.
  isReady: (answer) => answer.toString().startsWith('+PONG'),
  stopSignal: 'SIGTERM',
};
