#!/usr/bin/env bash
# Looks at the packages as they would be published: packs each and has publint and arethetypeswrong judge the
# tarball. Needs a build and `npm run tools`.
set -euo pipefail
cd "$(dirname "$0")/.."

node scripts/check-exports.js

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack --workspace=packages --pack-destination "$work" --loglevel=error >/dev/null

failed=0
for tarball in "$work"/*.tgz; do
  tools/node_modules/.bin/publint run "$tarball" --strict || failed=1
  # Nothing to judge in a package that is only a command.
  if tar -xzOf "$tarball" package/package.json | grep -q '"exports"'; then
    # esm-only: CommonJS reaches an ES module by require too, from Node 20.19 on; the smoke test does it.
    tools/node_modules/.bin/attw "$tarball" --profile esm-only --format table-flipped || failed=1
  fi
done
exit $failed
