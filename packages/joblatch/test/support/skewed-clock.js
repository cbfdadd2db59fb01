// For `node --import`: the clock of this host is off by $CLOCK_OFFSET_MS, as far as JavaScript can see.

const offset = Number(process.env.CLOCK_OFFSET_MS);
const RealDate = Date;

globalThis.Date = class extends RealDate {
  constructor(...args) {
    super(...(args.length === 0 ? [RealDate.now() + offset] : args));
  }

  static now() {
    return RealDate.now() + offset;
  }
};
