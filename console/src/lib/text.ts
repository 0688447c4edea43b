// Values and ids as short text.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** `w_1f3a…9c`, for what has a name that nobody reads to its end. */
export function short(id: string | null | undefined, length = 10): string {
  if (!id) return '';
  return id.length > length + 3 ? `${id.slice(0, length)}…` : id;
}

/** One line of a value. */
export function gist(value: unknown, length = 120): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (text === undefined) return '';
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

export function count(value: number, noun: string): string {
  return `${value.toLocaleString('en-US')} ${noun}${value === 1 ? '' : 's'}`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return 'unknown';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let index = 0;
  while (value >= 1_000 && index < units.length - 1) {
    value /= 1_000;
    index += 1;
  }
  return `${value.toFixed(index === 0 || value >= 100 ? 0 : 1)} ${units[index]}`;
}

/** The label of an intent. Those of durable functions name the instance, its run and the await: `$fn/order/17/0.2` is await 2 of order/17. */
export function labelled(label: string): string {
  const [, instance, number, rest] = /^\$fn\/(.+)\/\d+\.(\d+)(\/.*)?$/.exec(label) ?? [];
  return instance === undefined ? label : `${instance}, await ${number}${rest ? `: ${rest.slice(1)}` : ''}`;
}

/** As a shell takes it. */
export function quoted(text: string): string {
  return /^[\w@.,:/=+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** What JSON says, or what is wrong with it. Nothing stands for null. */
export function parsed(text: string): { value?: unknown; problem?: string } {
  if (!text.trim()) return { value: null };
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { problem: `This is not JSON: ${(error as Error).message}` };
  }
}
