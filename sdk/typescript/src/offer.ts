/** What a program's mundi.json allows, the bounds of a server, and whether something is allowed by both. */

import { decode } from "./cbor.ts";
import { isValid } from "./schema.ts";

/** Something that a server would refuse, by the code that it would answer with. */
export class Refused extends Error {
  constructor(
    readonly code: string,
    reason: string,
  ) {
    super(reason);
    this.name = "Refused";
  }
}

/** The content of a mundi.json. */
export interface Offer {
  /** What it is called where it is uploaded to. */
  name?: string;
  /** Its number there; the next free one if it is left out. */
  version?: number;
  events?: Record<string, unknown>;
  effects?: Record<string, { params?: unknown; receipt?: unknown; message_ids?: boolean; [more: string]: unknown }>;
  queries?: Record<string, unknown>;
  limits?: Partial<Record<string, number>>;
  on_failure?: unknown;
  wasm?: unknown;
}

export const PAYLOAD_BYTES_MAX = 1 << 20;
export const NAME_BYTES_MAX = 256;
export const CELL_KEY_BYTES_MAX = 512;
export const CELL_VALUE_BYTES_MAX = 1 << 20;
export const SCAN_ITEMS_MAX = 1000;
export const SCAN_BYTES_MAX = 1 << 20;
export const STEP_LOGS_MAX = 100;
const HEADERS_MAX = 64;
const HEADERS_BYTES_MAX = 16 << 10;
const PAYLOAD_INLINE_BYTES_MAX = 16 << 10;
const STEP_OUTPUT_BYTES_MAX = 1_000_000;
const SCAN_CALLS = 16;
const HASH_BYTES = 32;

/** What holds if mundi.json says nothing, and the most that it may say. */
const LIMITS: Record<string, [number, number]> = {
  open_intents_max: [1000, 10_000],
  timers_max: [1000, 10_000],
  step_calls_max: [100_000, 1_000_000],
  step_bytes_max: [16 << 20, 64 << 20],
  step_outputs_max: [256, 256],
  max_active_children: [2, 64],
};
/** The same of `wasm.limits`. A stack is a power of two. */
const WASM_LIMITS: Record<string, [number, number]> = {
  fuel_max: [50_000_000, 1_000_000_000],
  memory_bytes_max: [128 << 20, 256 << 20],
  table_elements_max: [100_000, 100_000],
  stack_bytes_max: [512 << 10, 1 << 20],
};
const WASM_STACK_BYTES_MIN = 64 << 10;
const DAY_MS = 24 * 60 * 60 * 1000;
const U32_MAX = 2 ** 32 - 1;
const RETRY: Record<string, number> = { attempts_max: 100, backoff_ms: DAY_MS, backoff_ms_max: DAY_MS };
const RATE: Record<string, number> = { per_second: U32_MAX, burst: U32_MAX };
/** Kinds whose receipts no adapter gives, so that they carry no signature. */
const UNSIGNED = ["world.call", "child.spawn"];
const FIELDS = ["name", "version", "events", "effects", "queries", "limits", "on_failure", "wasm"];
const RULE_FIELDS = ["params", "receipt", "timeout_ms", "retry", "rate", "message_ids", "signed"];

const own = <T>(map: Record<string, T> | undefined, name: string): T | undefined =>
  map && Object.prototype.hasOwnProperty.call(map, name) ? map[name] : undefined;

export class Rules {
  readonly limits: Record<string, number>;

  constructor(private offer: Offer) {
    known("mundi.json", offer, FIELDS);
    this.limits = limitsOf("limits", offer.limits ?? {}, LIMITS);
    for (const [kind, rule] of Object.entries(offer.effects ?? {})) checkRule(kind, rule);
    checkOnFailure(offer.on_failure ?? "continue");
    const wasm = (offer.wasm ?? {}) as { limits?: object };
    known("wasm", wasm, ["limits"]);
    const stack = limitsOf("wasm.limits", wasm.limits ?? {}, WASM_LIMITS)["stack_bytes_max"]!;
    if (stack < WASM_STACK_BYTES_MIN || !Number.isInteger(Math.log2(stack))) {
      throw invalid(`wasm.limits.stack_bytes_max is ${stack}, not a power of two of at least ${WASM_STACK_BYTES_MIN}`);
    }
  }

