/** Durable functions: what they may do, what is on record, and what is refused. */

import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import { test } from "node:test";
import { type Ctx, EffectFailed, FunctionCancelled, durable, functionStatus, program } from "../src/index.ts";
import { DurableWorld, TestWorld, forEachCrash } from "../src/testing.ts";

const offer = {
  events: { order: true, approve: true, note: true, other: true },
  effects: {
    "payment.charge": { params: { type: "object", required: ["cents"] } },
    "payment.refund": {},
    "stock.reserve": {},
    "fraud.check": {},
    "world.call": {},
    "fabric.send": {},
    "world.spawn": {},
    "http.request": {},
    "child.spawn": {},
  },
  queries: { any: true },
};

const made = (code: (ctx: Ctx, input: any) => Promise<unknown>) => new DurableWorld(program({ order: durable(code) }), offer);

async function saga(ctx: Ctx, order: { cents: number }) {
  const charge = await ctx.effect("payment.charge", { cents: order.cents }, { retry: 2, timeout: "30s" });
  const [stock, fraud] = await ctx.all([ctx.effect("stock.reserve", order), ctx.effect("fraud.check", order)]);
  const approval = await ctx.race([ctx.event("approve"), ctx.sleep("1h")]);
  if (!approval) {
    await ctx.effect("payment.refund", charge);
    return { state: "expired" };
  }
  await ctx.call("warehouse", "ship", order);
  return { state: "placed", stock, fraud, by: approval };
}

async function placed(world: DurableWorld): Promise<void> {
  await world.run("order", { cents: 800 });
  await world.answer("payment.charge", "c-1");
  await world.answer("fraud.check", "fine");
  await world.answer("stock.reserve", 2);
  await world.event("approve", { by: "ann" });
  await world.answer("world.call", "shipped");
}

test("the function of the guide: answers in any order, an approval, a call", async () => {
  const world = made(saga);
  await placed(world);
  const instance = world.instance("order");
  deepStrictEqual(instance.result, { state: "placed", stock: 2, fraud: "fine", by: { by: "ann" } });
  deepStrictEqual(instance.asks, [
    "effect payment.charge",
    "effect stock.reserve",
    "effect fraud.check",
    "event approve",
    "timer sleep",
    "effect world.call",
  ]);
  deepStrictEqual([world.open, world.timers], [[], []], "the sleep that lost is withdrawn");
});

test("an hour passes without approval", async () => {
  const world = made(saga);
  await world.run("order", { cents: 800 });
  await world.answer("payment.charge", "c-1");
  await world.answer("stock.reserve", 2);
  await world.answer("fraud.check", null);
  deepStrictEqual(world.instance("order").waits, [[4, "event", "approve"], [5, "timer", "sleep"]]);
  await world.skip("59m");
  strictEqual(world.instance("order").state, "running");
  await world.skip("1m");
  deepStrictEqual(world.instance("order").waits, [[6, "effect", "payment.refund"]]);
  deepStrictEqual((await world.event("approve", 1)).reply, { taken_by: [] }, "nobody waits for it any more");
  await world.answer("payment.refund");
  deepStrictEqual(world.instance("order").result, { state: "expired" });
});

test("two branches see their results in the order in which those came, in every later run", async () => {
  const branch = async (ctx: Ctx, first: string, then: string) => [await ctx.effect(first, 1), await ctx.effect(then, 2), await ctx.sleep("1s")];
  const world = made(async (ctx) => {
    const both = [branch(ctx, "stock.reserve", "payment.refund"), branch(ctx, "fraud.check", "world.call")];
    return ctx.all(both);
  });
  await world.run("order");
  await world.answer("fraud.check", "f");
  await world.answer("stock.reserve", "s");
  deepStrictEqual(world.instance("order").asks.slice(2), ["effect world.call", "effect payment.refund"]);
  await world.answer("payment.refund", "r");
  await world.answer("world.call", "c");
  await world.skip("1s");
  deepStrictEqual(world.instance("order").result, [["s", "r", null], ["f", "c", null]]);
});

