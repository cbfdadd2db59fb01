import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root: string = fileURLToPath(new URL('../..', import.meta.url));

export interface Snippet {
  readonly file: string;
  readonly line: number;
  readonly language: string;
  readonly code: string;
  /** What it prints, if a block of text follows. */
  readonly output: string | undefined;
}

const FENCE = /^```(\w+)\n([\s\S]*?)^```$/gm;

/** The code blocks of a page, each with the text block that follows it as its output. */
export function snippetsOf(file: string): Snippet[] {
  const page = readFileSync(`${root}/${file}`, 'utf8');
  const blocks = [...page.matchAll(FENCE)].map((match) => ({
    language: match[1] as string,
    code: match[2] as string,
    from: match.index,
    to: match.index + match[0].length,
  }));
  return blocks.flatMap(({ language, code, from, to }, i) => {
    if (language === 'text' || language === 'sql') return [];
    const next = blocks[i + 1];
    const follows = next?.language === 'text' && page.slice(to, next.from).trim() === '';
    const line = page.slice(0, from).split('\n').length;
    return [{ file, line, language, code, output: follows ? next.code : undefined }];
  });
}
