// The API, with types that are generated from its OpenAPI document (`schema.ts`), so that the page can ask nothing that users cannot.
import { settings } from '../lib/settings';
import type { components, paths } from './schema';

type Schemas = components['schemas'];
export type World = Schemas['World'];
export type WorldDetails = Schemas['WorldDetails'];
export type JournalRecord = Schemas['JournalRecord'] & Record<string, any>;
export type Effect = Schemas['Effect'];
export type EffectsPage = Schemas['EffectsPage'];
export type Timer = Schemas['Timer'];
export type Letter = Schemas['Letter'];
export type Step = Schemas['Step'];
export type Open = Schemas['Open'];
export type Cell = Schemas['Cell'];
export type Difference = Schemas['Difference'];
export type Family = Schemas['Family'];
export type Program = Schemas['Program'];
export type Assigned = Schemas['AssignedWorld'];
export type Worker = Schemas['Worker'];
export type Lease = Schemas['Lease'];
export type Caller = Schemas['Caller'];
export type Summary = Schemas['Summary'];
export type Usage = Schemas['Usage'];
export type Rehearsal = Schemas['RehearsalOf'];
export type Proof = Schemas['ProofReport'];
export type Fork = Schemas['Fork'];
export type Line = Schemas['Line'];
export type FunctionInstance = Schemas['FunctionInstance'];
export type FunctionAwait = Schemas['FunctionAwait'];
export type FunctionDescription = Schemas['FunctionDescription'];
export type Child = Schemas['Child'];
export type Budget = Schemas['Budget'];
export type WhyWorld = Schemas['WhyWorld'];
export type WhyCause = Schemas['WhyCause'];
export type BulkWorld = Schemas['BulkWorld'];
export type WorldCount = Schemas['WorldCount'];
export type Checkup = Schemas['Checkup'];
export type CheckupFinding = Schemas['CheckupFinding'];

export interface Page<T> {
  items: T[];
  next: string | null;
}

/** A refusal of the server, or that it could not be reached. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }

  get isUnreachable(): boolean {
    return this.status === 0;
  }
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P] extends Record<Lowercase<M>, { responses: unknown }> ? P : never }[keyof paths];

export type Query = Record<string, string | number | boolean | undefined | null>;
export interface Asked {
  path?: Record<string, string | number>;
  query?: Query;
  body?: unknown;
  signal?: AbortSignal;
}

// Parameters of a path that may hold slashes.
const SLASHED = ['key', 'instance'];

/** The address of an operation. */
export function address(template: string, asked: Asked = {}): string {
  const path = template.replace(/\{(\w+)\}/g, (_, name) => {
    const value = String(asked.path?.[name] ?? '');
    return SLASHED.includes(name) ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value);
  });
  const given = Object.entries(asked.query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return query ? `${path}?${query}` : path;
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  const { token } = settings();
  return token ? { authorization: `Bearer ${token}`, ...more } : more;
}

// Whether the server answers: the shell shows it.
type Reach = 'unknown' | 'reached' | 'lost';
let reach: Reach = 'unknown';
const reachListeners = new Set<(reach: Reach) => void>();

export function onReach(listener: (reach: Reach) => void): () => void {
  reachListeners.add(listener);
  listener(reach);
  return () => void reachListeners.delete(listener);
}

function reached(now: Reach) {
  if (now === reach) return;
  reach = now;
  reachListeners.forEach((listener) => listener(now));
}

async function send(method: Method, url: string, asked: Asked, accept?: string): Promise<Response> {
  const body = asked.body === undefined ? undefined : JSON.stringify(asked.body);
  const more: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
  if (accept) more.accept = accept;
  let response: Response;
  try {
    response = await fetch(url, { method, headers: headers(more), body, signal: asked.signal, cache: 'no-store' });
  } catch (error) {
    if (asked.signal?.aborted) throw error;
    reached('lost');
    throw new Refusal(0, 'UNREACHABLE', 'The server does not answer.');
  }
  reached('reached');
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Refusal(response.status, problem.code ?? String(response.status), problem.detail ?? problem.title ?? response.statusText);
}

async function json<T>(method: Method, template: string, asked: Asked): Promise<T> {
  const response = await send(method, address(template, asked), asked);
  const text = await response.text();
  return (text ? JSON.parse(text) : null) as T;
}

export const api = {
  get: <T>(template: PathsWith<'GET'>, asked: Asked = {}) => json<T>('GET', template, asked),
  post: <T>(template: PathsWith<'POST'>, asked: Asked = {}) => json<T>('POST', template, asked),
  put: <T>(template: PathsWith<'PUT'>, asked: Asked = {}) => json<T>('PUT', template, asked),
  delete: <T>(template: PathsWith<'DELETE'>, asked: Asked = {}) => json<T>('DELETE', template, asked),
  text: async (template: PathsWith<'GET'>, asked: Asked = {}) => (await send('GET', address(template, asked), asked)).text(),
};

/** Server-sent events, with the token in a header as `EventSource` cannot. Ends when the server ends it, which it does after a while. */
export async function* events(template: PathsWith<'GET'>, asked: Asked): AsyncGenerator<{ id: string; data: string }> {
  const response = await send('GET', address(template, asked), asked, 'text/event-stream');
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split('\n\n');
    rest = blocks.pop()!;
    for (const block of blocks) {
      const field = (name: string) => block.split('\n').filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart()).join('\n');
      const data = field('data');
      if (data) yield { id: field('id'), data };
    }
  }
}