test("a crash in every step changes nothing", async () => {
  strictEqual(await forEachCrash(() => made(saga), placed), 6);
});

test("a fork at every await goes another way", async () => {
  const world = made(saga);
  await placed(world);
  for (const await_ of [1, 2, 3, 4, 6]) {
    const fork = world.forkAtAwait(await_, "order");
    strictEqual(fork.instance("order").state, "running", `await ${await_}`);
    await fork.cancel("order");
    strictEqual(fork.instance("order").state, "cancelled");
  }
  const refused = world.forkAtAwait(4, "order");
  await refused.skip("1h");
  deepStrictEqual(refused.instance("order").waits, [[6, "effect", "payment.refund"]]);
  const again = world.forkAtAwait(6, "order");
  await again.failEffect("world.call", "CALL_TIMEOUT", "nobody is there");
  strictEqual(again.instance("order").error?.code, "CALL_TIMEOUT");
  strictEqual(world.instance("order").state, "done", "the world itself is as it was");
});

test("an await ends with a result that is given, in place of what it waits for", async () => {
  const world = made(saga);
  await placed(world);
  const fork = world.forkAtAwait(3, "order");
  await fork.resolve(3, "a thief", "order");
  deepStrictEqual(fork.instance("order").waits, [[2, "effect", "stock.reserve"]]);
  deepStrictEqual(fork.open, ["$fn/order/test/0.2"], "what it waited for is withdrawn");
  await rejects(fork.resolve(3, 1, "order"), { code: "FUNCTION_NOT_FOUND" });
  await fork.answer("stock.reserve", 2);
  const slept = fork.fork();
  await slept.resolve(5, null, "order");
  deepStrictEqual([slept.instance("order").waits, slept.timers], [[[6, "effect", "payment.refund"]], []]);
  await slept.reject(6, { code: "CARD", reason: "refused" }, "order");
  strictEqual(slept.instance("order").error?.code, "CARD");
  await rejects(slept.resolve(6, 1, "order"), { code: "FUNCTION_NOT_FOUND" });
  await fork.resolve(4, { by: "bob" }, "order");
  deepStrictEqual((await fork.event("approve", 1)).reply, { taken_by: [] });
  await fork.answer("world.call", "shipped");
  deepStrictEqual(fork.instance("order").result, { state: "placed", stock: 2, fraud: "a thief", by: { by: "bob" } });
});

test("a child gives its result, and ends with the wait for it", async () => {
  const world = made(async (ctx, topic: string) => {
    const first = await ctx.child<string>("agent", { prompt: topic }, { budget: { tokens: 50 } });
    const { ctx: scoped, cancel } = ctx.scope();
    const second = scoped.child("external", first.result);
    if (await ctx.signal("approve")) cancel();
    try {
      return (await second).result;
    } catch (error) {
      if (error instanceof FunctionCancelled) return first.spent;
      throw error;
    }
  });
  await world.run("order", "tea");
  const { intents } = await world.answer("child.spawn", { outcome: "passed", result: "leaves", spent: { tokens: 7 }, child_id: "c_1" });
  deepStrictEqual(intents[0]?.params, { kind: "external", params: "leaves" });
  const label = intents[0]!.label;
  const headers: [string, string][] = [["label", label]];
  await world.arrive({ is: "message", inbox: "child.started", payload: new Uint8Array([0xa0]), headers });
  const failed = world.fork();
  await failed.event("approve", false, "test");
  await failed.failEffect("child.spawn", "URM_CHILD_FAILED", "no such page");
  strictEqual(failed.instance("order").error?.code, "URM_CHILD_FAILED");
  const step = await world.event("approve", true, "test");
  ok(step.cancelled.includes(label), "the end of the scope cancels the child");
  deepStrictEqual(world.instance("order").result, { tokens: 7 });
});

