#!/usr/bin/env bash
# Installs the drivers for our own Node and for each other that is named and has another ABI, all at the same
# time: it is one large C file that takes most of a minute, and one core, for each.
#
#   bash .ci/drivers.sh VERSION…      as scripts/nodes.sh knows them
set -euo pipefail
cd "$(dirname "$0")/.."

installs=()
npm run drivers &
installs+=($!)

own=$(node -p process.versions.modules)
while IFS=$'\t' read -r _ bin; do
  [ "$("$bin/node" -p process.versions.modules)" = "$own" ] && continue
  sh scripts/rebuild-drivers.sh "$(dirname "$bin")" &
  installs+=($!)
done < <(bash scripts/nodes.sh "$@")

failed=0
for install in "${installs[@]}"; do wait "$install" || failed=1; done
exit $failed
