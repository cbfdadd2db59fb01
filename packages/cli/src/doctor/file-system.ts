import { statfsSync } from 'node:fs';
import { error, type Finding, ok, warning } from './finding.js';

/** The numbers by which Linux knows those file systems that matter here; see statfs(2). */
const NETWORK: Readonly<Record<number, string>> = {
  26985: 'NFS',
  20859: 'SMB',
  4283649346: 'CIFS',
  4266872130: 'SMB 2',
  16914839: '9p',
  1397113167: 'AFS',
  12805120: 'Ceph',
  198183888: 'Lustre',
  1952539503: 'OCFS2',
  18225520: 'GFS2',
  1196443219: 'GPFS',
  428016422: 'BeeGFS',
};
const TMPFS = 0x01021994;
const FUSE = 0x65735546;

export function judgeFileSystem(folder: string): readonly Finding[] {
  // Elsewhere these numbers mean something else.
  return process.platform === 'linux' ? [judge(statfsSync(folder).type >>> 0)] : [];
}

export function judge(type: number): Finding {
  const code = 'file-system';
  const network = NETWORK[type];
  if (network !== undefined)
    return error(
      code,
      `${network}, over a network`,
      'file locks and the shared memory of SQLite do not work across hosts: two can hold one lock, and the file can be damaged',
      'a file on a local disk for the processes of one host, else PostgreSQL or Redis',
    );
  if (type === TMPFS)
    return warning(
      code,
      'tmpfs, in memory',
      'locks and slots are forgotten at the next start',
      'a file on a disk',
    );
  if (type === FUSE)
    return warning(
      code,
      'FUSE',
      'whether file locks work depends on what is behind it; many of these are network file systems',
      'a file on a local disk',
    );
  return ok(code, `local (0x${type.toString(16)})`);
}
