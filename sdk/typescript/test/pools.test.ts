/** A program that leases a resource of a pool. */

import assert from "node:assert/strict";
import test from "node:test";
import { type Lease, type Program, leaseWorld, poolLease, poolOk, poolResult, resourceId, shardOf, wishCommand } from "../src/index.ts";
import { TestWorld } from "../src/testing.ts";

const FIRST = "l_00000000000000000000000007";
const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";
/** Of shard 3, at height 7. */
const THIRD = "l_" + [...Array(26).keys()].map((at) => DIGITS[Number((((3n << 64n) | 7n) >> BigInt(5 * (25 - at))) & 31n)]).join("");

/** Reserves, activates what it got, and releases it when it is told to. */
const agent: Program = {
  handle(world, { cause }) {
    if (cause.is === "event" && cause.schema === "go") return world.poolReserve("gpus", { any: 2, label: "h100" }, 60, "reserve");
    if (cause.is === "event" && cause.schema === "shard") {
      return world.poolReserve("gpus", { resource: resourceId("gpu-2") }, 60, "two", shardOf("gpu-2", 3));
    }
    if (cause.is === "event") return world.poolRelease(world.get<Lease>("lease")!, "release");
    if (cause.is !== "receipt") return;
    const answer = poolResult(cause);
    if (!answer.ok) return world.put("refused", answer.error.code);
    const lease = poolLease("gpus", answer.value);
    if (!poolOk(answer.value) || !lease) return world.put("refused", answer.value.result);
    world.put("lease", lease);
    if (cause.label === "reserve") world.poolActivate(lease, "activate");
  },
};

test("a lease is reserved, activated and released by calls to its pool", () => {
  const world = new TestWorld(agent, { events: { go: true, stop: true }, effects: { "world.call": {} } });
  const command = { reserve_any: { label: "h100", count: 2, ttl_slots: 60 } };
  const asked = { world: "gpus", event: "pool.command", value: { command } };
  assert.deepEqual(world.send("go").intents[0]!.params, asked, "no holder: the host says who calls");
  const step = world.receipt("reserve", "ok", { result: "ok", lsn: 7, lease_id: FIRST, lease_epoch: 1 });
  assert.deepEqual((step.intents[0]!.params as any).value.command, { activate: { lease_id: FIRST, lease_epoch: 1 } });
  world.receipt("activate", "ok", { result: "noop", lease_id: THIRD, lease_epoch: 4 });
  const released = world.send("stop").intents[0]!.params as any;
  assert.equal(released.world, "gpus.shard-3", "the lease says in which shard it lies");
  world.receipt("release", "ok", { result: "stale_epoch", lsn: 9, slot: 2 });
  assert.equal(world.cell("refused"), "stale_epoch");
});

test("all wishes are commands of the pool", () => {
  const queued = { label: "a", count: 2, ttl_slots: 5, wait: true };
  assert.deepEqual(wishCommand({ queued: 2, label: "a" }, 5), { enqueue_reserve: queued });
  assert.deepEqual(wishCommand({ resource: "r_1" }, 5), { reserve: { resource_id: "r_1", ttl_slots: 5 } });
  assert.deepEqual(wishCommand({ bundle: ["r_1"] }, 5), { reserve_bundle: { resource_ids: ["r_1"], ttl_slots: 5 } });
  assert.throws(() => leaseWorld({ pool: "gpus", lease_id: "l_7", lease_epoch: 1 }), /not a lease id/);
});

test("a resource is reserved in its shard", () => {
  const world = new TestWorld(agent, { events: { shard: true }, effects: { "world.call": {} } });
  const asked = world.send("shard").intents[0]!.params as any;
  assert.equal(asked.world, "gpus.shard-2");
  assert.deepEqual(asked.value.command, { reserve: { resource_id: "r_3q03r0001mm6xktzqq8s556bb1", ttl_slots: 60 } });
});

test("the shard of a resource follows from its id", () => {
  const pinned: Record<string, number[]> = {
    "gpu-0": [0, 0, 1, 6, 62],
    "gpu-1": [0, 1, 1, 7, 31],
    r_2jhsdyqc76ep8z59gbmgcbwpad: [0, 0, 1, 6, 62],
    r_00000000000000000000000000: [0, 1, 2, 1, 57],
    r_7zzzzzzzzzzzzzzzzzzzzzzzzz: [0, 1, 0, 5, 13],
  };
  for (const [resource, shards] of Object.entries(pinned)) {
    assert.deepEqual([1, 2, 3, 8, 64].map((count) => shardOf(resource, count)), shards, resource);
  }
  assert.deepEqual([resourceId("gpu-0"), shardOf("gpu-0", 0)], ["r_2jhsdyqc76ep8z59gbmgcbwpad", 0]);
});
