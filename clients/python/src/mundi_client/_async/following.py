"""Streams of numbered events that are taken up again wherever they broke off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from time import monotonic
from typing import Any

import httpx

from .._shared import Backoff, Events
from ..errors import MundiError, UnreachableError
from .http import TIMEOUT_S, AsyncHttp


async def follow(
    http: AsyncHttp, path: str, start: int, number: str, is_over: Callable[[], Awaitable[bool]] | None = None
) -> AsyncGenerator[dict[str, Any], None]:
    """The server ends a stream after a while, or is restarted: the next one begins with the event after the last that was seen.

    `number` is the field that numbers the events. `is_over` is asked when a stream ends: whether there will be no other event.
    """
    next_, backoff, until = start, Backoff(), None
    headers = http.headers({"accept": "text/event-stream"})
    while True:
        try:
            url, asked = http.url + path, {"from": next_}
            async with http.client.stream("GET", url, params=asked, headers=headers, timeout=TIMEOUT_S) as stream:
                await http.check(stream)
                events, until = Events(), None
                async for line in stream.aiter_lines():
                    event = events.take(line)
                    if event is not None:
                        next_ = event[number] + 1
                        backoff.reset()
                        yield event
            if is_over is not None and await is_over():
                return
        except (httpx.TransportError, MundiError) as broken:
            error = broken if isinstance(broken, MundiError) else UnreachableError(http.url, repr(broken))
            until = until or monotonic() + http.retry_for_s
            if not error.is_transient or monotonic() >= until:
                raise error from broken
        await asyncio.sleep(backoff.pause_s())
