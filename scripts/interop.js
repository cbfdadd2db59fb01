#!/usr/bin/env node
// Builds interop/java, the Java process with ShedLock that the tests in interop/test steer. With --install, installs
// Java 17 and Maven first where they are missing (Debian, as root).
//
//   npm run interop

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { installPackages } from './stores/install.js';
import { findBinary } from './stores/table.js';

const PACKAGES = ['openjdk-17-jdk-headless', 'maven'];

if (findBinary('javac') === undefined || findBinary('mvn') === undefined) {
  if (!process.argv.includes('--install')) {
    console.error(`interop: needs Java 17 and Maven; on Debian: apt-get install ${PACKAGES.join(' ')}`);
    process.exit(1);
  }
  installPackages(PACKAGES);
}
const { error, status } = spawnSync(
  'mvn',
  ['--quiet', '--batch-mode', '--no-transfer-progress', 'process-classes'],
  { cwd: fileURLToPath(new URL('../interop/java', import.meta.url)), stdio: 'inherit' },
);
if (error !== undefined) throw error;
process.exitCode = status ?? 1;
