import Table from 'cli-table3';

const PLAIN = { style: { head: [], border: [], compact: true } };

export function printMachine(say, { machine }) {
  const { packages, ...rest } = machine;
  for (const [name, value] of Object.entries(rest)) say(`${name.padEnd(10)} ${value}`);
  say(`${'beside'.padEnd(10)} ${packages.join(', ')}`);
}

export function printFigures(say, title, figures) {
  const table = new Table({
    ...PLAIN,
    head: ['', 'per second', 'middle half', 'of the floor', 'middle half', 'CPU µs each', 'token'],
    colAligns: ['left', 'right', 'right', 'right', 'right', 'right', 'left'],
  });
  for (const { name, kind, token, perSecond, ofFloor, cpuUs } of figures) {
    table.push([
      kind === 'floor' ? `${name} (floor)` : name,
      whole(perSecond.median),
      `${whole(perSecond.low)}–${whole(perSecond.high)}`,
      ofFloor.median.toFixed(2),
      `${ofFloor.low.toFixed(2)}–${ofFloor.high.toFixed(2)}`,
      cpuUs.median.toFixed(1),
      token ? 'yes' : token === false ? 'no' : '',
    ]);
  }
  say(`\n${title}\n${table}`);
}

/** `counted`: for each contestant its name, how often it was done, and the counts of it all. */
export function printCounts(say, title, counted) {
  const columns = Object.keys(counted[0]).filter((column) => column !== 'name' && column !== 'times');
  const table = new Table({
    ...PLAIN,
    head: ['', 'times', ...columns],
    colAligns: [
      'left',
      'right',
      ...columns.map((column) => (typeof counted[0][column] === 'number' ? 'right' : 'left')),
    ],
  });
  for (const one of counted)
    table.push([
      one.name,
      whole(one.times),
      ...columns.map((column) => (typeof one[column] === 'number' ? whole(one[column]) : one[column])),
    ]);
  say(`\n${title}\n${table}`);
}

function whole(value) {
  return Math.round(value).toLocaleString('en-US');
}
