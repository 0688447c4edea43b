import { deepStrictEqual, strictEqual } from "node:assert";
import { test } from "node:test";
import { DurableWorld, forEachCrash } from "mundi-sdk/testing";
import offer from "../mundi.json";
import program from "../src/program.ts";

const ORDER = { sku: "tea", quantity: 2, cents: 800 };

async function charged(): Promise<DurableWorld> {
  const world = new DurableWorld(program, offer);
  await world.run("order", ORDER);
  await world.answer("payment.charge", { charge: "c-1" });
  return world;
}

test("an order is placed and counted", async () => {
  const world = await charged();
  await world.answer("stock.reserve", true);
  deepStrictEqual(world.instance("order").result, { state: "placed" });
  deepStrictEqual(world.query("totals"), { placed: 1, cents: 800 });
});

test("what was paid is given back when there is none, and when it is cancelled", async () => {
  const late = await charged();
  const cancelled = late.fork();
  await late.skip("1h");
  await cancelled.cancel("order");
  await late.answer("payment.refund", true);
  await cancelled.answer("payment.refund", true);
  deepStrictEqual(late.instance("order").result, { state: "refunded", why: "out of stock" });
  strictEqual(cancelled.instance("order").state, "cancelled");
});

test("a payment is tried three times, also if the process dies", async () => {
  const steps = await forEachCrash(() => new DurableWorld(program, offer), async (world) => {
    await world.run("order", ORDER);
    for (let attempt = 0; attempt < 3; attempt++) {
      await world.failEffect("payment.charge", "CARD", "refused");
      await world.skip("1m");
    }
    deepStrictEqual(world.instance("order").result, { state: "failed", why: "the payment was refused" });
  });
  strictEqual(steps, 6);
});
