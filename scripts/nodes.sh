#!/usr/bin/env bash
# Fetches the Node versions that joblatch is tested with, once, into a scratch folder, and prints one line
# for each: its version, a tab, the folder that holds its `node`.
#
#   bash scripts/nodes.sh            all of them
#   bash scripts/nodes.sh 20.19.6    only these
#
# JOBLATCH_NODES chooses the folder.
set -euo pipefail

# The oldest that is promised (engines in package.json), and the newest of each later line.
ALL=(20.19.6 22.23.5 24.22.3 26.12.1)

folder=${JOBLATCH_NODES:-${TMPDIR:-/tmp}/joblatch-nodes}
# The packages carry the official binary and its headers; there is one for each platform.
package="node-$(node -p 'process.platform + "-" + process.arch')"

versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=("${ALL[@]}")

mkdir -p "$folder"
for version in "${versions[@]}"; do
  bin="$folder/$version/node_modules/$package/bin"
  if ! [ -x "$bin/node" ]; then
    # Moved into place when whole, so that an install that was cut short is not taken for one.
    fresh=$(mktemp -d "$folder/.$version-XXXXXX")
    npm install --prefix "$fresh" --no-save --no-audit --no-fund --loglevel=error "$package@$version" >&2
    rm -rf "${folder:?}/$version"
    mv "$fresh" "$folder/$version"
  fi
  found=$("$bin/node" --version)
  [ "$found" = "v$version" ] || { echo "$bin/node is $found, not v$version" >&2; exit 1; }
  printf '%s\t%s\n' "$version" "$bin"
done
