const MASK = '***';

/** Greedy, for a password may hold an unescaped `@` or `/`: rather too much is hidden than too little. */
const USER_INFO = /([a-z][a-z0-9+.-]*:\/\/)[^\s"'<>]*@/gi;
const SECRET_PARAMETER = /([?&;](?:\w*passw(?:or)?d|pwd|pass|auth|token|secret)=)[^&;\s"']*/gi;

/** For the whole process: whatever message comes along, from whatever driver, is cleaned of these. */
const secrets = new Set<string>();

/** From now on {@link redact} hides this text, plain and as it looks in a URL. */
export function hideSecret(secret: string): void {
  for (const form of [secret, encodeURIComponent(secret), decoded(secret)]) {
    if (form !== '') secrets.add(form);
  }
}

/** Hides passwords: those that were told to {@link hideSecret}, and whatever looks like one in a URL. */
export function redact(text: string): string {
  // The longest first: one secret may be a part of another.
  const known = [...secrets].sort((a, b) => b.length - a.length);
  const masked = known.reduce((rest, secret) => rest.replaceAll(secret, MASK), text);
  return masked.replace(USER_INFO, `$1${MASK}@`).replace(SECRET_PARAMETER, `$1${MASK}`);
}

/** The password in a URL as it stands there, percent signs and all; undefined if there is none. */
export function passwordIn(url: string): string | undefined {
  const userInfo = /^[a-z][a-z0-9+.-]*:\/\/(.*)@/is.exec(url)?.[1];
  const colon = userInfo?.indexOf(':') ?? -1;
  return colon < 0 ? undefined : userInfo?.slice(colon + 1);
}

/** Without percent escapes, where they are such. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // A lone percent sign: then it was not encoded in the first place.
  }
}
