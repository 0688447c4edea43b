// What a button does, as commands that can be copied into a terminal.
import { address, type Asked } from '../api/client';
import { quoted } from './text';
import { settings } from './settings';

export interface Command {
  mundi?: string;
  curl: string;
}

export function curl(method: string, template: string, asked: Asked = {}): string {
  const parts = ['curl', '-sS'];
  if (method !== 'GET') parts.push('-X', method);
  if (settings().token) parts.push('-H', '"authorization: Bearer $MUNDI_TOKEN"');
  if (asked.body !== undefined) parts.push('-H', "'content-type: application/json'", '-d', quoted(JSON.stringify(asked.body)));
  parts.push(quoted(`${location.origin}${address(template, asked)}`));
  return parts.join(' ');
}

/** `mundi world pause …`, with what says which server and universe are meant. */
export function mundi(universe: string | undefined, ...words: (string | number | undefined | false)[]): string {
  const given = words.filter((word): word is string | number => word !== undefined && word !== false && word !== '');
  const where = location.origin === 'http://127.0.0.1:7600' ? [] : ['--url', location.origin];
  const inside = universe && universe !== 'default' ? ['--universe', universe] : [];
  return ['mundi', ...given.map((word) => quoted(String(word))), ...inside, ...where].join(' ');
}

/** Two commands, the second only if the first is done. */
export function both(first: Command, second: Command): Command {
  const joined = (a: string | undefined, b: string | undefined) => (a !== undefined && b !== undefined ? `${a} && ${b}` : undefined);
  return { mundi: joined(first.mundi, second.mundi), curl: joined(first.curl, second.curl)! };
}

export function command(universe: string, words: (string | number | undefined | false)[] | undefined, method: string, template: string, asked: Asked = {}): Command {
  return { mundi: words && mundi(universe, ...words), curl: curl(method, template, asked) };
}
