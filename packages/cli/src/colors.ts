import { isatty } from 'node:tty';
import picocolors from 'picocolors';

/** Its own detection is not used: it would look at the arguments too, and those may belong to a command. */
export const colors: ReturnType<typeof picocolors.createColors> = picocolors.createColors(
  !process.env.NO_COLOR && process.env.TERM !== 'dumb' && isatty(1),
);
