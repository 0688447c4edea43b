"""What the synchronous and the asynchronous client share: addresses, keys, pauses, events, the fields of a worker's answers."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from .errors import FinalError, RetryError

FIRST_PAUSE_S = 0.05
PAUSE_MAX_S = 2.0
RETRY_FOR_S = 30.0
CALL_TIMEOUT_S = 60.0
CALL_TIMEOUT_MAX_S = 55 * 60.0
"""The server knows an idempotency key for an hour."""
WAIT_MAX_S = 20.0
"""One request waits so long at most, so that a connection that is dead is noticed."""
HOLDERS_MAX = 10_000
"""Worlds whose holder is remembered. When there are more, all are forgotten and learnt again."""
REASON_CHARACTERS_MAX = 500
CLAIMS_MAX = 256


class Backoff:
    """Pauses that double, with a random part, so that clients of a server that comes back do not arrive at once."""

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S

    def pause_s(self, at_least_s: float = 0.0) -> float:
        pause = max(at_least_s, self._next_s * random.uniform(0.5, 1.0))
        self._next_s = min(self._next_s * 2, PAUSE_MAX_S)
        return pause

    def reset(self) -> None:
        self._next_s = FIRST_PAUSE_S


class Holders:
    """Which process of a fleet holds a world, as answers say: calls and events go there directly."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._known: dict[str, str] = {}

    def address(self, path: str) -> str:
        return self._known.get(_world_of(path) or "", self._url)

    def learn(self, path: str, holder: str | None) -> None:
        world = _world_of(path)
        # A token that was sent encrypted is not sent in the clear.
        schemes = ("https://", "http://") if self._url.startswith("http://") else ("https://",)
        if world is None or holder is None or not holder.startswith(schemes):
            return
        if len(self._known) >= HOLDERS_MAX:
            self._known.clear()
        self._known[world] = holder.rstrip("/")

    def forget(self, path: str) -> None:
        self._known.pop(_world_of(path) or "", None)


def _world_of(path: str) -> str | None:
    """The part of a path that names the world, if it is that of a call or an event."""
    parts = path.split("/")
    is_held = len(parts) == 8 and parts[4] == "worlds" and parts[6] in ("call", "send")
    return "/".join(parts[:6]) if is_held else None


def unique_key() -> str:
    """A key that no other request has."""
    return secrets.token_hex(16)


def segment(text: object) -> str:
    """A part of a path."""
    return quote(str(text), safe="")


def params(given: Mapping[str, Any]) -> dict[str, Any]:
    """Query parameters; those that are None are left out."""
    named = {name: value for name, value in given.items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in named.items()}


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body; those that are None are left out."""
    return {name: value for name, value in fields.items() if value is not None}


def headers_of(idempotency_key: str | None, correlation_id: str | None) -> dict[str, str]:
    headers = {"idempotency-key": idempotency_key or unique_key()}
    if correlation_id is not None:
        headers["correlation-id"] = correlation_id
    return headers


def milliseconds(seconds: float) -> str:
    """A duration as the API writes it."""
    return f"{max(1, round(seconds * 1000))}ms"


class Events:
    """Takes the lines of server-sent events, and gives the data of each event."""

    def __init__(self) -> None:
        self._data: list[str] = []

    def take(self, line: str) -> Any | None:
        if line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        elif not line and self._data:
            data, self._data = "\n".join(self._data), []
            return json.loads(data)
        return None


def failed(claim: str, error: BaseException, final: Sequence[type[BaseException]], adapter: str | None) -> dict[str, Any]:
    """What the server is told about an attempt that failed."""
    reason = (str(error) or type(error).__name__)[:REASON_CHARACTERS_MAX]
    retryable = not isinstance(error, (FinalError, *final))
    after_ms = error.after_ms if isinstance(error, RetryError) else None
    return given({"claim": claim, "reason": reason, "retryable": retryable, "retry_after_ms": after_ms, "adapter": adapter})


def claiming(kinds: Iterable[str], room: int, ttl_s: float, wait_s: float) -> dict[str, Any]:
    return {"kinds": list(kinds), "limit": min(room, CLAIMS_MAX), "ttl": milliseconds(ttl_s), "wait": milliseconds(wait_s)}
