/**
 * The effects that come with Mundi: their params, and what their receipts carry.
 *
 * Each is declared in mundi.json by its kind alone (`"effects": {"http.request": {}}`), asked for with `world.emit` and read
 * with `receipt`.
 */

import { decode } from "./cbor.ts";
import type { Cause } from "./index.ts";
import type { Lease } from "./pools.ts";

/** Why an effect was not carried out: what a receipt that says `error` or `timeout` carries. */
export interface EffectError {
  kind: EffectErrorKind;
  /** One of the error codes, such as `EFFECT_DENIED`. */
  code: string;
  reason: string;
  /** How often it was tried. */
  attempts: number;
  /** Of `CALL_FAILED`: the code of the step of the world that was called. */
  failedCode?: string;
  /** Of `CALL_FAILED`: the height of that step in the journal of that world. */
  failedAt?: number;
}

/** The reasons that a program may want to tell apart. Further ones may come. */
export type EffectErrorKind =
  /** `EFFECT_CANCELLED`: by an operator, or because the world is a fork that dropped what its parent had open. */
  | "cancelled"
  /** `EFFECT_SANDBOXED`: the world is a sandbox, and nothing answers in place of the outside. */
  | "sandboxed"
  /** `EFFECT_NOT_RECORDED`: the world is a recorded fork, and its parent had no receipt for it. */
  | "not_recorded"
  /** `EFFECT_DENIED`, `UNIVERSE_DENIED`: a configuration does not allow it. */
  | "denied"
  /** `EFFECT_TIMEOUT`, `EFFECT_CLAIM_EXPIRED`, `CALL_TIMEOUT`: whether the other side acted is not known. */
  | "timed_out"
  /** Any other code. */
  | "failed";

const ERROR_KINDS: Record<string, EffectErrorKind> = {
  EFFECT_CANCELLED: "cancelled",
  EFFECT_SANDBOXED: "sandboxed",
  EFFECT_NOT_RECORDED: "not_recorded",
  EFFECT_DENIED: "denied",
  UNIVERSE_DENIED: "denied",
  EFFECT_TIMEOUT: "timed_out",
  EFFECT_CLAIM_EXPIRED: "timed_out",
  CALL_TIMEOUT: "timed_out",
};

/** The effect `http.request`: one request to the outside. A text as a body is sent as UTF-8. */
export interface HttpRequest {
  url: string;
  /** `GET` if absent. */
  method?: string;
  headers?: Record<string, string>;
  body?: Uint8Array | string;
  /** The lease that it is carried out under, and only while it is held. The other side gets it, too. */
  lease?: Lease;
}

/** The answer of a server, whatever its status. */
export class HttpResponse {
  constructor(
    readonly status: number,
    /** By their names in lower case. */
    readonly headers: Record<string, string>,
    readonly body: Uint8Array,
  ) {}

  /** The status says that it went well: 200 to 299. */
  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  bytes(): Uint8Array {
    return this.body;
  }

  text(): string {
    return new TextDecoder("utf-8", { fatal: true }).decode(this.body);
  }

  json<T = any>(): T {
    return JSON.parse(this.text());
  }
}

/** The effect `llm.chat`: a conversation with a model. */
export interface LlmChat {
  messages: { role: string; content: string; [more: string]: unknown }[];
  /** One that the configuration allows; its own if absent. */
  model?: string;
  /** Passed on: `temperature`, `max_tokens`, `tools` and the like. */
  options?: Record<string, unknown>;
}

export interface LlmAnswer {
  model: string;
  content: string;
  finish_reason: string | null;
  tool_calls: any[];
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number } | null;
}

/** The effect `blob.put`: keeps bytes in the content store. */
export interface BlobPut {
  bytes: Uint8Array;
}

/** A reference to an object of the content store: what `blob.put` answers, and `blob.get` takes. */
export interface Blob {
  /** `h_…` */
  hash: string;
  /** How many there are. */
  bytes: number;
}

/** The effect `blob.get`: the bytes of an object, up to a MiB. */
export interface BlobGet {
  hash: string;
}

export interface BlobContent {
  bytes: Uint8Array;
}

/** The effect `process.run`: a command that the node's configuration lists. */
export interface ProcessRun {
  /** Its name in the list. */
  command: string;
  args?: string[];
  stdin?: Uint8Array | string;
  /** The lease that it is carried out under, and only while it is held. The other side gets it, too. */
  lease?: Lease;
}

export interface ProcessResult {
  /** null for a command that a signal ended. */
  status: number | null;
  stdout: Uint8Array;
  stderr: Uint8Array;
}

/** The effect `world.fork`: a branch of a world. */
export interface WorldFork {
  /** The id or the name of the parent; the world itself if absent. */
  world?: string;
  /** The height to fork at. If absent: before the step that asks, or the newest of another world. */
  at?: number;
  /** What becomes of the parent's effects; `suppress` if absent. */
  policy?: string;
}

export interface Forked {
  /** `ok`, or `already_created` when an earlier attempt had done it. */
  status: string;
  /** The id of the branch. */
  world: string;
  forked_at: number;
}

