"""A todo agent: asks a service how long a todo takes, replies, tells another world, and reminds it later."""

import json
from typing import Any, Optional

from mundi import EffectError, Event, Failure, HttpRequest, Named, Receipt, Timer, World

VERSION = 1


class TodoAgent:
    def handle(self, world: World, event: Event) -> None:
        cause = event.cause
        if isinstance(cause, Named):
            taken(world, event.seq, cause)
        elif isinstance(cause, Timer):
            reminded(world, cause.label.removeprefix("remind/"))
        elif isinstance(cause, Receipt):
            what, _, rest = cause.label.partition("/")
            if what == "minutes":
                estimated(world, cause, rest)
            elif what == "notice" and not cause.ok:
                world.log("warn", f"{cause.label} was not delivered: {cause.error}")

    def query(self, world: World, name: str, params: Any) -> Any:
        if name == "version":
            return VERSION
        prefix = "todo/" if name == "todos" else "notice/"
        return {key.removeprefix(prefix): value for key, value in world.scan(prefix, None, 1000)}


program = TodoAgent()


def taken(world: World, seq: str, cause: Named) -> None:
    value = cause.value
    if cause.schema == "setup":
        world.put("setup", value)
        world.reply(seq, True)
    elif cause.schema == "add":
        body = json.dumps({"text": value["text"]}, ensure_ascii=False, separators=(",", ":"))
        headers = {"content-type": "application/json"}
        world.ask(HttpRequest(setup(world)["service"], "POST", headers, body), f"minutes/{value['id']}")
        world.put(f"todo/{value['id']}", {"text": value["text"], "state": "asked", "call": seq})
    else:
        key = f"notice/{value['id']}/{value['what']}"
        world.put(key, world.get(key, 0) + 1)


def setup(world: World) -> Any:
    found = world.get("setup")
    if found is None:
        raise Failure("send `setup` first")
    return found


def estimated(world: World, receipt: Receipt, id: str) -> None:
    todo = world.get(f"todo/{id}")
    minutes = minutes_of(receipt)
    state = "failed" if minutes is None else "planned"
    world.put(f"todo/{id}", todo | {"state": state} | ({} if minutes is None else {"minutes": minutes}))
    world.reply(todo["call"], {"id": id, "state": state, "minutes": minutes})
    if minutes is not None:
        world.set_timer_in_ms(f"remind/{id}", setup(world)["remind_ms"])
        notify(world, id, "planned")


def minutes_of(receipt: Receipt) -> Optional[int]:
    """What the service said, if it did."""
    try:
        answer = receipt.answer
        return answer.json()["minutes"] if answer.ok else None
    except (EffectError, ValueError, KeyError):
        return None


def reminded(world: World, id: str) -> None:
    world.put(f"todo/{id}", world.get(f"todo/{id}") | {"state": "reminded"})
    notify(world, id, "reminded")


def notify(world: World, id: str, what: str) -> None:
    """To a world by its name, or its id."""
    world.send_event(setup(world)["notify"], "notice", {"id": id, "what": what}, f"notice/{id}/{what}")
