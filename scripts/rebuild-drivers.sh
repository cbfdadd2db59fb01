#!/bin/sh
# Installs the drivers for another Node than the one on the PATH, beside the usual ones: an addon that is
# compiled from source (better-sqlite3 12) fits one ABI only. The tests look into drivers/.abi/<ABI> before
# drivers (see packages/joblatch/test/support/sqlite-handles.js). Does nothing if that was done before.
#
#   scripts/rebuild-drivers.sh /opt/node-24    # a folder with bin/node and include/node
set -eu
home=${1:?usage: rebuild-drivers.sh <folder with bin/node and include/node>}
home=$(cd "$home" && pwd)
drivers=$(cd "$(dirname "$0")/../drivers" && pwd)
npm=$(command -v npm)
PATH=$home/bin:$PATH
export PATH
target=$drivers/.abi/$(node -p process.versions.modules)
if cmp -s "$drivers/package-lock.json" "$target/installed.json"; then exit 0; fi
mkdir -p "$target"
rm -f "$target/installed.json"
cp "$drivers/package.json" "$drivers/package-lock.json" "$target/"
npm_config_nodedir=$home "$npm" ci --prefix "$target" --no-audit --no-fund
# Last: an install that was cut short is not taken for one.
cp "$drivers/package-lock.json" "$target/installed.json"