/** The effect `world.call`: an event to another world, whose reply is the receipt. `world.call` is its short form. */
export interface WorldCall {
  /** The id or the name of the world. */
  world: string;
  event: string;
  value?: unknown;
  /** Arrive as the world's `headers`. */
  headers?: Record<string, string>;
  /** Arrives as the event's `origin.correlationId`. */
  correlation_id?: string;
  /** The universe of the world: the caller's own if absent. Another one must accept messages from here. */
  universe?: string;
  /** How long the reply may take; as long as `timeout_ms` in mundi.json if absent. */
  timeout_ms?: number;
}

/** What comes of `world.send`. */
export interface Sent {
  /** `ok`, or `already_enqueued` when an earlier attempt had done it. */
  status: string;
  message_id: string;
  /** The destination, as the program wrote it. */
  dest_world: string;
  /** Its place in the inbox of the destination. */
  enqueued_seq: Uint8Array | null;
}

/** What comes of `world.spawn`. */
export interface Spawned {
  /** `ok`, or `already_created` when an earlier attempt had done it. */
  status: string;
  /** The id of the new world. */
  world: string;
}

/** The kinds that come with Mundi. */
export interface Kinds {
  "http.request": { params: HttpRequest; receipt: HttpResponse };
  "llm.chat": { params: LlmChat; receipt: LlmAnswer };
  "blob.put": { params: BlobPut; receipt: Blob };
  "blob.get": { params: BlobGet; receipt: BlobContent };
  "process.run": { params: ProcessRun; receipt: ProcessResult };
  "fabric.send": { params: never; receipt: Sent };
  "world.spawn": { params: never; receipt: Spawned };
  "world.fork": { params: WorldFork; receipt: Forked };
  /** The receipt is whatever the other program replies. */
  "world.call": { params: WorldCall; receipt: any };
}

export type Answer<T> = { ok: true; value: T } | { ok: false; error: EffectError };

/** What a receipt of this kind carries, or why its effect was not carried out. */
export function receipt<K extends keyof Kinds>(cause: Cause, kind: K): Answer<Kinds[K]["receipt"]>;
/** The same for a kind of the program's own. */
export function receipt<T = any>(cause: Cause, kind: string): Answer<T>;
export function receipt(cause: Cause, kind: string): Answer<any> {
  if (cause.is !== "receipt") throw new Error("this is no receipt");
  if (cause.kind !== kind) throw new Error(`a receipt of \`${cause.kind}\`, not of \`${kind}\``);
  if (cause.status !== "ok") return { ok: false, error: effectError(cause.payload) };
  const value = decode(cause.payload) as any;
  if (kind !== "http.request") return { ok: true, value };
  return { ok: true, value: new HttpResponse(value.status, value.headers, value.body) };
}

/** A receipt that the manifest's schema refuses arrives as an error whose payload is a text. */
function effectError(payload: Uint8Array): EffectError {
  return readError(errorValue(payload));
}

/** What a receipt that says `error` or `timeout` carries, as a value. */
export function errorValue(payload: Uint8Array): Record<string, unknown> {
  try {
    const { code, reason = "", attempts = 0, failed_code, failed_at } = decode(payload) as any;
    if (typeof code !== "string") throw new Error("this is no error of an effect");
    return { code, reason, attempts, failed_code: failed_code ?? undefined, failed_at: failed_at ?? undefined };
  } catch {
    return { code: "RECEIPT_INVALID", reason: new TextDecoder().decode(payload), attempts: 0 };
  }
}

/** The error that such a value stands for. */
export function readError({ code, reason, attempts, failed_code, failed_at }: any): EffectError {
  const error: EffectError = { kind: ERROR_KINDS[code] ?? "failed", code, reason, attempts };
  if (failed_code !== undefined) error.failedCode = failed_code;
  if (failed_at !== undefined) error.failedAt = Number(failed_at);
  return error;
}

const isText = (value: unknown) => typeof value === "string";
const isCount = (value: unknown) => typeof value === "bigint" || (Number.isSafeInteger(value) && (value as number) >= 0);
const isBytes = (value: unknown) => value instanceof Uint8Array;
const isMap = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value) && !isBytes(value);
const orNull = (is: (value: unknown) => boolean) => (value: unknown) => value === null || value === undefined || is(value);

/** What the fields of a receipt are, by its kind. */
const RECEIPTS: Record<string, Record<string, (value: unknown) => boolean>> = {
  "http.request": {
    status: isCount,
    headers: (value) => isMap(value) && Object.values(value as object).every(isText),
    body: isBytes,
  },
  "llm.chat": {
    model: isText,
    content: isText,
    finish_reason: orNull(isText),
    tool_calls: Array.isArray,
    usage: orNull(isMap),
  },
  "blob.put": { hash: isText, bytes: isCount },
  "blob.get": { bytes: isBytes },
  "process.run": { status: orNull((value) => Number.isSafeInteger(value)), stdout: isBytes, stderr: isBytes },
  "fabric.send": { status: isText, message_id: isText, dest_world: isText, enqueued_seq: orNull(isBytes) },
  "world.spawn": { status: isText, world: isText },
  "world.fork": { status: isText, world: isText, forked_at: isCount },
};

/** The first field of a receipt that the kind's own adapter could never give; undefined if there is none. */
export function wrongField(kind: string, value: any): string | undefined {
  const fields = RECEIPTS[kind];
  if (fields === undefined) return undefined;
  if (!isMap(value)) return "(the whole)";
  return Object.keys(fields).find((name) => !fields[name]!(value[name]));
}