  declares(kind: string): boolean {
    return own(this.offer.effects, kind) !== undefined;
  }

  get choosesMessageIds(): boolean {
    return own(this.offer.effects, "fabric.send")?.message_ids === true;
  }

  checkEvent(schema: string, value: Uint8Array): void {
    check(own(this.offer.events, schema), "event", schema, value, "EVENT_INVALID");
  }

  checkQuery(name: string, params: Uint8Array): void {
    check(own(this.offer.queries, name), "query", name, params, "QUERY_INVALID");
  }

  checkEffect(kind: string, params: Uint8Array): void {
    const rule = own(this.offer.effects, kind);
    check(rule && (rule.params ?? true), "effect", kind, params, "OUTPUT_REFUSED");
  }

  acceptsReceipt(kind: string, payload: Uint8Array): boolean {
    const rule = own(this.offer.effects, kind);
    try {
      check(rule?.receipt ?? true, "receipt of", kind, payload, "RECEIPT_INVALID");
      return true;
    } catch (error) {
      if (error instanceof Refused && error.code === "RECEIPT_INVALID") return false;
      throw error;
    }
  }
}

const invalid = (why: string) => new Refused("MANIFEST_INVALID", `mundi.json: ${why}`);

function known(section: string, what: unknown, fields: string[]): void {
  if (typeof what !== "object" || what === null || Array.isArray(what)) throw invalid(`${section} is no object`);
  for (const name of Object.keys(what)) if (!fields.includes(name)) throw invalid(`unknown field \`${name}\``);
}

function whole(name: string, value: unknown, most: number): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) {
    throw invalid(`${name} is ${JSON.stringify(value)}, not a whole number`);
  }
  if (value > most) throw invalid(`${name} is ${value}, beyond the kernel's ${most}`);
  return value;
}

/** Each limit: as it is said, or as it holds if nothing is said. */
function limitsOf(section: string, said: object, bounds: Record<string, [number, number]>): Record<string, number> {
  known(section, said, Object.keys(bounds));
  return Object.fromEntries(
    Object.entries(bounds).map(([name, [usual, most]]) => {
      const value = own(said as Record<string, unknown>, name);
      return [name, whole(`${section}.${name}`, value === undefined ? usual : value, most)];
    }),
  );
}

function checkRule(kind: string, rule: { [more: string]: unknown }): void {
  const section = `effects.${kind}`;
  known(section, rule, RULE_FIELDS);
  for (const name of ["message_ids", "signed"]) {
    if (![undefined, true, false].includes(rule[name] as boolean | undefined)) {
      throw invalid(`${section}.${name} is neither true nor false`);
    }
  }
  if (rule["signed"] && UNSIGNED.includes(kind)) {
    throw invalid(`${section}.signed: no adapter answers it, so its receipt is not signed`);
  }
  if (rule["timeout_ms"] != null) whole(`${section}.timeout_ms`, rule["timeout_ms"], DAY_MS);
  for (const [name, fields] of [["retry", RETRY], ["rate", RATE]] as const) {
    if (rule[name] == null) continue;
    known(`${section}.${name}`, rule[name], Object.keys(fields));
    const said = rule[name] as Record<string, unknown>;
    for (const [field, most] of Object.entries(fields)) whole(`${section}.${name}.${field}`, own(said, field), most);
  }
}

function checkOnFailure(said: unknown): void {
  if (said === "continue" || said === "hold") return;
  known("on_failure", said, ["pause_after"]);
  whole("on_failure.pause_after", own(said as Record<string, unknown>, "pause_after"), U32_MAX);
}

function check(schema: unknown, what: string, name: string, bytes: Uint8Array, code: string): void {
  if (schema === undefined) throw new Refused(code, `mundi.json declares no ${what} \`${name}\``);
  let value: unknown;
  try {
    value = decode(bytes);
  } catch (error) {
    throw new Refused(code, `the ${what} \`${name}\`: ${(error as Error).message}`);
  }
  if (!isValid(schema, seen(value))) throw new Refused(code, `the ${what} \`${name}\` does not satisfy its schema`);
}

