import { deepStrictEqual, match, strictEqual } from "node:assert";
import { test } from "node:test";
import { DurableWorld, type Step, forEachCrash } from "mundi-sdk/testing";
import offer from "../mundi.json";
import program from "../src/program.ts";

/** The model says something, or wants pages. */
function says(content: string, ...urls: string[]) {
  const tool_calls = urls.map((url) => ({ id: url, name: "fetch", arguments: JSON.stringify({ url }) }));
  return { model: "fake", content, finish_reason: null, tool_calls, usage: null };
}

async function asked(world: DurableWorld): Promise<Step> {
  await world.run("ask", "Where is it warmer?");
  await world.answer("llm.chat", says("Let me see.", "http://a", "http://b"));
  await world.answer("http.request", { status: 200, headers: {}, body: new TextEncoder().encode("21 degrees") });
  return world.failEffect("http.request", "EFFECT_FAILED", "no route");
}

test("both pages are fetched, and the model hears of the one that failed", async () => {
  const world = new DurableWorld(program, offer);
  const { messages } = (await asked(world)).intents[0]!.params;
  const told = messages.map((message: { content: string }) => message.content);
  deepStrictEqual(told.slice(0, 3), ["Where is it warmer?", "Let me see.", "21 degrees"]);
  match(told[3], /no route/);
  await world.answer("llm.chat", says("At the first place."));
  const { result, asks } = world.instance("ask");
  strictEqual(result, "At the first place.");
  deepStrictEqual(asks, ["effect llm.chat", "effect http.request", "effect http.request", "effect llm.chat"]);
});

test("the model is not asked twice whenever the process dies", async () => {
  const steps = await forEachCrash(() => new DurableWorld(program, offer), async (world) => {
    await asked(world);
    await world.answer("llm.chat", says("At the first place."));
  });
  strictEqual(steps, 5);
});
