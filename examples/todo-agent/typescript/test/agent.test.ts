import { deepStrictEqual, strictEqual, throws } from "node:assert";
import { test } from "node:test";
import { TestWorld } from "mundi-sdk/testing";
import offer from "../mundi.json";
import program from "../src/program.ts";

function agent(): TestWorld {
  const world = new TestWorld(program, offer);
  world.send("setup", { service: "http://service/minutes", notify: "boss", remind_ms: 1000 });
  return world;
}

const answer = (status: number, body: string) => ({ status, headers: {}, body: new TextEncoder().encode(body) });

test("a todo is estimated, answered, announced and reminded", () => {
  const world = agent();
  const asked = world.send("add", { id: "tea", text: "make tea" }).intents[0]!;
  deepStrictEqual([asked.params.url, asked.params.body], ["http://service/minutes", '{"text":"make tea"}']);
  const step = world.receipt("minutes/tea", "ok", answer(200, '{"minutes":5}'));
  deepStrictEqual(Object.values(step.replies), [{ id: "tea", state: "planned", minutes: 5 }]);
  deepStrictEqual([step.sent[0]!.to, step.sent[0]!.value], ["boss", { id: "tea", what: "planned" }]);
  deepStrictEqual(world.fire("remind/tea").sent[0]!.value, { id: "tea", what: "reminded" });
  strictEqual(world.query("todos").tea.state, "reminded");
});

test("a service that fails is told to the caller", () => {
  const world = agent();
  const answers: [string, object][] = [["a", answer(500, "")], ["b", answer(200, "no json")]];
  for (const [id, answered] of answers) {
    world.send("add", { id, text: "x" });
    const step = world.receipt(`minutes/${id}`, "ok", answered);
    strictEqual(Object.values(step.replies)[0].state, "failed");
    deepStrictEqual([step.sent, step.timers], [[], []]);
  }
  world.send("add", { id: "c", text: "x" });
  world.fail("minutes/c", "EFFECT_DENIED", "10.0.0.1 is not a public address");
  strictEqual(world.query("todos").c.state, "failed");
  throws(() => world.send("add", { id: "Not an id", text: "x" }), { code: "EVENT_INVALID" });
});
