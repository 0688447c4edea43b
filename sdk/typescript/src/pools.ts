/**
 * Pools: worlds that lease resources. A program reserves, activates and releases by calls to the pool; the host says who calls, so the
 * holder of a lease is the calling world and no other.
 *
 * Each is a `world.call`, which mundi.json declares. `poolResult` reads what the pool answers.
 */

import type { Cause } from "./index.ts";
import { type Answer, receipt } from "./kinds.ts";
import { sha256 } from "./sha256.ts";

/** What is to be reserved, all or nothing. Resources are named by their ids (`r_…`). */
export type Wish =
  | { resource: string }
  | { bundle: string[] }
  /** So many that are available now and have a label; any, without one. */
  | { any: number; label?: string }
  /** The same, answered once it is this caller's turn in the queue of the pool, or the call times out. */
  | { queued: number; label?: string };

/** A lease that this world holds: the pool, and the pair that fences it. Keep it in a cell, and name it in effects that use the resource. */
export interface Lease {
  pool: string;
  /** `l_…` */
  lease_id: string;
  lease_epoch: number;
}

/** What a pool answers. */
export interface PoolResult {
  /** `ok`, `noop`, or why nothing was done: `resource_busy`, `stale_epoch`, `holder_mismatch` … */
  result: string;
  /** The height of the command in the pool's journal. */
  lsn: number;
  slot: number;
  lease_id?: string;
  /** After the command. */
  lease_epoch?: number;
  /** When a reservation ends that is not activated. */
  deadline_slot?: number;
  resource_ids?: string[];
}

/** What a pool answered, or why the call had no answer. A pool that refuses answers: `poolOk`. */
export function poolResult(cause: Cause): Answer<PoolResult> {
  return receipt(cause, "world.call");
}

/** Whether it was done, or had been before. */
export function poolOk(result: PoolResult): boolean {
  return result.result === "ok" || result.result === "noop";
}

/** The lease that was reserved, activated or released, with its epoch now. */
export function poolLease(pool: string, { lease_id, lease_epoch }: PoolResult): Lease | undefined {
  return lease_id === undefined || lease_epoch === undefined ? undefined : { pool, lease_id, lease_epoch };
}

/** The command that reserves. */
export function wishCommand(wish: Wish, ttl_slots: number): Record<string, unknown> {
  if ("resource" in wish) return { reserve: { resource_id: wish.resource, ttl_slots } };
  if ("bundle" in wish) return { reserve_bundle: { resource_ids: wish.bundle, ttl_slots } };
  const label = wish.label ?? "";
  if ("any" in wish) return { reserve_any: { label, count: wish.any, ttl_slots } };
  return { enqueue_reserve: { label, count: wish.queued, ttl_slots, wait: true } };
}

/** A command of the holder. */
export function leaseCommand(name: string, { lease_id, lease_epoch }: Lease): Record<string, unknown> {
  return { [name]: { lease_id, lease_epoch } };
}

const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";

/** The bits of an id in its text form. */
function bitsOf(prefix: string, text: string): bigint | undefined {
  if (!new RegExp(`^${prefix}[0-7][0-9a-hjkmnp-tv-z]{25}$`).test(text)) return undefined;
  return [...text.slice(2)].reduce((bits, digit) => (bits << 5n) | BigInt(DIGITS.indexOf(digit)), 0n);
}

/** The world of a shard of a pool: the first one has the pool's name. */
export function shardWorld(pool: string, shard: number | bigint): string {
  return BigInt(shard) === 0n ? pool : `${pool}.shard-${shard}`;
}

/** The world of the pool that has the lease: its shard stands in the id. */
export function leaseWorld({ pool, lease_id }: Lease): string {
  const bits = bitsOf("l_", lease_id);
  if (bits === undefined) throw new Error(`\`${lease_id}\` is not a lease id`);
  return shardWorld(pool, bits >> 64n);
}

const number = (bytes: Uint8Array) => bytes.reduce((all, byte) => (all << 8n) | BigInt(byte), 0n);
const utf8 = new TextEncoder();
const ofName = (name: string) => number(sha256(utf8.encode(`mundi.pool.resource.1\0${name}`), 16));

/** The id (`r_…`) of the resource of this name. */
export function resourceId(name: string): string {
  const bits = ofName(name);
  return "r_" + Array.from({ length: 26 }, (_, at) => DIGITS[Number((bits >> BigInt(5 * (25 - at))) & 31n)]).join("");
}

/** The shard that a resource lies in, of a pool of so many: by its id (`r_…`) or its name. It is the same for ever. */
export function shardOf(resource: string, shards: number): number {
  const bits = bitsOf("r_", resource) ?? ofName(resource);
  const id = Array.from({ length: 16 }, (_, at) => Number((bits >> BigInt(8 * (15 - at))) & 255n));
  const hash = number(sha256(new Uint8Array([...utf8.encode("mundi.pool.shard.1\0"), ...id]), 8));
  return Number(hash % BigInt(Math.max(shards, 1)));
}
