#!/usr/bin/env bash
# Uses the packed packages as a stranger would: installs them in an empty folder, imports and requires each
# path, compiles against them with each TypeScript major, and runs the command.
#
#   bash scripts/smoke-packed.sh [folder of a node binary]      see scripts/nodes.sh
#
# Needs a build and `npm run tools`.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Packed and installed by the npm at hand; only then comes the Node to be tried.
npm pack --workspace=packages --pack-destination "$work" --loglevel=error >/dev/null
cp scripts/smoke/* "$work"
cd "$work"
echo '{ "private": true }' >package.json
# No install scripts: what is tried is joblatch, and building the native drivers of the CLI takes minutes.
npm install ./*.tgz --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null

[ $# -eq 0 ] || export PATH="$1:$PATH"
echo "Node $(node --version)"

node imports.mjs
node requires.cjs
node count-modules.mjs

node write-consumer.mjs "$root/tools/node_modules/@types"
for compiler in 5 6 7; do
  tsc="$root/tools/node_modules/typescript-$compiler/bin/tsc"
  node "$tsc" -p tsconfig.json
  echo "compiles with TypeScript $(node "$tsc" --version | cut -d' ' -f2)"
done

if [ -x node_modules/.bin/joblatch ]; then
  node node_modules/.bin/joblatch --help >/dev/null
  echo "joblatch --help answers"
fi
