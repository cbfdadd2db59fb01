import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { GOODBYE_MS } from './store-kind.js';

/** Something that has connections, and a way to end it that never takes long. */
export interface Ending<T> {
  readonly it: T;
  end(): Promise<void>;
}

/** Sockets that we made for a client, which asks for them one by one. */
export class Sockets {
  readonly #open = new Set<Socket>();

  add(socket: Socket): Socket {
    this.#open.add(socket);
    socket.once('close', () => this.#open.delete(socket));
    return socket;
  }

  /** Clients wait for the server on ending, and a server that says nothing would keep the process from its end. */
  async endSoon(end: () => Promise<void>): Promise<void> {
    const late = new AbortController();
    await Promise.race([
      end().catch(() => {}),
      sleep(GOODBYE_MS, undefined, { signal: late.signal }).catch(() => {}),
    ]);
    late.abort();
    for (const socket of this.#open) socket.destroy();
  }
}
