import { STORE_FORMS } from './stores.js';

export const STORE_HELP: string =
  'where the locks are kept (default: $JOBLATCH_STORE, else a file of this user)';

const STORES = `
Stores:
  ${STORE_FORMS.split('; ').join('\n  ')}
  Without --store: $JOBLATCH_STORE, or the text of the file $JOBLATCH_STORE_FILE, else a
  file in the user's state folder, which excludes only processes of this user on this host.
  A password may stand in $JOBLATCH_STORE_PASSWORD or in the file $JOBLATCH_STORE_PASSWORD_FILE.
`;

export const PROGRAM_HELP: string = `
Examples:
  joblatch run --name nightly --at-most-for 2h -- ./nightly.sh
  joblatch show nightly
  joblatch list --json
  joblatch release nightly --force

"joblatch COMMAND --help" tells more. Times are written 90s, 1h30m, 250ms or PT1H30M.
${STORES}`;

export const RUN_HELP: string = `
Exit status:
  that of the command    128+n if signal n ended it, 127 if it was not found, 126 if not executable
  0, --skip-exit-code    skipped: somebody else holds the lock, or its slot is taken
  64  the request can not be right       69  the store can not be reached, nothing was run
  75  the lock was lost while the command ran: it got SIGTERM, and SIGKILL after the grace

The command finds JOBLATCH_NAME, JOBLATCH_FENCING_TOKEN and, with --once-per, JOBLATCH_SLOT
(epoch milliseconds) in its environment. Its stdin and stdout are its own; notices go to stderr.

Examples:
  On every host's crontab, run on one of them, and at least 30s apart:
    0 2 * * *  joblatch run -q -n report --at-most-for 1h --at-least-for 30s -- ./report.sh
  Once an hour, again if it failed, the lock freed soon if the host dies:
    joblatch run -n sync --at-most-for 50m --once-per 1h --per-slot at-least-once --keep-alive -- ./sync
  One after the other instead of skipping:
    joblatch run -n deploy --at-most-for 20m --wait 10m -- ./deploy.sh
${STORES}`;
