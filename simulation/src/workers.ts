import { Worker } from 'node:worker_threads';
import type { Report, Task } from './worker.js';

/** No task takes nearly as long: a worker that does not answer runs in a circle. */
const LIMIT_MS = 300_000;

/** A thread that carries plans out with one build of the library. */
export class Simulator {
  readonly #worker: Worker;

  constructor(dist: string) {
    this.#worker = new Worker(new URL('worker.js', import.meta.url), { workerData: { dist } });
  }

  run(task: Task): Promise<Report> {
    return new Promise((resolve, reject) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#worker.off('error', failed);
        this.#worker.off('message', answered);
      };
      const failed = (error: unknown): void => {
        done();
        reject(error);
      };
      const answered = ({ report, error }: { report?: Report; error?: string }): void => {
        done();
        if (report === undefined) reject(new Error(error));
        else resolve(report);
      };
      const timer = setTimeout(
        () => failed(new Error(`seeds from ${task.from} on gave no result within ${LIMIT_MS / 1_000} s`)),
        LIMIT_MS,
      );
      this.#worker.on('error', failed);
      this.#worker.on('message', answered);
      this.#worker.postMessage(task);
    });
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}
