/** The same scenario leads to the same cells in every language, byte for byte. `MUNDI_BLESS=1` writes them down anew. */

import { deepStrictEqual } from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { type Ctx, FunctionCancelled, durable, program } from "../src/index.ts";
import { DurableWorld } from "../src/testing.ts";

const path = process.env.MUNDI_FUNCTION_VECTORS!;
const table = JSON.parse(readFileSync(path, "utf8"));
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

const functions = program({
  order: durable(async (ctx: Ctx, order: { cents: number }) => {
    const charge = await ctx.effect("charge", { cents: order.cents }, { retry: 2, timeout: "30s" });
    const [stock, fraud] = await ctx.all([ctx.effect("reserve", order), ctx.effect("check", order)]);
    const approval = await ctx.race([ctx.event("approve", { ok: true }), ctx.sleep("1h")]);
    if (!approval) {
      await ctx.effect("refund", charge);
      return { state: "expired" };
    }
    await ctx.call("warehouse", "ship", order);
    return { state: "placed", stock, fraud };
  }),
  many: durable(async (ctx: Ctx, n: number) => {
    ctx.status({ left: n });
    const limit = ctx.limit(2);
    const all = await ctx.all([0, 1, 2].map((item) => limit(() => ctx.effect("reserve", item))));
    ctx.put("total", (ctx.get<number>("total") ?? 0) + n);
    const version = ctx.version("way", 1, 2);
    ctx.detach(ctx.send("audit", "note", n));
    if (n > 0) return ctx.continueAs(n - 1);
    return [ctx.now, version, String(ctx.random()), all];
  }),
  long: durable(async (ctx: Ctx, n: number) => {
    const approval = ctx.event("approve");
    let seen = 0;
    for (let item = 0; item < n; item++) if ((await ctx.effect("reserve", item)) !== undefined) seen++;
    return [await approval, seen];
  }),
  loose: durable(async (ctx: Ctx, n: number) => {
    ctx.detach(ctx.effect("reserve", { n }, { retry: 2, timeout: "1h" }));
    if (n > 0) return ctx.continueAs(n - 1);
    return String(ctx.random());
  }),
  careful: durable(async (ctx: Ctx) => {
    try {
      return await ctx.signal("approve");
    } catch (error) {
      if (!(error instanceof FunctionCancelled)) throw error;
      await ctx.shield((ctx) => ctx.effect("refund", null));
      throw error;
    }
  }),
});

async function act(world: DurableWorld, [what, ...given]: any[]): Promise<void> {
  if (what === "run") await world.run(given[0], given[1], { key: given[2] });
  else if (what === "answer") await world.answer(given[0], given[1]);
  else if (what === "fail") await world.failEffect(given[0], given[1], given[2]);
  else if (what === "event") await world.event(given[0], given[1], given[2] ?? undefined);
  else if (what === "skip") await world.skip(given[0]);
  else await (world as any)[what](...given);
}

for (const entry of table.cases) {
  test(entry.name, async () => {
    const world = new DurableWorld(functions, table.offer);
    for (const action of entry.do) await act(world, action);
    const cells = Object.fromEntries(world.bytes.map(([key, bytes]) => [key, hex(bytes)]));
    if (process.env.MUNDI_BLESS) entry.cells = cells;
    else deepStrictEqual(cells, entry.cells);
  });
}

if (process.env.MUNDI_BLESS) {
  test("written down", () => {
    const lines = table.cases.map((entry: any) => {
      const cells = Object.entries(entry.cells).map(([key, bytes]) => `        ${JSON.stringify(key)}: ${JSON.stringify(bytes)}`);
      const steps = entry.do.map((action: any) => `        ${JSON.stringify(action)}`);
      return `    {\n      "name": ${JSON.stringify(entry.name)},\n      "do": [\n${steps.join(",\n")}\n      ],\n      "cells": {\n${cells.join(",\n")}\n      }\n    }`;
    });
    writeFileSync(path, `{\n  "offer": ${JSON.stringify(table.offer)},\n  "cases": [\n${lines.join(",\n")}\n  ]\n}\n`);
  });
}
