#!/usr/bin/env bash
# Builds interop/java, the Java process with ShedLock that the tests in interop/test steer. With --install, installs Java 17
# and Maven first where they are missing (Debian, as root).
#
#   npm run interop
set -euo pipefail
cd "$(dirname "$0")/../interop/java"

if ! command -v mvn >/dev/null || ! command -v javac >/dev/null; then
  if [ "${1:-}" != --install ]; then
    echo 'interop: needs Java 17 and Maven; on Debian: apt-get install openjdk-17-jdk-headless maven' >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  apt-get -qq install --yes --no-install-recommends openjdk-17-jdk-headless maven
fi
mvn --quiet --batch-mode --no-transfer-progress process-classes
