import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// The name holds our process id, so that a later run can tell whose data is left over.
const PREFIX = 'joblatch-stores-';

/** A new folder for the data of this run. */
export function scratchFolder() {
  const folder = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
  // As root the servers run as somebody else, who has to get through here to the folder of their own.
  chmodSync(folder, 0o711);
  return folder;
}

/** Removes what runs left behind that were killed before they could. */
export function sweepOldFolders() {
  for (const name of readdirSync(tmpdir())) {
    const pid = name.startsWith(PREFIX) ? Number.parseInt(name.slice(PREFIX.length), 10) : Number.NaN;
    if (!Number.isNaN(pid) && !isAlive(pid)) rmSync(join(tmpdir(), name), { recursive: true, force: true });
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // Somebody else's process may have the number now: it is alive all the same.
    return error.code === 'EPERM';
  }
  try {
    // A dead process whose parent has not asked for its exit code answers signals, but has no command line.
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
  } catch {
    return true;
  }
}
