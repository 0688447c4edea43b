/** A program that calls another one, and hears its reply. */

import assert from "node:assert/strict";
import test from "node:test";
import { type Program, receipt } from "../src/index.ts";
import { Refused, TestWorld } from "../src/testing.ts";

/** Asks `till` what an order costs, with all that can be said beside it. */
const shop: Program = {
  handle(world, { cause }) {
    if (cause.is === "event" && cause.schema === "wrong") return world.call("till", "gift", null, "price");
    if (cause.is === "event") {
      const said = { headers: { tenant: "a" }, correlation_id: "order 7", timeout_ms: 5000 };
      return world.call("till", "price", cause.value, "price", said);
    }
    const answer = receipt(cause, "world.call");
    if (answer.ok) return world.put("cents", answer.value);
    const { code, kind, failedCode, failedAt } = answer.error;
    world.put("failed", [code, kind, failedCode ?? null, failedAt ?? null]);
  },
};

/** Knows one price, and who asks for it. */
const till: Program = {
  handle(world, { seq, origin, cause }) {
    if (cause.is !== "event") return;
    world.put("asked", [origin.sender?.worldId, origin.correlationId, world.headers]);
    if (cause.value === "tea") world.reply(seq, 350);
    else if (cause.value !== "later") throw new Error(`no \`${cause.value}\``);
  },
};

function worlds(order: string): [TestWorld, TestWorld] {
  const caller = new TestWorld(shop, { events: { order: true, wrong: true }, effects: { "world.call": {} } });
  caller.send("order", order);
  return [caller, new TestWorld(till, { events: { price: { type: "string" } } })];
}

test("the reply of another world is the receipt of a call", () => {
  const [caller, called] = worlds("tea");
  caller.answerCall("price", called);
  assert.equal(caller.cell("cents"), 350);
  assert.deepEqual(called.cell("asked"), ["w_00000000000000000000000001", "order 7", { tenant: "a" }]);
  assert.throws(
    () => caller.answerCall("price", called),
    (error) => error instanceof Refused && error.code === "RECEIPT_UNKNOWN",
  );
});

test("a step that fails at the other world and an event that it does not take are errors", () => {
  const [caller, called] = worlds("coffee");
  caller.answerCall("price", called);
  assert.deepEqual(caller.cell("failed"), ["CALL_FAILED", "failed", "PROGRAM_FAILED", 1]);
  assert.equal(called.cell("asked"), undefined, "a failed step leaves nothing");
  caller.send("wrong");
  caller.answerCall("price", called);
  assert.deepEqual(caller.cell("failed"), ["EVENT_INVALID", "failed", null, null]);
});

test("a program that replies later is answered for, and one that does not is a timeout", () => {
  const [caller, called] = worlds("later");
  assert.throws(() => caller.answerCall("price", called), /did not reply/);
  caller.receipt("price", "timeout", { code: "CALL_TIMEOUT", reason: "no reply", attempts: 1 });
  assert.deepEqual(caller.cell("failed"), ["CALL_TIMEOUT", "timed_out", null, null]);
});
