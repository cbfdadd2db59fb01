import { colors } from '../colors.js';
import { printable } from '../printable.js';
import { redact } from '../redact.js';
import { formatTable } from '../table.js';
import { count, type Finding, SEVERITIES, type Severity } from './finding.js';

export interface Report {
  /** Without password. */
  readonly store: string;
  readonly findings: readonly Finding[];
}

const COLOR: Readonly<Record<Severity, (text: string) => string>> = {
  ok: colors.green,
  info: colors.cyan,
  warning: colors.yellow,
  error: colors.red,
};

/** Findings hold what servers and drivers say, so nothing is shown as it came. */
const safe = (text: string): string => printable(redact(text)).replaceAll('\\\\', '\\');

/** A line for each finding; then, the gravest first, what those that matter mean and what to do. */
export function formatReport({ store, findings }: Report): string {
  const rows = findings.map(({ severity, code, found }) => [COLOR[severity](severity), code, safe(found)]);
  const grave = [...SEVERITIES]
    .reverse()
    .flatMap((severity) => findings.filter((finding) => finding.severity === severity))
    .filter(({ means, remedy }) => means !== undefined || remedy !== undefined);
  const details = grave.flatMap(({ severity, code, means, remedy }) => [
    '',
    `${COLOR[severity](severity)}: ${code}`,
    ...(means === undefined ? [] : [`  ${safe(means)}`]),
    ...(remedy === undefined ? [] : [`  do: ${safe(remedy)}`]),
  ]);
  const tally = SEVERITIES.map((severity) => `${count(findings, severity)} ${severity}`).join(', ');
  return [safe(store), '', formatTable([], rows), ...details, '', tally].join('\n');
}

export function reportJson({ store, findings }: Report): object {
  const clean = (finding: Finding): object =>
    Object.fromEntries(Object.entries(finding).map(([name, text]) => [name, redact(String(text))]));
  const worst = [...SEVERITIES].reverse().find((severity) => count(findings, severity) > 0) ?? 'ok';
  return { store: redact(store), worst, findings: findings.map(clean) };
}
