/**
 * Canonical CBOR (RFC 8949, section 4.2.1) of JSON values and bytes, which are a `Uint8Array`.
 *
 * One value has one form: the shortest heads, definite lengths, keys sorted by length and then by bytes, the shortest
 * float that keeps the value. So two programs that keep the same values keep the same bytes.
 *
 * A number that is whole is an integer, as JavaScript sees it; an integer beyond 2^53 is read as a bigint.
 */

const DEPTH_MAX = 64;
// One of each, because a step makes thousands of texts.
const utf8 = new TextEncoder();
const texts = new TextDecoder("utf-8", { fatal: true });

export function encode(value: unknown): Uint8Array {
  if (typeof value === "string") return encodeText(value);
  const out = new Out();
  write(value, out);
  return out.finish();
}

/** A text alone: rows and pages of durable functions are such. */
function encodeText(value: string): Uint8Array {
  const bytes = utf8.encode(value);
  const { length } = bytes;
  const size = length < 24 ? 0 : length < 0x100 ? 1 : length < 0x10000 ? 2 : 4;
  const text = new Uint8Array(1 + size + length);
  text[0] = 0x60 | (size === 0 ? length : size === 1 ? 24 : size === 2 ? 25 : 26);
  for (let at = 1; at <= size; at++) text[at] = length >>> (8 * (size - at));
  text.set(bytes, 1 + size);
  return text;
}

export function decode(bytes: Uint8Array): unknown {
  // A text alone needs no reader.
  const first = bytes[0]!;
  if (first >> 5 === 3 && (first & 31) < 27) {
    const size = (first & 31) < 24 ? 0 : 1 << ((first & 31) - 24);
    let length = size === 0 ? first & 31 : 0;
    for (let at = 1; at <= size; at++) length = length * 256 + bytes[at]!;
    if (bytes.length === 1 + size + length) return texts.decode(bytes.subarray(1 + size));
  }
  const reader = new Reader(bytes);
  const value = reader.value(DEPTH_MAX);
  if (reader.at !== bytes.length) throw new Error("bytes follow the value");
  return value;
}

/** What the last value was written in, for the next one: most are short. */
let spare: Uint8Array | undefined;

/** Bytes in the making. Pieces that are there already are copied once. */
class Out {
  private bytes: Uint8Array;
  private length = 0;

  constructor() {
    this.bytes = spare ?? new Uint8Array(256);
    spare = undefined;
  }

  push(byte: number): void {
    this.reserve(1);
    this.bytes[this.length++] = byte;
  }

  append(piece: Uint8Array): void {
    this.reserve(piece.length);
    this.bytes.set(piece, this.length);
    this.length += piece.length;
  }

  finish(): Uint8Array {
    if (this.bytes.length <= 4096) spare = this.bytes;
    return this.bytes.slice(0, this.length);
  }

  private reserve(more: number): void {
    if (this.length + more <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(2 * this.bytes.length, this.length + more));
    larger.set(this.bytes.subarray(0, this.length));
    this.bytes = larger;
  }
}

/** Numbers where they are exact: arithmetic with bigints is what an interpreter is slowest at. */
function head(major: number, argument: number | bigint, out: Out): void {
  if (argument < 24) return out.push((major << 5) | Number(argument));
  if (argument < 0x100) {
    out.push((major << 5) | 24);
    return out.push(Number(argument));
  }
  if (argument < 0x100000000) {
    const size = argument < 0x10000 ? 2 : 4;
    out.push((major << 5) | (size === 2 ? 25 : 26));
    for (let shift = 8 * (size - 1); shift >= 0; shift -= 8) out.push((Number(argument) >>> shift) & 0xff);
    return;
  }
  const large = BigInt(argument);
  if (large >= 1n << 64n) throw new Error("an integer beyond 64 bits");
  out.push((major << 5) | 27);
  for (let shift = 56n; shift >= 0n; shift -= 8n) out.push(Number((large >> shift) & 0xffn));
}

function write(value: unknown, out: Out): void {
  if (value === null || value === undefined) out.push(0xf6);
  else if (value === true) out.push(0xf5);
  else if (value === false) out.push(0xf4);
  else if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
    if ((value as number) >= 0) head(0, value as number, out);
    else head(1, -1 - (value as number), out);
  } else if (typeof value === "bigint" || (Number.isInteger(value) && !Object.is(value, -0))) {
    const integer = BigInt(value as number);
    if (integer >= 0n) head(0, integer, out);
    else head(1, -1n - integer, out);
  } else if (typeof value === "number") float(value, out);
  else if (typeof value === "string") text(value, out);
  else if (value instanceof Uint8Array) {
    head(2, value.length, out);
    out.append(value);
  } else if (Array.isArray(value)) {
    head(4, value.length, out);
    for (const item of value) write(item, out);
  } else if (typeof value === "object") {
    const keyed = keyedEntries(value);
    head(5, keyed.length, out);
    for (const { key, item } of keyed) {
      head(3, key.length, out);
      out.append(key);
      write(item, out);
    }
  } else throw new TypeError(`a ${typeof value} has no form in a world`);
}

