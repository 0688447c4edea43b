"""An order, from payment to stock and back, as a durable function: the same as ../../python, without a state machine."""

from typing import Any

from mundi import Ctx, EffectError, FunctionCancelled, World, durable, durable_program
from vocabulary import Order

NOTHING = {"placed": 0, "cents": 0}


@durable
async def order(ctx: Ctx, order: Order) -> Any:
    ctx.status("charging")
    try:
        params = {"order": ctx.key, "cents": order["cents"]}
        charge = (await ctx.effect("payment.charge", params, retry=2))["charge"]
    except EffectError:
        return {"state": "failed", "why": "the payment was refused"}
    ctx.status("reserving")
    try:
        wish = {"order": ctx.key, "sku": order["sku"], "quantity": order["quantity"]}
        await ctx.effect("stock.reserve", wish, timeout="1h")
    except (EffectError, FunctionCancelled) as error:
        # Also when the order is cancelled: what was paid is given back.
        await ctx.shield(lambda ctx: ctx.effect("payment.refund", {"order": ctx.key, "charge": charge}))
        if isinstance(error, FunctionCancelled):
            raise
        return {"state": "refunded", "why": "out of stock"}
    totals = ctx.get("totals", NOTHING)
    ctx.put("totals", {"placed": totals["placed"] + 1, "cents": totals["cents"] + order["cents"]})
    return {"state": "placed"}


class Shop:
    def handle(self, world: World, event: Any) -> None:
        """Everything is for the function."""

    def query(self, world: World, name: str, params: Any) -> Any:
        return world.get("totals", NOTHING)


program = durable_program(order, handlers=Shop())