/** The value as a schema sees it: bytes are a text in base 64. */
function seen(value: any): unknown {
  if (value instanceof Uint8Array) return base64(value);
  if (Array.isArray(value)) return value.map(seen);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, seen(part)]));
}

function base64(bytes: Uint8Array): string {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const group = (bytes[at]! << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
    for (let digit = 0; digit < 4; digit++) {
      text += at + digit <= bytes.length ? digits[(group >> (18 - 6 * digit)) & 63] : "=";
    }
  }
  return text;
}

const refused = (reason: string) => new Refused("OUTPUT_REFUSED", reason);
export const byteLength = (text: string) => new TextEncoder().encode(text).length;

export function checkName(what: string, name: string): void {
  const bytes = byteLength(name);
  if (bytes === 0) throw refused(`the ${what} is empty`);
  if (bytes > NAME_BYTES_MAX) throw refused(`the ${what} has ${bytes} bytes`);
}

export function checkPayload(payload: Uint8Array): void {
  if (payload.length > PAYLOAD_BYTES_MAX) throw refused(`a payload has ${payload.length} bytes`);
}

/** The parameters of a child are part of its token, which is one value of the engine. */
export function checkChild(kind: string, params: Uint8Array): void {
  if (kind === "child.spawn" && params.length > PAYLOAD_INLINE_BYTES_MAX) {
    throw refused(`the parameters of a child have ${params.length} bytes`);
  }
}

export function checkHeaders(headers: [string, string][]): void {
  const kept = new Map(headers);
  const bytes = [...kept].reduce((sum, [name, text]) => sum + byteLength(name) + byteLength(text) + 8, 0);
  if (kept.size > HEADERS_MAX || bytes > HEADERS_BYTES_MAX) throw refused(`${kept.size} headers with ${bytes} bytes`);
}

const IDS: Record<string, RegExp> = {
  world: /^w_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  universe: /^u_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  hash: /^h_[0-9a-f]{64}$/,
  "inbox sequence": /^s_[0-9a-f]{24}$/,
};

export function checkId(what: string, text: string): void {
  if (!IDS[what]!.test(text)) throw refused(`\`${text}\` is not a ${what}`);
}

/** A world by its id or its name. */
export function checkWorld(text: string): void {
  const isName = /^[A-Za-z0-9\-_.:@]{1,256}$/.test(text) && !text.startsWith("w_") && text !== "." && text !== "..";
  if (!isName) checkId("world", text);
}

/** A program by the hash of a manifest, or by its name and perhaps its version. */
export function checkProgram(text: string): void {
  const [, name, version] = /^([a-z][a-z0-9-]*)(?:@([1-9][0-9]*))?$/.exec(text) ?? [];
  if (name !== undefined && name.length <= 64 && (version === undefined || Number(version) < 2 ** 32)) return;
  checkId("hash", text);
}

/** The budget of a step, counted as the server counts it. Fuel and memory of components are not counted here. */
export class Meter {
  private calls: number;
  private bytes: number;
  private outputs: number;
  private outputBytes = STEP_OUTPUT_BYTES_MAX;
  deleted = 0;

  constructor(limits: Record<string, number>) {
    this.calls = limits["step_calls_max"]!;
    this.bytes = limits["step_bytes_max"]!;
    this.outputs = limits["step_outputs_max"]!;
  }

  call(bytes: number): void {
    this.charge(1);
    this.move(bytes);
  }

  scan(bytes: number): void {
    this.charge(SCAN_CALLS + Math.floor(this.deleted / SCAN_CALLS));
    this.call(bytes);
  }

  charge(units: number): void {
    this.calls = left(this.calls, units, "host calls");
  }

  move(bytes: number): void {
    this.bytes = left(this.bytes, bytes, "bytes");
  }

  /** One record that the step adds. A large payload is stored beside it. */
  output(payloadBytes: number, otherBytes: number): void {
    const inline = payloadBytes <= PAYLOAD_INLINE_BYTES_MAX ? payloadBytes : HASH_BYTES;
    this.outputs = left(this.outputs, 1, "outputs");
    this.outputBytes = left(this.outputBytes, inline + otherBytes, "output bytes");
  }
}

function left(before: number, units: number, what: string): number {
  if (units > before) throw new Refused("BUDGET_EXHAUSTED", `no ${what} left`);
  return before - units;
}
