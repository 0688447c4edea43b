"""The same scenario leads to the same cells in every language, byte for byte."""

import json
import unittest
from pathlib import Path
from typing import Any

from mundi import Ctx, FunctionCancelled, durable, durable_program
from mundi.testing_functions import DurableWorld

TABLE = json.loads((Path(__file__).resolve().parents[2] / "function-vectors.json").read_text())


@durable
async def order(ctx: Ctx, order: Any) -> Any:
    charge = await ctx.effect("charge", {"cents": order["cents"]}, retry=2, timeout="30s")
    stock, fraud = await ctx.all([ctx.effect("reserve", order), ctx.effect("check", order)])
    approval = await ctx.race([ctx.event("approve", {"ok": True}), ctx.sleep("1h")])
    if not approval:
        await ctx.effect("refund", charge)
        return {"state": "expired"}
    await ctx.call("warehouse", "ship", order)
    return {"state": "placed", "stock": stock, "fraud": fraud}


@durable
async def many(ctx: Ctx, n: int) -> Any:
    ctx.status({"left": n})
    limit = ctx.limit(2)
    every = await ctx.all(limit(lambda item=item: ctx.effect("reserve", item)) for item in range(3))
    ctx.put("total", ctx.get("total", 0) + n)
    version = ctx.version("way", 1, 2)
    ctx.detach(ctx.send("audit", "note", n))
    if n > 0:
        return ctx.continue_as(n - 1)
    return [ctx.now, version, str(ctx.random()), every]


@durable
async def long(ctx: Ctx, n: int) -> Any:
    approval = ctx.event("approve")
    seen = 0
    for item in range(n):
        if await ctx.effect("reserve", item) is not None:
            seen += 1
    return [await approval, seen]


@durable
async def loose(ctx: Ctx, n: int) -> Any:
    ctx.detach(ctx.effect("reserve", {"n": n}, retry=2, timeout="1h"))
    if n > 0:
        return ctx.continue_as(n - 1)
    return str(ctx.random())


@durable
async def careful(ctx: Ctx, _: Any) -> Any:
    try:
        return await ctx.signal("approve")
    except FunctionCancelled:
        await ctx.shield(lambda ctx: ctx.effect("refund"))
        raise


def act(world: DurableWorld, action: list[Any]) -> None:
    what, *given = action
    if what == "fail":
        world.fail_effect(*given)
    else:
        getattr(world, what)(*given)


class Vectors(unittest.TestCase):
    maxDiff = None

    def test_the_shared_scenarios_hold(self) -> None:
        for case in TABLE["cases"]:
            with self.subTest(case["name"]):
                world = DurableWorld(durable_program(order, many, long, loose, careful), TABLE["offer"])
                for action in case["do"]:
                    act(world, action)
                self.assertEqual({key: cell.hex() for key, cell in world.cells.items()}, case["cells"])


if __name__ == "__main__":
    unittest.main()