test("what an instance keeps is bounded", async () => {
  for (const [bytes, code] of [[600 << 10, "FUNCTION_INPUT_TOO_LARGE"], [65, "FUNCTION_RESULT_TOO_LARGE"]] as const) {
    const world = made(async (ctx, bytes: number) => {
      await ctx.signal("approve");
      if (bytes > 1000) return ctx.continueAs("x".repeat(bytes));
      ctx.status("x".repeat(bytes << 10));
      return ctx.signal("note");
    });
    await world.run("order", bytes);
    const large = "x".repeat(100 << 10);
    for (let n = 0; n < 2; n++) await world.event("note", large, "test");
    await rejects(world.event("note", large, "test"), { code: "FUNCTION_SIGNALS_FULL" });
    await world.event("approve", 1, "test");
    strictEqual(world.instance("order").error?.code, code);
  }
  const world = made((ctx) => ctx.all(Array.from({ length: 501 }, () => ctx.event("approve"))));
  for (const key of ["a", "b"]) await world.run("order", null, { key });
  await rejects(world.event("approve"), { code: "FUNCTIONS_FULL" });
});

test("a call is answered when the function ends, and its key finds it again", async () => {
  const world = made(async (ctx, n) => (await ctx.effect("payment.charge", { cents: n })) + 1);
  const call = (key: string, value: number) => world.arrive({ is: "event", schema: "order", value, key });
  strictEqual((await call("a", 1)).reply, undefined);
  strictEqual((await call("a", 1)).intents.length, 0, "the same call begins nothing new");
  const step = await world.answer("payment.charge", 41);
  deepStrictEqual(Object.values(step.replies), [42, 42]);
  strictEqual((await call("a", 1)).reply, 42);
  await rejects(call("a", 2), { code: "FUNCTION_KEY_REUSED" });
  await rejects(call("a/b", 2), { code: "FUNCTION_KEY_INVALID" });
});

test("an effect is tried again, and its attempts are counted", async () => {
  const world = made(async (ctx) => {
    try {
      await ctx.effect("payment.charge", { cents: 1 }, { retry: 2 });
    } catch (error) {
      ok(error instanceof EffectFailed);
      return [error.code, error.attempts];
    }
  });
  await world.run("order");
  for (const wait of ["1s", "2s"]) {
    await world.failEffect("payment.charge", "CARD", "refused");
    deepStrictEqual(world.open, [], "it waits before the next attempt");
    await world.skip(wait);
    strictEqual(world.open.length, 1);
  }
  await world.failEffect("payment.charge", "CARD", "refused");
  deepStrictEqual(world.instance("order").result, ["CARD", 3]);
});

test("an error that another attempt does not mend ends the retries", async () => {
  const world = made((ctx) => ctx.effect("payment.charge", { cents: 1 }, { retry: 5 }) as any);
  await world.run("order");
  await world.failEffect("payment.charge", "EFFECT_DENIED", "no");
  deepStrictEqual(world.instance("order").error, { code: "EFFECT_DENIED", message: "payment.charge: EFFECT_DENIED: no", await: 1 });
});

test("a timeout withdraws the effect", async () => {
  const world = made((ctx) => ctx.effect("payment.charge", { cents: 1 }, { timeout: "30s" }) as any);
  await world.run("order");
  await world.skip("30s");
  deepStrictEqual([world.open, world.instance("order").error?.code], [[], "EFFECT_TIMEOUT"]);
});

test("an uncaught error ends the instance with its message and await, and the caller hears it", async () => {
  const world = made(async (ctx) => {
    await ctx.effect("payment.charge", { cents: 1 });
    throw new Error("no luck");
  });
  await world.run("order");
  const step = await world.answer("payment.charge");
  const error = { code: "FUNCTION_FAILED", message: "no luck", await: 1 };
  deepStrictEqual(world.instance("order").error, error);
  deepStrictEqual(Object.values(step.replies), [{ $function_failed: { instance: "order/test", state: "failed", ...error } }]);
});

