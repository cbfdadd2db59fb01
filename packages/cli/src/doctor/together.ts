import type { Finding } from './finding.js';

/** What was found at one of several servers. */
export interface Examined {
  readonly address: string;
  readonly findings: readonly Finding[];
}

/**
 * What was found at several servers, each thing told once: what is the same at all of them as such, and where they differ
 * which has what. Different severities, meanings and remedies stay apart.
 */
export function together(servers: readonly Examined[]): readonly Finding[] {
  const all = servers.flatMap(({ address, findings }) => findings.map((finding) => ({ address, finding })));
  const codes = new Set(all.map(({ finding }) => finding.code));
  return [...codes].flatMap((code) => {
    const groups = new Map<string, typeof all>();
    for (const one of all) {
      const { severity, means, remedy } = one.finding;
      if (one.finding.code !== code) continue;
      const kind = JSON.stringify([severity, means, remedy]);
      groups.set(kind, [...(groups.get(kind) ?? []), one]);
    }
    return [...groups.values()].map((group) => merge(group, servers.length));
  });
}

function merge(
  group: readonly { readonly address: string; readonly finding: Finding }[],
  servers: number,
): Finding {
  const places = new Map<string, string[]>();
  for (const { address, finding } of group)
    places.set(finding.found, [...(places.get(finding.found) ?? []), address]);
  const texts = [...places].map(([found, addresses]) =>
    addresses.length === servers ? `all ${servers}: ${found}` : `${addresses.join(', ')}: ${found}`,
  );
  return { ...(group[0] as { readonly finding: Finding }).finding, found: texts.join('; ') };
}
