// A client of Redis that is none of those that are tested: for looking behind the provider's back.

import { connect } from 'node:net';

/**
 * Sends one command on a connection of its own, and answers what the server does: text, number, list or null.
 *
 * @param {string} url redis://host:port
 * @param {...(string | number)} words
 */
export function redis(url, ...words) {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let received = Buffer.alloc(0);
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`no whole answer to ${words[0]}`)));
    socket.on('data', (data) => {
      received = Buffer.concat([received, data]);
      const parsed = parse(received, 0);
      if (parsed === undefined) return;
      resolve(parsed.value);
      socket.destroy();
    });
    const bulk = (word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`;
    socket.write(`*${words.length}\r\n${words.map(bulk).join('')}`);
  });
}

/** @returns {{ value: unknown, next: number } | undefined} undefined: not all of it has come */
function parse(bytes, at) {
  const end = bytes.indexOf('\r\n', at);
  if (end < 0) return undefined;
  const kind = String.fromCharCode(bytes[at]);
  const line = bytes.toString('utf8', at + 1, end);
  const next = end + 2;
  if (kind === '+') return { value: line, next };
  if (kind === '-') return { value: new Error(line), next };
  if (kind === ':') return { value: Number(line), next };
  const size = Number(line);
  if (size < 0) return { value: null, next };
  if (kind === '$')
    return bytes.length < next + size + 2
      ? undefined
      : { value: bytes.toString('utf8', next, next + size), next: next + size + 2 };
  const list = [];
  let from = next;
  for (let i = 0; i < size; i += 1) {
    const item = parse(bytes, from);
    if (item === undefined) return undefined;
    list.push(item.value);
    from = item.next;
  }
  return { value: list, next: from };
}
