// The tests that may be skipped in the gate, because what they test does not exist there. Anything else that is
// skipped fails it: a test that never runs guards nothing.

const major = Number(process.versions.node.split('.')[0]);

/** Each holds for a test with such a name and such a note (what `context.skip` was given). */
const ALLOWED = [
  ...(major >= 22
    ? []
    : [
        { name: /^node:sqlite: .*> not here: /, because: 'Node 20 has no SQLite of its own' },
        { name: /^better-sqlite3 13: .*> not here: /, because: 'better-sqlite3 13 needs Node 22' },
      ]),
  {
    // Every test of a real store leaves out the cases that are not for it, and fails if one is skipped.
    name: /^(the memory provider|a faulty provider|a model)\b/,
    note: /^the store declares |^the option \w+ was not given$|^the store can not guard a transaction$/,
    because: 'the contract asks it of other kinds of stores',
  },
];

/**
 * Why a test may be skipped; undefined if it may not.
 *
 * @param {string} name describe and test
 * @param {string} note
 */
export function skipLeave(name, note) {
  return ALLOWED.find((rule) => rule.name.test(name) && (rule.note?.test(note) ?? true))?.because;
}
