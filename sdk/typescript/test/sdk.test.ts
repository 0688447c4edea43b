import { deepStrictEqual, strictEqual, throws } from "node:assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decode, encode } from "../src/cbor.ts";
import { HttpResponse, type Program, event as sent, receipt } from "../src/index.ts";
import { TestWorld } from "../src/testing.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

/** Bytes are written as their hex digits in the shared file. */
function withBytes(value: any): any {
  if (Array.isArray(value)) return value.map(withBytes);
  if (typeof value !== "object" || value === null) return value;
  if ("$bytes" in value) return new Uint8Array(Buffer.from(value.$bytes, "hex"));
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withBytes(item)]));
}

test("the shared vectors hold", () => {
  const vectors: [unknown, string][] = JSON.parse(readFileSync(process.env.MUNDI_VECTORS!, "utf8"));
  for (const [written, expected] of vectors) {
    const value = withBytes(written);
    strictEqual(hex(encode(value)), expected, JSON.stringify(value));
    deepStrictEqual(decode(new Uint8Array(Buffer.from(expected, "hex"))), value);
  }
});

test("integers beyond 2^53 are bigints", () => {
  strictEqual(hex(encode(2n ** 64n - 1n)), "1bffffffffffffffff");
  strictEqual(decode(encode(2n ** 64n - 1n)), 2n ** 64n - 1n);
});

test("broken bytes are refused", () => {
  for (const bad of ["", "18", "61ff", "0000", "a10101", "81".repeat(1000) + "00"]) {
    throws(() => decode(Buffer.from(bad, "hex")), bad);
  }
});

const offer = { events: { go: true }, effects: { ask: {}, "http.request": {}, "fabric.send": { message_ids: true } }, queries: { any: true, write: true, draw: true } };

const asks: Program = {
  handle(world, event) {
    const cause = event.cause;
    if (cause.is === "receipt") world.put("answer", decode(cause.payload));
    else if (cause.is === "timer") world.put("fired", cause.payload);
    else if (cause.is === "event" && cause.value === "fail") {
      world.put("lost", 1);
      throw new Error("as it was told");
    } else if (cause.is === "event") {
      world.emit("ask", cause.value, "label");
      world.setTimer("timer", world.nowNs + 5n, { n: 1 });
    }
  },
  query(world, name) {
    if (name === "write") world.put("lost", 1);
    if (name === "draw") return String(world.random());
    return world.get("answer");
  },
};

test("effects and timers come back as steps", () => {
  const world = new TestWorld(asks, offer);
  deepStrictEqual(world.send("go", { x: 1 }).intents, [{ kind: "ask", label: "label", params: { x: 1 } }]);
  world.receipt("label", "ok", [1, 2]);
  world.fire("timer");
  deepStrictEqual([world.cell("answer"), world.cell("fired")], [[1, 2], { n: 1 }]);
  deepStrictEqual([world.open, world.timers], [[], []]);
  throws(() => world.receipt("label", "ok"));
});

test("a step that fails leaves nothing", () => {
  const world = new TestWorld(asks, offer);
  throws(() => world.send("go", "fail"));
  deepStrictEqual(world.cells, []);
});

test("a query reads, and is refused what changes the world", () => {
  const world = new TestWorld(asks, offer);
  world.send("go");
  world.receipt("label", "ok", 7);
  strictEqual(world.query("any"), 7);
  throws(() => world.query("write"), /`put` was called in a query/);
  throws(() => world.query("draw"), /`random` was called in a query/);
  deepStrictEqual(world.cells, ["answer"]);
  throws(() => new TestWorld({ handle() {} }, offer).query("any"), /answers no query/);
});

test("cells are in the order of their bytes", () => {
  const keys = ["k/a", "k/ab", "k/\u{fffd}", "k/\u{1f375}"];
  const scanned: Program = {
    handle(world) {
      [...keys].reverse().forEach((key) => world.put(key, 1));
    },
    query: (world, _, after) => world.scan("k/", after ?? undefined, 10).map(([key]) => key),
  };
  const world = new TestWorld(scanned, offer);
  world.send("go");
  deepStrictEqual(world.cells, keys);
  deepStrictEqual(world.query("any"), keys);
  deepStrictEqual(world.query("any", keys[2]), [keys[3]]);
});

test("a program sets and hears correlation, headers, universe and message id", () => {
  const [universe, messageId] = ["u_00000000000000000000000002", `h_${"0".repeat(64)}`];
  const relay: Program = {
    handle(world, event) {
      const { correlationId } = event.origin;
      world.send("bob", sent("on", 7), "on", { universe, correlationId, headers: world.headers, messageId });
    },
  };
  const told = { correlationId: "order 7", headers: { tenant: "a" } };
  const step = new TestWorld(relay, offer).step({ is: "event", schema: "go", value: null }, told);
  const said = { universe, correlationId: "order 7", headers: { tenant: "a" }, messageId };
  deepStrictEqual(step.sent, [{ label: "on", to: "bob", schema: "on", value: 7, ...said }]);
  deepStrictEqual(step.intents[0].params.dest_world, "bob");
});

test("the answer of a server is read as a response, and one that no server gives is refused", () => {
  const reads: Program = {
    handle(world, { cause }) {
      if (cause.is !== "receipt") return world.emit("http.request", { url: "http://a", body: "x" }, "h");
      const answer = receipt(cause, "http.request");
      if (!answer.ok) return world.put("failed", answer.error.code);
      const { value } = answer;
      strictEqual(value instanceof HttpResponse && value.ok, true);
      world.put("read", [value.status, value.headers["a"], value.text(), value.json(), value.bytes()]);
    },
  };
  const world = new TestWorld(reads, offer);
  world.send("go");
  throws(() => world.receipt("h", "ok", { status: 200, headers: {}, body: "text" }), { code: "RECEIPT_INVALID" });
  const body = new TextEncoder().encode('{"n":1}');
  world.receipt("h", "ok", { status: 200, headers: { a: "b" }, body });
  deepStrictEqual(world.cell("read"), [200, "b", '{"n":1}', { n: 1 }, body]);
  world.send("go");
  world.fail("h", "EFFECT_DENIED", "no");
  strictEqual(world.cell("failed"), "EFFECT_DENIED");
});

test("a program tells apart why an effect was not carried out", () => {
  const reads: Program = {
    handle(world, { cause }) {
      if (cause.is !== "receipt") return world.emit("http.request", { url: "http://a" }, "h");
      const answer = receipt(cause, "http.request");
      if (!answer.ok) world.put("failed", answer.error.kind);
    },
  };
  const kinds = {
    EFFECT_CANCELLED: "cancelled",
    EFFECT_SANDBOXED: "sandboxed",
    EFFECT_NOT_RECORDED: "not_recorded",
    EFFECT_DENIED: "denied",
    UNIVERSE_DENIED: "denied",
    EFFECT_TIMEOUT: "timed_out",
    EFFECT_CLAIM_EXPIRED: "timed_out",
    CARD_DECLINED: "failed",
  };
  for (const [code, kind] of Object.entries(kinds)) {
    const world = new TestWorld(reads, offer);
    world.send("go");
    world.fail("h", code, "no");
    strictEqual(world.cell("failed"), kind);
  }
});
