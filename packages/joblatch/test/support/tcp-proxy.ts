import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A way to a server that can be cut: then connections break, and new ones are refused. */
export class TcpProxy {
  readonly #target: { readonly host: string; readonly port: number };
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #port = 0;

  static async to(url: string): Promise<TcpProxy> {
    const { hostname, port } = new URL(url);
    const proxy = new TcpProxy({ host: hostname, port: Number(port) });
    await proxy.restore();
    return proxy;
  }

  private constructor(target: { readonly host: string; readonly port: number }) {
    this.#target = target;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  /** Called with what each side says; false: it is not passed on. */
  onRequest: (data: Buffer) => boolean = () => true;
  onAnswer: (data: Buffer) => boolean = () => true;

  async cut(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    const closed = new Promise((resolve) => (server === undefined ? resolve(0) : server.close(resolve)));
    this.breakConnections();
    await closed;
  }

  /** They may connect anew. */
  breakConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async restore(): Promise<void> {
    const server = createServer((client) => {
      const target = connect(this.#target);
      const link = (from: Socket, to: Socket, pass: (data: Buffer) => boolean): void => {
        this.#sockets.add(from);
        from.on('data', (data) => pass(data) && to.write(data));
        from.on('error', () => {});
        from.on('close', () => {
          this.#sockets.delete(from);
          to.destroy();
        });
      };
      link(client, target, (data) => this.onRequest(data));
      link(target, client, (data) => this.onAnswer(data));
    });
    server.listen(this.#port, '127.0.0.1');
    await once(server, 'listening');
    this.#server = server;
    this.#port = (server.address() as { port: number }).port;
  }
}