test("cancellation reaches what waits, and shielded cleanup is carried out", async () => {
  const world = made(async (ctx) => {
    const charge = await ctx.effect("payment.charge", { cents: 1 });
    try {
      await ctx.sleep("1d");
    } catch (error) {
      ok(error instanceof FunctionCancelled);
      await rejects(Promise.resolve(ctx.sleep(1)), FunctionCancelled);
      await ctx.shield(async (ctx) => {
        await ctx.effect("payment.refund", charge);
        await ctx.sleep("1s");
      });
      throw error;
    }
  });
  await world.run("order");
  await world.answer("payment.charge", 7);
  await world.cancel("order", "test", "the customer said so");
  deepStrictEqual(world.timers, []);
  await world.answer("payment.refund");
  await world.skip("1s");
  const { state, error } = world.instance("order");
  deepStrictEqual([state, error?.message], ["cancelled", "the customer said so"]);
  strictEqual((await world.cancel("order")).reply.state, "cancelled", "a second time does no harm");
});

test("a scope is cancelled for itself", async () => {
  const world = made(async (ctx) => {
    const { ctx: inner, cancel } = ctx.scope();
    const work = inner.effect("stock.reserve", null).catch((error) => error.code);
    await ctx.effect("payment.charge", { cents: 1 });
    cancel();
    return [await work, await ctx.effect("fraud.check", null)];
  });
  await world.run("order");
  const step = await world.answer("payment.charge");
  deepStrictEqual(step.cancelled, ["$fn/order/test/0.1"]);
  await world.answer("fraud.check", "fine");
  deepStrictEqual(world.instance("order").result, ["FUNCTION_CANCELLED", "fine"]);
});

test("a paused instance keeps its results and goes on with them later", async () => {
  const world = made(async (ctx) => [await ctx.effect("payment.charge", { cents: 1 }), await ctx.effect("fraud.check", 2)]);
  await world.run("order");
  await world.pause("order");
  await world.answer("payment.charge", "c");
  strictEqual(world.open.length, 0);
  await world.resume("order");
  await world.answer("fraud.check", "f");
  deepStrictEqual(world.instance("order").result, ["c", "f"]);
});

test("at most so many at a time", async () => {
  const world = made(async (ctx) => {
    const limit = ctx.limit(2);
    return ctx.all([1, 2, 3, 4, 5].map((n) => limit(() => ctx.effect("stock.reserve", n))));
  });
  await world.run("order");
  for (const value of ["a", "b", "c", "d", "e"]) {
    ok(world.open.length <= 2 && world.open.length > 0);
    await world.answer("stock.reserve", value);
  }
  deepStrictEqual(world.instance("order").result, ["a", "b", "c", "d", "e"]);
});

test("events with a key wait for the instance that has it", async () => {
  const world = made(async (ctx) => {
    await ctx.sleep("1m");
    return [await ctx.signal("note"), await ctx.event("approve", { order: ctx.key }), ctx.now];
  });
  await world.run("order", null, { key: "a" });
  await world.run("order", null, { key: "b" });
  deepStrictEqual((await world.event("note", "early", "a")).reply, { taken_by: ["order/a"] });
  await world.skip("1m");
  deepStrictEqual(world.instance("order", "a").waits, [[3, "event", "approve"]]);
  deepStrictEqual(world.instance("order", "b").waits, [[2, "signal", "note"]]);
  deepStrictEqual((await world.event("approve", { order: "z" })).reply, { taken_by: [] });
  await world.event("approve", { order: "a", by: "x" });
  deepStrictEqual(world.instance("order", "a").result, ["early", { order: "a", by: "x" }, 61_000]);
});

test("handlers and functions share a program and its cells", async () => {
  const both = program({
    order: durable(async (ctx) => {
      const seen = ctx.get<number>("count") ?? 0;
      ctx.put("count", seen + 10);
      await ctx.sleep("1s");
      return [seen, ctx.get("count")];
    }),
    handle(world, { cause, seq }) {
      if (cause.is !== "event") return;
      world.put("count", (world.get<number>("count") ?? 0) + 1);
      world.reply(seq, world.get("count"));
    },
    query: (world) => world.get("count"),
  });
  const world = new DurableWorld(both, offer);
  await world.event("note");
  await world.run("order");
  strictEqual((await world.event("note")).reply, 12);
  await world.skip("1s");
  deepStrictEqual(world.instance("order").result, [1, 12], "what was read stays read, and nothing is written twice");
  strictEqual(world.query("any"), 12);
  await rejects(Promise.resolve().then(() => new TestWorld(both, offer).send("note")), /DurableWorld/);
});

