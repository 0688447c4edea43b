import { strictEqual } from "node:assert";
import { test } from "node:test";
import { TestWorld } from "mundi-sdk/testing";
import offer from "../mundi.json";
import program from "../src/program.ts";

test("it counts", () => {
  const world = new TestWorld(program, offer);
  strictEqual(world.send("add", 2).reply, 2);
  strictEqual(world.send("add", 3).reply, 5);
  strictEqual(world.query("count"), 5);
});