/** What is undefined is not there, as in JSON. */
function keyedEntries(value: object): { key: Uint8Array; name: string; item: unknown }[] {
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  const keyed = entries.map(([name, item]) => ({ key: utf8.encode(name), name, item }));
  return keyed.sort((a, b) => a.key.length - b.key.length || compare(a.key, b.key));
}

/** The fields of an object in the order of their keys. */
export function sortedEntries(value: object): [string, unknown][] {
  return keyedEntries(value).map(({ name, item }) => [name, item]);
}

function text(value: string, out: Out): void {
  const bytes = utf8.encode(value);
  head(3, bytes.length, out);
  out.append(bytes);
}

function compare(a: Uint8Array, b: Uint8Array): number {
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return a[at]! - b[at]!;
  return 0;
}

function float(value: number, out: Out): void {
  if (!Number.isFinite(value)) throw new Error("a number that is none");
  const view = new DataView(new ArrayBuffer(8));
  const half = toHalf(value);
  let first = 0xfb;
  let size = 8;
  if (half !== undefined) {
    view.setUint16(0, half);
    [first, size] = [0xf9, 2];
  } else if (Math.fround(value) === value) {
    view.setFloat32(0, value);
    [first, size] = [0xfa, 4];
  } else view.setFloat64(0, value);
  out.push(first);
  for (let at = 0; at < size; at++) out.push(view.getUint8(at));
}

/** The sixteen bits of a number that has so few. */
function toHalf(value: number): number | undefined {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude > 65504) return undefined;
  // In units of the smallest one: below 2^-14 all have the same distance, above it doubles with each power.
  let exponent = 0;
  let units = magnitude * 2 ** 24;
  while (units >= 2048) {
    units /= 2;
    exponent++;
  }
  if (!Number.isInteger(units)) return undefined;
  return sign | (units < 1024 ? units : ((exponent + 1) << 10) | (units - 1024));
}

function fromHalf(half: number): number {
  const exponent = (half >> 10) & 31;
  const fraction = half & 0x3ff;
  const magnitude =
    exponent === 0
      ? fraction * 2 ** -24
      : exponent === 31
        ? fraction === 0 ? Infinity : NaN
        : (fraction + 1024) * 2 ** (exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

class Reader {
  at = 0;

  constructor(private bytes: Uint8Array) {}

  private take(size: number): Uint8Array {
    const taken = this.bytes.subarray(this.at, this.at + size);
    if (taken.length !== size) throw new Error("the value ends too early");
    this.at += size;
    return taken;
  }

  private major = 0;
  private short = 0;
  /** A bigint only beyond 32 bits. */
  private argument: number | bigint = 0;

  private head(): void {
    const first = this.byte();
    this.major = first >> 5;
    const short = (this.short = first & 31);
    if (short < 24) this.argument = short;
    else if (short === 24) this.argument = this.byte();
    else if (short === 25) this.argument = (this.byte() << 8) | this.byte();
    else if (short === 26) this.argument = this.word();
    else if (short === 27) this.argument = (BigInt(this.word()) << 32n) | BigInt(this.word());
    else throw new Error("a length that is open");
  }

  private byte(): number {
    if (this.at >= this.bytes.length) throw new Error("the value ends too early");
    return this.bytes[this.at++]!;
  }

  private word(): number {
    return ((this.byte() << 24) | (this.byte() << 16) | (this.byte() << 8) | this.byte()) >>> 0;
  }

  private text(length: number | bigint): string {
    return texts.decode(this.take(Number(length)));
  }

  value(depthLeft: number): unknown {
    if (depthLeft === 0) throw new Error("nested too deeply");
    this.head();
    const { major, short, argument } = this;
    switch (major) {
      case 0:
        return typeof argument === "number" ? argument : whole(argument);
      case 1:
        return typeof argument === "number" ? -1 - argument : whole(-1n - argument);
      case 2:
        return this.take(Number(argument)).slice();
      case 3:
        return this.text(argument);
      case 4: {
        const items: unknown[] = [];
        for (let left = argument; left > 0; left--) items.push(this.value(depthLeft - 1));
        return items;
      }
      case 5: {
        const entries: Record<string, unknown> = {};
        for (let left = argument; left > 0; left--) {
          this.head();
          if (this.major !== 3) throw new Error("a key that is no text");
          const name = this.text(this.argument);
          const value = this.value(depthLeft - 1);
          if (name !== "__proto__") entries[name] = value;
          else Object.defineProperty(entries, name, { value, enumerable: true, writable: true, configurable: true });
        }
        return entries;
      }
    }
    if (major === 7) {
      if (short === 20) return false;
      if (short === 21) return true;
      if (short === 22) return null;
      const view = new DataView(new ArrayBuffer(8));
      view.setBigUint64(0, BigInt(argument));
      if (short === 25) return fromHalf(view.getUint16(6));
      if (short === 26) return view.getFloat32(4);
      if (short === 27) return view.getFloat64(0);
    }
    throw new Error("tags have no JSON form");
  }
}

function whole(integer: bigint): number | bigint {
  const number = Number(integer);
  return Number.isSafeInteger(number) ? number : integer;
}
