"""NAME: counts. `mundi program types && PYTHONPATH=mundi-sdk python3 -m unittest` runs it without a server, `mundi
program build` makes a component of it."""

from typing import Any

from mundi import Event, Named, World


class Counter:
    def handle(self, world: World, event: Event) -> None:
        if isinstance(event.cause, Named):
            count = world.get("count", 0) + event.cause.value
            world.put("count", count)
            world.reply(event.seq, count)

    def query(self, world: World, name: str, params: Any) -> Any:
        return world.get("count", 0)


program = Counter()
