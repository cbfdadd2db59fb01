// The paths that the installed package exports: 'joblatch', 'joblatch/memory' …
const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const manifest = JSON.parse(readFileSync(join(__dirname, 'node_modules/joblatch/package.json'), 'utf8'));

module.exports.paths = Object.keys(manifest.exports)
  .filter((path) => path !== './package.json')
  .map((path) => `joblatch${path.slice(1)}`);
