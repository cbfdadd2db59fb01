import { defaultStorePath } from '../default-store.js';
import { count, type Finding, error as grave } from '../doctor/finding.js';
import { formatReport, reportJson } from '../doctor/report.js';
import { failureOf } from '../errors.js';
import { EXIT_NOTHING, EXIT_OK, EXIT_STORE } from '../exit-codes.js';
import { print, printJson } from '../output.js';
import { redact } from '../redact.js';
import { storeUrl } from '../store-url.js';
import { storeKindOf } from '../stores.js';
import type { ListFlags } from './list.js';

/** Looks at the store and says what it means for the locks. */
export async function doctor(flags: ListFlags): Promise<number> {
  const url = storeUrl(flags.store) ?? `sqlite:${defaultStorePath()}`;
  const kind = storeKindOf(url);
  let exitCode = EXIT_OK;
  let findings: readonly Finding[];
  try {
    findings = await kind.examine(url);
    if (count(findings, 'error') > 0) exitCode = EXIT_NOTHING;
  } catch (error) {
    findings = [unreachable(error)];
    exitCode = EXIT_STORE;
  }
  const report = { store: redact(url), findings };
  if (flags.json === true) printJson(reportJson(report));
  else print(formatReport(report));
  return exitCode;
}

/** @throws what is not the store's fault */
function unreachable(error: unknown): Finding {
  const { exitCode, message } = failureOf(error);
  if (exitCode !== EXIT_STORE) throw error;
  return grave(
    'connection',
    message,
    'no lock can be taken: joblatch run ends with status 69 and runs nothing',
    'see that the store is up, and that host, port, user, password and certificates are right',
  );
}
