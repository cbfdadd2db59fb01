/** Those that ask a program to end. Before the command has started they end joblatch itself. */
const ENDING = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const;
/** Those that mean something to the command, if to anyone. */
const TELLING = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const;
/** What the terminal sends to all of its foreground group, so that the command there has them already. */
const OF_TERMINAL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT', 'SIGWINCH'];

/** What signals are passed on to. */
export interface SignalTarget {
  send(signal: NodeJS.Signals): void;
  /** Called when joblatch goes on after it was stopped, before the command does. */
  resumed(): void;
}

/** What a signal does to joblatch while a command runs, and before. */
export interface SignalRelay {
  /** Aborts, with the signal as the reason, when asked to end while there was no target. */
  readonly interrupted: AbortSignal;
  /** From now on signals go to the command, from its start to its end. */
  passTo(target: SignalTarget): void;
  /** The default effects come back. */
  close(): void;
}

/**
 * Takes over the signals of this process. Must be there before the lock is asked for: the default effect of
 * SIGTERM would leave the lock behind.
 */
export function relaySignals(options: { readonly foreground: boolean }): SignalRelay {
  const interruption = new AbortController();
  let target: SignalTarget | undefined;
  const undo: (() => void)[] = [];
  const on = (signal: NodeJS.Signals, listener: () => void): void => {
    process.on(signal, listener);
    undo.push(() => process.off(signal, listener));
  };

  for (const signal of ENDING) {
    on(signal, () => {
      if (target === undefined) interruption.abort(signal);
      else if (!options.foreground || !OF_TERMINAL.includes(signal)) target.send(signal);
    });
  }
  for (const signal of TELLING) {
    on(signal, () => {
      if (!options.foreground || !OF_TERMINAL.includes(signal)) target?.send(signal);
    });
  }
  if (process.platform !== 'win32' && !options.foreground) {
    // Ctrl-Z reaches joblatch alone, since the command is in another session. It must stop first: a command
    // that runs while nobody renews its lock is what joblatch is there to prevent. SIGSTOP, because the system
    // ignores SIGTSTP in a process group without a shell that could continue it.
    on('SIGTSTP', () => {
      target?.send('SIGSTOP');
      process.kill(process.pid, 'SIGSTOP');
    });
    on('SIGCONT', () => {
      target?.resumed();
      target?.send('SIGCONT');
    });
  }
  return {
    interrupted: interruption.signal,
    passTo(next) {
      target = next;
      // It came while the command was being started.
      if (interruption.signal.aborted) next.send(interruption.signal.reason as NodeJS.Signals);
    },
    close() {
      for (const one of undo) one();
    },
  };
}
