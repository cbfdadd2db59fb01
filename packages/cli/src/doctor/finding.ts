export const SEVERITIES = ['ok', 'info', 'warning', 'error'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** One thing that was looked at. */
export interface Finding {
  /** `warning`: a promise of joblatch can be broken. `error`: locks can not be taken, or mean nothing. */
  readonly severity: Severity;
  /** What was looked at; stays the same from release to release, whatever was found. */
  readonly code: string;
  readonly found: string;
  /** What follows from it. */
  readonly means?: string | undefined;
  /** What to do about it. */
  readonly remedy?: string | undefined;
}

type Maker = (code: string, found: string, means?: string, remedy?: string) => Finding;

const maker =
  (severity: Severity): Maker =>
  (code, found, means, remedy) => ({
    severity,
    code,
    found,
    ...(means !== undefined && { means }),
    ...(remedy !== undefined && { remedy }),
  });

export const ok: Maker = maker('ok');
export const info: Maker = maker('info');
export const warning: Maker = maker('warning');
export const error: Maker = maker('error');

export function count(findings: readonly Finding[], severity: Severity): number {
  return findings.filter((finding) => finding.severity === severity).length;
}

/** A part of the examination that the store may not let us do is a finding, and does not end the rest. */
export async function attempt(
  code: string,
  look: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await look();
  } catch (failure) {
    const reason = failure instanceof Error ? failure.message : String(failure);
    return [info(code, `could not be looked at: ${reason}`)];
  }
}
