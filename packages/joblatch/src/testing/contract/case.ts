import type { LockProvider, ProviderAbilities } from '../../provider/lock-provider.js';
import type { ContractOptions } from './options.js';
import { Scene, TooSlowError } from './scene.js';

/** What a case asks of the store or of the options; where it is missing, the case is skipped with a reason. */
export type Need =
  | keyof ProviderAbilities
  /** The store declares that it does not keep slots. */
  | 'noSlots'
  /** The store is a database in which a transaction of the application can be guarded. */
  | 'guard'
  /** Others are served while a transaction of the application is open. */
  | 'manyWriters'
  | 'clock'
  | 'openSkewed'
  | 'deleteRecord'
  | 'writeOldRecord'
  | 'obstruct'
  | 'beginTransaction'
  | 'notBegun'
  | 'interrupt'
  | 'moduleUrl'
  /** The system can stop and continue a process. */
  | 'processSignals';

/** One sentence of the specification, and how to find out whether a provider keeps it. */
export interface ContractCase {
  readonly name: string;
  readonly needs: readonly Need[];
  /**
   * Opens what it needs, checks, and closes it again, whatever happens.
   *
   * @throws AssertionError saying what was expected and what was found
   */
  run(): Promise<CaseReport>;
}

export interface CaseReport {
  /** Why the case does not apply to this store or can not be checked with these options: print it. */
  readonly skip?: string;
  /** What a reader may want to see: how often takers were refused, for instance. */
  readonly notes: readonly string[];
}

/** How a case is written down: a name, what it needs, and what is played on a {@link Scene}. */
export interface CaseDefinition {
  readonly name: string;
  readonly needs: readonly Need[];
  readonly play: (scene: Scene) => Promise<void>;
}

/** Writes a case down; needs come before the play, as they are read. */
export function define(
  name: string,
  needs: readonly Need[],
  play: (scene: Scene) => Promise<void>,
): CaseDefinition {
  return { name, needs, play };
}

/** A lease that ran out before the question was answered proves nothing: the case is played again, slower. */
const ATTEMPTS = 4;
const SLOWER_BY = 3;

export function bindCase(definition: CaseDefinition, options: ContractOptions, prefix: string): ContractCase {
  const { name, needs, play } = definition;
  const run = async (): Promise<CaseReport> => {
    for (let attempt = 0; ; attempt += 1) {
      const scene = await Scene.open(options, `${prefix}${attempt}.`, SLOWER_BY ** attempt);
      try {
        const skip = needs.map((need) => whyNot(need, scene, options)).find((r) => r !== undefined);
        if (skip !== undefined) return { skip, notes: [] };
        await play(scene);
        return { notes: scene.notes };
      } catch (error) {
        if (!(error instanceof TooSlowError) || attempt + 1 === ATTEMPTS) throw error;
      } finally {
        await scene.close();
      }
    }
  };
  return { name, needs, run };
}

interface Found {
  readonly client: LockProvider;
  readonly abilities: ProviderAbilities;
}

function whyNot(need: Need, { client, abilities }: Found, options: ContractOptions): string | undefined {
  switch (need) {
    case 'noSlots':
      return abilities.slots ? 'the store declares that it keeps slots' : undefined;
    case 'guard':
      return client.guard === undefined ? 'the store can not guard a transaction' : undefined;
    case 'manyWriters':
      return options.oneWriter ? 'the store lets nobody in beside an open transaction' : undefined;
    case 'processSignals':
      return process.platform === 'win32' ? 'Windows can not stop and continue a process' : undefined;
    case 'clock':
    case 'openSkewed':
    case 'deleteRecord':
    case 'writeOldRecord':
    case 'obstruct':
    case 'beginTransaction':
    case 'notBegun':
    case 'interrupt':
    case 'moduleUrl':
      return options[need] === undefined ? `the option ${need} was not given` : undefined;
    default:
      return abilities[need] ? undefined : `the store declares ${need}: false`;
  }
}
