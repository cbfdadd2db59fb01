const assert = require('node:assert/strict');
const { paths } = require('./paths.cjs');

(async () => {
  for (const path of paths) {
    // The very same module, not a second copy: a lock error must be an instance of one class only.
    assert.equal(require(path), await import(path), path);
  }
  assert.equal(require('joblatch/package.json').name, 'joblatch');
  console.log(`requires ${paths.length} paths`);
})();
