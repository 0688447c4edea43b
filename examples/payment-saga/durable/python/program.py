"""An order as a durable function: what ../../saga.rs keeps in cells and tells apart by labels is the order of the lines here."""

import json
from typing import Any, Optional

from mundi import Ctx, EffectError, Event, FunctionCancelled, HttpRequest, Named, World, durable, durable_program
from vocabulary import Begin

STEPS = [("reserve", "release"), ("charge", "refund")]
"""Steps, with the step that undoes each. Nothing is shipped before it is confirmed."""


async def ask(ctx: Ctx, order: Begin, what: str) -> bool:
    """Whether the shop did it."""
    body = json.dumps({"order": order["order"]}, ensure_ascii=False, separators=(",", ":"))
    headers = {"content-type": "application/json"}
    try:
        return (await ctx.effect(HttpRequest(f"{order['shop']}/{what}", "POST", headers, body))).ok
    except EffectError:
        return False


async def forward(ctx: Ctx, order: Begin, undo: list[str]) -> Optional[str]:
    """The way forward. Notes what undoes each step, and says why it ended before the goods were shipped."""
    # Both are waited for from the beginning: a customer may confirm before the card is charged.
    confirm, late = ctx.event("confirm"), ctx.sleep(order["confirm_within_ms"])
    for step, undone_by in STEPS:
        if not await ask(ctx, order, step):
            ctx.detach(confirm)
            ctx.detach(late)
            return f"{step} was refused"
        undo.append(undone_by)
    if not await ctx.race([confirm, late]):
        return "it was not confirmed in time"
    return None if await ask(ctx, order, "ship") else "ship was refused"


@durable
async def begin(ctx: Ctx, order: Begin) -> Any:
    undo: list[str] = []
    cancelled = None
    try:
        failed = await forward(ctx, order, undo)
    except FunctionCancelled as error:
        failed, cancelled = "it was cancelled", error

    async def back(ctx: Ctx) -> None:
        for step in reversed(undo):
            await ask(ctx, order, step)

    if failed is not None:
        # Also when the order is cancelled: what was done is undone, the newest first.
        await ctx.shield(back)
    outcome = "shipped" if failed is None else {"undone": failed}
    ctx.put("outcome", outcome)
    if cancelled is not None:
        raise cancelled
    return outcome


class Outcome:
    def handle(self, world: World, event: Event) -> None:
        """What is for no function."""
        if isinstance(event.cause, Named) and event.cause.schema == "outcome":
            world.reply(event.seq, world.get("outcome"))


program = durable_program(begin, handlers=Outcome())
