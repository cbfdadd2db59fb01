import type { AcquireRequest, Granted, Lock } from 'joblatch';
import type { Grant } from './audit.js';

/** What was agreed with whoever holds it. */
export interface Terms {
  /** Of at-least, the values that may count: an extension whose answer was lost leaves two. */
  atLeastMs: number[];
  /** How long it may be held in all, if there is such a limit. */
  readonly atMostMs: number | undefined;
  /** The lease that is renewed; undefined: it ends with its first. */
  readonly renewLeaseMs: number | undefined;
}

/**
 * A grant whose answer has reached the process: what its holder may believe, computed here once more from what went
 * over the network, on the clock of the process.
 */
export class Claim {
  readonly key: string;
  readonly owner: string;
  readonly token: number;
  readonly leaseMs: number;
  readonly grant: Grant;
  readonly sentAt: number;
  /** The latest deadline that the answers allow, and the one that they allow without doubt. */
  deadline: number;
  sureDeadline: number;
  lock: Lock | undefined;
  terms: Terms | undefined;
  capAt = Number.POSITIVE_INFINITY;
  /** The durations of the extensions that are under way. */
  readonly extensions: number[] = [];
  renewalsUnderWay = 0;
  failedRenewals = 0;
  releases = 0;
  releaseAnswers = 0;
  /** How often a release has told its caller that it was held. */
  releasedTrue = 0;
  /** The store has said that it is gone. */
  toldLost = false;
  /** Its holder gives it back, or has. */
  releasing = false;
  /** The function under it has given it back itself. */
  releasedInside = false;
  /** How often the function under it is running; nested runs count. */
  running = 0;
  /** What the function had come to before the release began. */
  succeeded: boolean | undefined;
  signalWatched = false;
  lostEvents = 0;
  releasedEvents = 0;
  /** Was not held once: must stay so. */
  ended = false;
  /** The store answered the release at once: it was gone, before its time. */
  goneAtRelease = false;

  constructor(request: AcquireRequest, answer: Granted, grant: Grant, sentAt: number) {
    this.key = request.key;
    this.owner = request.owner;
    this.token = answer.token;
    this.leaseMs = request.leaseMs;
    this.grant = grant;
    this.sentAt = sentAt;
    this.deadline = deadlineOf(sentAt, Math.min(request.leaseMs, answer.leftMs));
    this.sureDeadline = this.deadline;
  }

  hold(lock: Lock, terms: Terms): void {
    this.lock = lock;
    this.terms = terms;
    if (terms.renewLeaseMs !== undefined && terms.atMostMs !== undefined)
      this.capAt = this.sentAt + terms.atMostMs;
  }

  renewed(sentAt: number, leaseMs: number, now: number, surely: boolean): void {
    if (now >= this.deadline || this.toldLost || this.releasing) return;
    this.deadline = Math.max(this.deadline, deadlineOf(sentAt, leaseMs));
    if (surely && now < this.sureDeadline)
      this.sureDeadline = Math.max(this.sureDeadline, deadlineOf(sentAt, leaseMs));
  }
}

/** A hundredth of the lease and 2 ms are taken off, for clocks that run apart. */
function deadlineOf(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs - (leaseMs * 0.01 + 2);
}