test("an event that an instance takes is not for handlers, and its status is read by queries", async () => {
  const both = program({
    order: durable(async (ctx) => {
      ctx.status("waits");
      return ctx.event("approve");
    }),
    handle: (world) => world.put("handled", true),
    query: (world, _, key) => functionStatus(world, "order", String(key)) ?? "none",
  });
  const world = new DurableWorld(both, offer);
  await world.run("order");
  deepStrictEqual([world.query("any", "test"), world.query("any", "other")], ["waits", "none"]);
  await world.event("approve");
  strictEqual(world.cell("handled"), undefined);
  await world.event("approve");
  strictEqual(world.cell("handled"), true, "nobody waits for it any more");
});

test("every attempt of an await has the same key", async () => {
  const world = made(async (ctx) => {
    await ctx.effect("payment.charge", { cents: 8 }, { retry: 2, keyIn: "once" });
    await ctx.effect("stock.reserve", { once: "mine" }, { keyIn: "once" });
    return ctx.effect("http.request", { url: "http://a" }, { retry: 1 });
  });
  const begun = await world.arrive({ is: "event", schema: "order", value: null, key: "test" });
  const params = begun.intents[0]!.params as any;
  strictEqual(params.once.split("/").slice(1, 4).join("/"), "order/test/0.1");
  await world.failEffect("payment.charge", "BUSY", "the answer was lost");
  ok(world.cell("$fn/l/order/test/000001").includes(params.once), "the next attempt has the params of the first");
  await world.skip("1s");
  strictEqual(((await world.answer("payment.charge")).intents[0]!.params as any).once, "mine");
  const third = (await world.answer("stock.reserve")).intents[0]!.params as any;
  ok(third.headers["idempotency-key"].includes("/order/test/0.3/"));
});

test("a branch that loses a race is withdrawn", async () => {
  const world = made(async (ctx) => {
    const slow = async (ctx: Ctx) => {
      await ctx.effect("stock.reserve", 1);
      return ctx.effect("fraud.check", 2);
    };
    const first = await ctx.race([slow, ctx.sleep("1h")]);
    return [first ?? "late", await ctx.effect("payment.refund", null)];
  });
  await world.run("order");
  await world.answer("stock.reserve");
  const quick = world.fork();
  await quick.answer("fraud.check", "fine");
  deepStrictEqual([quick.instance("order").waits, quick.timers], [[[4, "effect", "payment.refund"]], []]);
  await world.skip("1h");
  deepStrictEqual([world.instance("order").waits, world.open], [[[4, "effect", "payment.refund"]], ["$fn/order/test/0.4"]]);
  await world.answer("payment.refund", 7);
  deepStrictEqual(world.instance("order").result, ["late", 7]);
});

test("time and randomness are the instance's", async () => {
  const world = made(async (ctx) => {
    const first = [ctx.now, Date.now(), new Date().toISOString(), Math.random(), ctx.random()];
    await ctx.sleep("1s");
    return [first, ctx.now - first[0]!, Date.now() - (first[1] as number), Math.random()].map(String);
  });
  await world.run("order");
  const fork = world.fork();
  await world.skip("1s");
  await fork.skip("1s");
  const { result } = world.instance("order");
  deepStrictEqual(fork.instance("order").result, result);
  ok(result[0].startsWith("1000,1000,1970-01-01T00:00:01.000Z,0."), result[0]);
  deepStrictEqual(result.slice(1, 3), ["1000", "1000"]);
});

test("a function starts over with a short log", async () => {
  const world = made(async (ctx, n: number) => {
    await ctx.sleep("1s");
    return n === 0 ? "done" : ctx.continueAs(n - 1);
  });
  await world.run("order", 3);
  await world.skip("10s");
  const { result, asks } = world.instance("order");
  deepStrictEqual([result, asks], ["done", ["timer sleep"]]);
});

