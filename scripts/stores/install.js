import { execFileSync } from 'node:child_process';

/** Installs Debian packages, without starting the services that they bring. */
export function installPackages(packages) {
  const env = {
    ...process.env,
    DEBIAN_FRONTEND: 'noninteractive',
    // Makes invoke-rc.d leave services alone: a server on its usual port is not what was asked for.
    RUNLEVEL: '1',
  };
  const apt = (...args) =>
    execFileSync('apt-get', ['-qq', '-o', 'Dpkg::Use-Pty=0', ...args], {
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  console.error(`# installing ${packages.join(' ')}`);
  apt('update');
  apt('install', '--yes', '--no-install-recommends', ...packages);
}
