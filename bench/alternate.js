// Contestants take turns in short slices, so that what else the machine does falls on all of them alike; a
// ratio is made of two slices of the same round.

/** Runs `operation(worker, turn, workers)` in `workers` loops for a while. */
async function slice(operation, workers, ms) {
  // What the one before left behind is not his to clean up.
  globalThis.gc?.({ type: 'minor' });
  const cpu = process.cpuUsage();
  const start = performance.now();
  const end = start + ms;
  let count = 0;
  const loop = async (worker) => {
    for (let turn = 0; performance.now() < end; turn += 1) {
      await operation(worker, turn, workers);
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: workers }, (_, worker) => loop(worker)));
  const seconds = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { rate: count / seconds, cpuUs: (user + system) / count };
}

/** Until the engine has compiled what it is going to compile: code that runs seldom is slow in any library. */
export async function warmUp(entries, { operations, atMostMs }) {
  for (const { operation, alone } of entries) {
    const end = performance.now() + atMostMs;
    const workers = alone ? 1 : 16;
    const loop = async (worker) => {
      for (let turn = 0; turn < operations / workers && performance.now() < end; turn += 1)
        await operation(worker, turn, workers);
    };
    await Promise.all(Array.from({ length: workers }, (_, worker) => loop(worker)));
  }
}

function shuffled(list) {
  const left = [...list];
  return list.map(() => left.splice(Math.floor(Math.random() * left.length), 1)[0]);
}

/**
 * @param entries `{ name, operation }` each; ratios are to the first one, the floor
 * @returns one figure an entry, in their order
 */
export async function alternate(entries, workers, { sliceMs, rounds, warmUpRounds }) {
  const slices = new Map(entries.map((entry) => [entry, []]));
  for (let round = 0; round < warmUpRounds + rounds; round += 1) {
    for (const entry of shuffled(entries)) {
      const result = await slice(entry.operation, workers, sliceMs);
      if (round >= warmUpRounds) slices.get(entry).push(result);
    }
  }
  const floor = slices.get(entries[0]);
  return entries.map((entry) => {
    const own = slices.get(entry);
    return {
      name: entry.name,
      kind: entry.kind,
      token: entry.token,
      perSecond: quartiles(own.map(({ rate }) => rate)),
      ofFloor: quartiles(own.map(({ rate }, round) => rate / floor[round].rate)),
      cpuUs: quartiles(own.map(({ cpuUs }) => cpuUs)),
      cpuOfFloor: quartiles(own.map(({ cpuUs }, round) => cpuUs / floor[round].cpuUs)),
    };
  });
}

function quartiles(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => {
    const place = share * (sorted.length - 1);
    const low = Math.floor(place);
    return sorted[low] + (sorted[Math.ceil(place)] - sorted[low]) * (place - low);
  };
  return { median: at(0.5), low: at(0.25), high: at(0.75) };
}
