// Moments and durations for people.
import { settings } from './settings';

const two = (value: number) => String(value).padStart(2, '0');

function parts(at: Date) {
  return settings().zone === 'utc'
    ? { y: at.getUTCFullYear(), mo: at.getUTCMonth(), d: at.getUTCDate(), h: at.getUTCHours(), mi: at.getUTCMinutes(), s: at.getUTCSeconds() }
    : { y: at.getFullYear(), mo: at.getMonth(), d: at.getDate(), h: at.getHours(), mi: at.getMinutes(), s: at.getSeconds() };
}

/** `2026-03-01 12:00:05.123`, in the zone of the settings. */
export function moment(text: string | null | undefined): string {
  if (!text) return '';
  const at = new Date(text);
  const { y, mo, d, h, mi, s } = parts(at);
  return `${y}-${two(mo + 1)}-${two(d)} ${two(h)}:${two(mi)}:${two(s)}.${String(at.getUTCMilliseconds()).padStart(3, '0')}`;
}

/** Only the time of the day if that is today. */
export function clock(text: string | null | undefined): string {
  const whole = moment(text);
  const today = moment(new Date().toISOString()).slice(0, 10);
  return whole.startsWith(today) ? whole.slice(11) : whole.slice(0, 19);
}

export function bothZones(text: string): string {
  const at = new Date(text);
  return `${text} (UTC)\n${at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' })} (local)`;
}

export function milliseconds(text: string | null | undefined): number | undefined {
  return text ? Date.parse(text) : undefined;
}

/** `1.2 s`, `3 min`. */
export function duration(ms: number): string {
  const size = Math.abs(ms);
  if (size < 1) return '<1 ms';
  if (size < 1_000) return `${Math.round(ms)} ms`;
  if (size < 60_000) return `${(ms / 1_000).toFixed(size < 10_000 ? 1 : 0)} s`;
  if (size < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (size < 172_800_000) return `${(ms / 3_600_000).toFixed(size < 36_000_000 ? 1 : 0)} h`;
  return `${Math.round(ms / 86_400_000)} days`;
}

/** `3 min ago`, `in 20 s`. */
export function relative(text: string | null | undefined, now = Date.now()): string {
  const at = milliseconds(text);
  if (at === undefined) return '';
  const away = at - now;
  if (Math.abs(away) < 1_000) return 'now';
  return away < 0 ? `${duration(-away)} ago` : `in ${duration(away)}`;
}

/** What a world waits for, behind the word “waits”. */
export function waiting({ waits }: { waits?: string | null }): string | undefined {
  if (!waits) return undefined;
  if (waits === 'resume') return 'to be resumed';
  const due = /^a timer at (\S+)$/.exec(waits)?.[1];
  return due ? `for a timer, due ${relative(due, Date.now())}` : `for ${waits}`;
}
