"""NAME: counts, now or later. `mundi program types && PYTHONPATH=mundi-sdk python3 -m unittest` runs it without a server, `mundi
program build` makes a component of it."""

from typing import Any

from mundi import Ctx, Event, Named, World, durable, durable_program
from vocabulary import Later


@durable
async def later(ctx: Ctx, given: Later) -> int:
    """A durable function: what happens in order, as ordinary code. It survives whatever happens while it waits."""
    ctx.status(f"adds {given['by']} after {given['after']}")
    await ctx.sleep(given["after"])
    count = ctx.get("count", 0) + given["by"]
    ctx.put("count", count)
    return count


class Counter:
    def handle(self, world: World, event: Event) -> None:
        """A handler: one step for each event that is for no function."""
        if isinstance(event.cause, Named):
            count = world.get("count", 0) + event.cause.value
            world.put("count", count)
            world.reply(event.seq, count)

    def query(self, world: World, name: str, params: Any) -> Any:
        return world.get("count", 0)


program = durable_program(later, handlers=Counter())
