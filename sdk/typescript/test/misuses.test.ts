/** A test world refuses everything that a server refuses, with the same code. The table is shared with the kernel and the other SDKs. */

import { deepStrictEqual, strictEqual } from "node:assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type Program, type World, event as sent } from "../src/index.ts";
import { Refused, TestWorld } from "../src/testing.ts";

const table = JSON.parse(readFileSync(process.env.MUNDI_MISUSES!, "utf8"));

/** The value that an entry of the table stands for. */
function made(value: any): any {
  if (Array.isArray(value)) return value.map(made);
  if (typeof value !== "object" || value === null) return value;
  if ("$text" in value) return value.$text[0].repeat(value.$text[1]);
  if ("$bytes" in value) return new Uint8Array(value.$bytes);
  if ("$names" in value) return Object.fromEntries([...Array(value.$names).keys()].map((n) => [String(n).padStart(3, "0"), ""]));
  if ("$deep" in value) return [...Array(value.$deep)].reduce((deep) => [deep], 0);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, made(item)]));
}

let calls: any[] = [];

function make(world: World, seq: string, [call, ...given]: any[]): void {
  switch (call) {
    case "ignore":
      try {
        make(world, seq, given[0]);
      } catch {
        // The step is over all the same.
      }
      return;
    case "fail":
      throw new Error("as it was told");
    case "timer":
      return world.setTimer(given[0], BigInt(given[1]), given[2]);
    case "cancel_timer":
      return void world.cancelTimer(given[0]);
    case "send": {
      const [to, schema, value, label, options] = given;
      const { universe, correlation_id: correlationId, headers, message_id: messageId } = options ?? {};
      return world.send(to, sent(schema, value), label, { universe, correlationId, headers, messageId });
    }
    case "spawn":
      return void world.spawn(given[0], undefined, given[1]);
    case "reply":
      return world.reply(given[0] === "own" ? seq : given[0], given[1]);
    case "scan":
      return void world.scan(given[0], undefined, given[1]);
    default:
      (world as any)[call](...given);
  }
}

/** Makes the calls that the table says. */
const script: Program = {
  handle(world, { seq, cause }) {
    if (cause.is === "receipt") world.put("heard", cause.status);
    if (cause.is === "event") calls.forEach((call) => make(world, seq, call));
  },
  query(world) {
    calls.forEach((call) => make(world, "", call));
  },
};

function outcome(run: () => void): string {
  try {
    run();
    return "ok";
  } catch (error) {
    return error instanceof Refused ? error.code : "PROGRAM_FAILED";
  }
}

function act(world: TestWorld, action: any): void {
  if (action.event) world.send(action.event[0], made(action.event[1]));
  else if (action.receipt) world.receipt(action.receipt[0], action.receipt[1], made(action.receipt[2]));
  else if (action.fire) world.fire(action.fire);
  else if (action.query) world.query(action.query[0], made(action.query[1]));
  else world.send("go");
}

for (const entry of table.cases) {
  test(entry.name, () => {
    const offer = { ...table.offer, ...entry.offer };
    if (entry.offer_is) {
      strictEqual(outcome(() => new TestWorld(script, offer)), entry.offer_is);
      return;
    }
    const world = new TestWorld(script, offer);
    for (const action of entry.do) {
      calls = made(action.calls ?? []);
      // Of a receipt that no adapter could give, a test hears; a server delivers it.
      strictEqual(outcome(() => act(world, action)), action.in_a_test ?? action.is, JSON.stringify(action));
      if (action.heard) strictEqual(world.cell("heard"), action.heard);
    }
    deepStrictEqual(world.cell("lost"), undefined);
  });
}