test("what is let go is not withdrawn at the end", async () => {
  const world = made(async (ctx) => {
    ctx.detach(ctx.send("audit", "note", 1));
    return "sent";
  });
  await world.run("order");
  strictEqual(world.instance("order").result, "sent");
  strictEqual(world.open.length, 1);
  await world.answer("fabric.send", { status: "ok", message_id: "h", dest_world: "audit", enqueued_seq: null });
});

test("a spawned world's id is known when it is there", async () => {
  const world = made(async (ctx) => (await ctx.spawn("todo", { schema: "add", value: 1 })).world);
  await world.run("order");
  await world.answer("world.spawn", { status: "ok", world: "w_00000000000000000000000007" });
  strictEqual(world.instance("order").result, "w_00000000000000000000000007");
});

test("a status and log lines", async () => {
  const world = made(async (ctx) => {
    ctx.log("began");
    ctx.status({ step: 1 });
    await ctx.sleep("1s");
    ctx.log("slept");
    await ctx.sleep("1s");
  });
  const step = await world.arrive({ is: "event", schema: "order", value: null, key: "test" });
  deepStrictEqual([step.logs, world.instance("order").status], [["order/test: began"], { step: 1 }]);
  const next = await world.arrive({ is: "timer", label: "$fn/order/test/0.1", payload: null });
  deepStrictEqual(next.logs, ["order/test: slept"]);
});

test("other code at the same place diverges, says how, and goes on when it is mended", async () => {
  const first = program({ order: durable(async (ctx) => [await ctx.effect("payment.charge", { cents: 1 }), await ctx.effect("fraud.check", 1)]) });
  const other = program({ order: durable(async (ctx) => [await ctx.effect("payment.charge", { cents: 2 })]) });
  const world = new DurableWorld(first, offer);
  await world.run("order");
  await rejects(world.upgrade(other), { code: "FUNCTION_DIVERGED", message: /order\/test: await 1: on record is effect `payment.charge` .* asks for effect/ });
  // A host that lets a program take over without asking it: kind and name are compared in every step.
  (world as any).program = program({ order: durable(async (ctx) => [await ctx.effect("fraud.check", 1)]) });
  await world.answer("payment.charge", "c");
  const { state, error } = world.instance("order");
  deepStrictEqual([state, error?.code, error?.await], ["diverged", "FUNCTION_DIVERGED", 1]);
  await world.upgrade(first);
  deepStrictEqual(world.instance("order").waits, [[2, "effect", "fraud.check"]]);
  await world.answer("fraud.check", "f");
  deepStrictEqual(world.instance("order").result, ["c", "f"]);
});

test("code that asks for more, for less or in another order diverges", async () => {
  const open = async (ctx: Ctx) => {
    await ctx.effect("payment.charge", { cents: 1 });
    return ctx.effect("fraud.check", 1);
  };
  const ways: [RegExp, (ctx: Ctx) => Promise<unknown>][] = [
    [/await 1: .*ends/, async () => 1],
    [/await 2: .*ends/, (ctx) => ctx.effect("payment.charge", { cents: 1 }) as any],
    [/await 1: .*fraud.check/, async (ctx) => [await ctx.effect("fraud.check", 1), await ctx.effect("payment.charge", { cents: 1 })]],
    [/await 3: on record is nothing/, async (ctx) => {
      await ctx.effect("payment.charge", { cents: 1 });
      return ctx.all([ctx.effect("fraud.check", 1), ctx.effect("stock.reserve", 1)]);
    }],
  ];
  for (const [message, way] of ways) {
    const world = made(open);
    await world.run("order");
    await world.answer("payment.charge");
    await rejects(world.upgrade(program({ order: durable(way) })), { code: "FUNCTION_DIVERGED", message });
    await world.answer("fraud.check", "f");
    strictEqual(world.instance("order").result, "f", "the refused program left nothing behind");
  }
});

