// The tests that may be skipped in the gate, because what they test does not exist there. Anything else that is
// skipped fails it: a test that never runs guards nothing.
//
// `test` is matched against the whole name (describe and it), `majors` are the Node lines it holds for.

export const ALLOWED_SKIPS = [
  { majors: [20], test: /node:sqlite/, because: 'Node 20 has no SQLite of its own' },
  { majors: [20], test: /better-sqlite3 13/, because: 'better-sqlite3 13 needs Node 22' },
];
