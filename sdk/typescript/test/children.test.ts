/** A program that dispatches children, and one that is run as a child. */

import assert from "node:assert/strict";
import test from "node:test";
import { type Program, childEvent } from "../src/index.ts";
import { Refused, TestWorld } from "../src/testing.ts";

/** Spawns a child per name, cancels the second one when the first has passed, and keeps what became of each. */
const planner: Program = {
  handle(world, { cause }) {
    const child = childEvent(cause);
    if (child?.is === "passed") {
      world.put(child.label, [child.result, child.spent.tokens ?? null]);
      world.cancelChild("b", "enough");
    } else if (child?.is === "cancelled") world.put(child.label, ["cancelled", child.cancelRequestId]);
    else if (child?.is === "failed") world.put(child.label, [child.code, child.reason]);
    else if (child) world.put(child.label, child.is);
    if (cause.is !== "event") return;
    for (const name of cause.value as string[]) world.spawnChild("agent", { topic: name }, { tokens: 100 }, name);
  },
};

test("a program spawns children and hears what becomes of each", () => {
  const world = new TestWorld(planner, { events: { plan: true }, effects: { "child.spawn": {}, "child.cancel": {} } });
  const asked = world.send("plan", ["a", "b", "c"]).intents[0]!;
  assert.deepEqual(asked.params, { kind: "agent", params: { topic: "a" }, budget: { tokens: 100 } });
  world.childStarted("a");
  assert.equal(world.cell("a"), "started");
  const cancel = world.childPassed("a", "done", { tokens: 7 }).intents[0]!;
  assert.deepEqual([world.cell("a"), cancel.kind, cancel.params], [["done", 7], "child.cancel", { label: "b" }]);
  world.childCancelled("b");
  assert.deepEqual(world.cell("b"), ["cancelled", "test"]);
  world.childFailed("c", "URM_CHILD_BUDGET_EXCEEDED", "budget_exceeded:tokens");
  assert.deepEqual(world.cell("c"), ["URM_CHILD_BUDGET_EXCEEDED", "budget_exceeded:tokens"]);
  assert.throws(() => world.childFailed("c", "X", "x"), (error: Refused) => error.code === "RECEIPT_UNKNOWN");
});

/** Says that it is done, or that it cannot be. */
const doubler: Program = {
  handle(world, { cause }) {
    if (cause.is !== "event") return;
    if (typeof cause.value === "number") world.childDone(2 * cause.value, { tokens: 1 }, "done");
    else world.childFailed("it is no number", "done");
  },
};

test("a program that is a child says that it is done", () => {
  const done = (value: unknown) =>
    new TestWorld(doubler, { events: { double: true }, effects: { "child.done": {} } }).send("double", value).intents[0]!.params;
  assert.deepEqual(done(4), { result: 8, spent: { tokens: 1 } });
  assert.deepEqual(done("x"), { reason: "it is no number" });
});
