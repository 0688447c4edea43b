import { strictEqual } from "node:assert";
import { test } from "node:test";
import { DurableWorld } from "mundi-sdk/testing";
import offer from "../mundi.json";
import program from "../src/program.ts";

test("it counts", async () => {
  const world = new DurableWorld(program, offer);
  strictEqual((await world.event("add", 2)).reply, 2);
  strictEqual((await world.event("add", 3)).reply, 5);
  strictEqual(world.query("count"), 5);
});

test("it counts later", async () => {
  const world = new DurableWorld(program, offer);
  const { state, status } = await world.run("later", { by: 3, after: "1h" });
  strictEqual(`${state}: ${status}`, "running: adds 3 after 1h");
  await world.skip("1h");
  strictEqual(world.instance("later").result, 3);
});