test("both ways of a version stay in the code", async () => {
  const old = async (ctx: Ctx) => {
    await ctx.sleep("1s");
    return ctx.effect("fraud.check", 1);
  };
  const both = async (ctx: Ctx) => {
    await ctx.sleep("1s");
    if (ctx.version("check", 1, 2) === 2) await ctx.effect("stock.reserve", 1);
    return ctx.effect("fraud.check", 1);
  };
  const world = made(old);
  await world.run("order", null, { key: "passed" });
  await world.skip("1s");
  await world.run("order", null, { key: "before" });
  await world.upgrade(program({ order: durable(both) }));
  await world.skip("1s");
  deepStrictEqual(world.instance("order", "before").waits, [[3, "effect", "stock.reserve"]]);
  await world.answer("fraud.check", "f");
  strictEqual(world.instance("order", "passed").result, "f");
  await world.answer("stock.reserve");
  await world.answer("fraud.check", "g");
  strictEqual(world.instance("order", "before").result, "g");
});

test("wrong uses have a code and say what to write instead", async () => {
  let kept: Ctx | undefined;
  const cases: [string, RegExp, (ctx: Ctx) => Promise<unknown>][] = [
    ["FUNCTION_AWAIT_MISSING", /await 1 .*write `await`/, async (ctx) => void ctx.effect("payment.charge", { cents: 1 })],
    ["FUNCTION_EFFECT_UNDECLARED", /does not declare the effect `mail`/, (ctx) => ctx.effect("mail", {}) as any],
    ["OUTPUT_REFUSED", /does not satisfy its schema/, (ctx) => ctx.effect("payment.charge", {}) as any],
    ["FUNCTION_STUCK", /never comes/, () => new Promise(() => undefined)],
    ["FUNCTION_CELL_RESERVED", /choose another key/, async (ctx) => ctx.put("$fn/x", 1)],
    ["FUNCTION_FAILED", /no duration/, (ctx) => ctx.sleep("soon") as any],
    ["FUNCTION_FAILED", /has no form in a world/, async () => () => 1],
    ["FUNCTION_RESULT_TOO_LARGE", /bytes/, async () => "x".repeat(600_000)],
    ["FUNCTION_LOG_FULL", /continueAs/, async (ctx) => {
      for (let n = 0; n <= 1000; n++) ctx.put("n", n);
    }],
  ];
  for (const [code, message, way] of cases) {
    const world = made(way);
    await world.run("order");
    const { state, error } = world.instance("order");
    deepStrictEqual([state, error?.code], ["failed", code]);
    ok(message.test(error!.message), error!.message);
  }
  const world = made(async (ctx) => void (kept = ctx));
  await world.run("order");
  try {
    kept!.sleep("1s");
    ok(false);
  } catch (error) {
    deepStrictEqual((error as any).code, "FUNCTION_CONTEXT_OVER");
  }
});

test("an effect that cannot be asked for is an error that can be caught", async () => {
  const world = made(async (ctx) => {
    const code = await ctx.effect("mail", {}).catch((error) => error.code);
    return [code, await ctx.effect("fraud.check", 1)];
  });
  await world.run("order");
  await world.answer("fraud.check", "f");
  deepStrictEqual(world.instance("order").result, ["FUNCTION_EFFECT_UNDECLARED", "f"]);
});

test("there are bounds on instances and signals, and ended ones are forgotten in order", async () => {
  const world = made((ctx) => ctx.signal("note") as any);
  for (let n = 0; n < 1000; n++) await world.run("order", n, { key: String(n) });
  await rejects(world.run("order", 1, { key: "more" }), { code: "FUNCTIONS_FULL" });
  for (let n = 0; n < 100; n++) await world.event("approve", n, "5");
  await rejects(world.event("approve", 1, "5"), { code: "FUNCTION_SIGNALS_FULL" });
  for (let n = 0; n < 1000; n++) await world.event("note", n, String(n));
  await world.run("order", 1, { key: "more" });
  await world.event("note", "x", "more");
  strictEqual(world.instance("order", "more").result, "x");
  strictEqual(world.cell("$fn/i/order/0"), undefined, "the first that ended");
  strictEqual(world.cell("$fn/l/order/0/000000"), undefined);
  strictEqual(world.instance("order", "1").result, 1);
});
