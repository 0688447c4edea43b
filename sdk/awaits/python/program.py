"""An effect that is asked for again and again: as a durable function and as a handler."""

from typing import Any

from mundi import Ctx, Event, Named, Receipt, World, cbor, durable, durable_program
from vocabulary import Chain, Work


def work(step: int) -> Work:
    return {"step": step, "note": f"step {step} of the chain"}


@durable
async def chain(ctx: Ctx, given: Chain) -> Any:
    total = 0
    for step in range(given["n"]):
        total += (await ctx.effect("work", work(step)))["worth"]
    return total


class Hand:
    def handle(self, world: World, event: Event) -> None:
        cause = event.cause
        if isinstance(cause, Named):
            world.put("hand", {"n": cause.value["n"], "step": 0, "sum": 0, "call": event.seq})
            world.emit("work", work(0), "hand")
        elif isinstance(cause, Receipt):
            kept = world.get("hand")
            kept["sum"] += cbor.decode(cause.payload)["worth"]
            kept["step"] += 1
            if kept["step"] == kept["n"]:
                world.delete("hand")
                world.reply(kept["call"], kept["sum"])
                return
            world.put("hand", kept)
            world.emit("work", work(kept["step"]), "hand")


program = durable_program(chain, handlers=Hand())
