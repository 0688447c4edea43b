"""The agent of ../../agent.rs as a durable function: a conversation is a loop."""

import json
from typing import Any

from mundi import Ctx, EffectError, HttpRequest, LlmChat, durable, durable_program

TOOL = {
    "type": "function",
    "function": {
        "name": "fetch",
        "description": "Fetches a page.",
        "parameters": {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
    },
}


async def page(ctx: Ctx, call: dict[str, Any]) -> str:
    """The text of a page. An error is told to the model, too: it may know what to do."""
    try:
        return (await ctx.effect(HttpRequest(json.loads(call["arguments"])["url"]))).text()
    except EffectError as error:
        return str(error)


@durable
async def ask(ctx: Ctx, question: str) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        heard = await ctx.effect(LlmChat(messages, options={"tools": [TOOL]}))
        calls = heard.tool_calls
        if not calls:
            return heard.content
        wanted = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls
        ]
        messages.append({"role": "assistant", "content": heard.content, "tool_calls": wanted})
        # All at once; their results are in the order of the calls.
        pages = await ctx.all(page(ctx, call) for call in calls)
        for call, content in zip(calls, pages):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


program = durable_program(ask)
