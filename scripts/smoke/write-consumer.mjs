// Writes a TypeScript consumer of all paths, once as an ES module and once as CommonJS, and its strict config.
//
//   node write-consumer.mjs <folder of @types>
import { writeFileSync } from 'node:fs';
import { paths } from './paths.cjs';

const [types] = process.argv.slice(2);

writeFileSync(
  'tsconfig.json',
  JSON.stringify({
    compilerOptions: {
      target: 'es2022',
      module: 'nodenext',
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      noEmit: true,
      typeRoots: [types],
      types: ['node'],
    },
    files: ['consumer.mts', 'consumer.cts'],
  }),
);
writeFileSync(
  'consumer.mts',
  paths
    .map(
      (path, i) => `import * as path${i} from '${path}';\nexport const keys${i} = Object.keys(path${i});\n`,
    )
    .join(''),
);
writeFileSync(
  'consumer.cts',
  paths
    .map(
      (path, i) => `import path${i} = require('${path}');\nexport const keys${i} = Object.keys(path${i});\n`,
    )
    .join(''),
);
