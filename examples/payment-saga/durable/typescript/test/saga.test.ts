import { deepStrictEqual, strictEqual } from "node:assert";
import { test } from "node:test";
import { DurableWorld, forEachCrash } from "mundi-sdk/testing";
import offer from "../mundi.json";
import program from "../src/program.ts";

const ORDER = { order: "good", shop: "http://shop", confirm_within_ms: 60_000 };

async function begun(): Promise<DurableWorld> {
  const world = new DurableWorld(program, offer);
  await world.run("begin", ORDER);
  return world;
}

/** The shop answers the oldest requests, with these statuses. */
async function answer(world: DurableWorld, ...statuses: number[]): Promise<void> {
  for (const status of statuses) await world.answer("http.request", { status, headers: {}, body: new Uint8Array() });
}

test("an order that is confirmed early is shipped", async () => {
  const world = await begun();
  await world.event("confirm", true);
  await answer(world, 200, 200, 200);
  strictEqual(world.instance("begin").result, "shipped");
  strictEqual((await world.event("outcome")).reply, "shipped");
});

test("what was done is undone in reverse order", async () => {
  const world = await begun();
  await answer(world, 200, 200);
  await world.event("confirm", true);
  await answer(world, 409);
  strictEqual(world.instance("begin").state, "running");
  await answer(world, 200, 200);
  deepStrictEqual(world.instance("begin").result, { undone: "ship was refused" });

  const closed = await begun();
  await closed.failEffect("http.request", "EFFECT_FAILED", "the shop is closed");
  deepStrictEqual(closed.instance("begin").result, { undone: "reserve was refused" });
});

test("an order that nobody confirms or that is cancelled is undone", async () => {
  const late = await begun();
  await answer(late, 200, 200);
  const cancelled = late.fork();
  await late.skip("1m");
  await cancelled.cancel("begin");
  await answer(late, 200, 200);
  await answer(cancelled, 200, 200);
  deepStrictEqual(late.instance("begin").result, { undone: "it was not confirmed in time" });
  strictEqual(cancelled.instance("begin").state, "cancelled");
  deepStrictEqual(cancelled.cell("outcome"), { undone: "it was cancelled" });
});

test("a crash in any step changes nothing", async () => {
  const steps = await forEachCrash(() => new DurableWorld(program, offer), async (world) => {
    await world.run("begin", ORDER);
    await world.event("confirm", true);
    await answer(world, 200, 409, 200);
  });
  strictEqual(steps, 5);
});
