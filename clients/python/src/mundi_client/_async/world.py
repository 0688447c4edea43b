"""A world."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from time import monotonic
from typing import Any, cast

from .. import types
from .._shared import CALL_TIMEOUT_MAX_S, CALL_TIMEOUT_S, WAIT_MAX_S, Backoff, given, headers_of, milliseconds, segment
from ..errors import MundiError
from .children import AsyncChildren
from .following import follow as follow_events
from .functions import AsyncFunctions
from .http import PATIENT_S, AsyncHttp


class AsyncWorld:
    """A world, by its name or its id. That it exists is known when it is asked for something."""

    def __init__(self, http: AsyncHttp, name: str) -> None:
        self._http = http
        self.name = name

    def _path(self, *parts: object) -> str:
        return self._http.path("worlds", self.name, *parts)

    async def get(self) -> types.WorldDetails:
        """All that is known about it."""
        return cast(types.WorldDetails, await self._http.json("GET", self._path()))

    async def why(self) -> types.WhyWorld:
        """Why it is not moving."""
        return cast(types.WhyWorld, await self._http.json("GET", self._path("why")))

    @property
    def functions(self) -> AsyncFunctions:
        """Its durable functions."""
        return AsyncFunctions(self._http, self.name)

    @property
    def children(self) -> AsyncChildren:
        """The runs that it dispatched."""
        return AsyncChildren(self._http, self.name)

    async def label(self, labels: Mapping[str, str | None]) -> dict[str, str]:
        """Sets labels, and removes those that are None; returns what they are then."""
        set_ = {name: value for name, value in labels.items() if value is not None}
        body = {"set": set_, "remove": [name for name, value in labels.items() if value is None]}
        found = await self._http.json("POST", self._path("labels"), body=body, repeatable=True)
        return cast(dict[str, str], found["labels"])

    async def send(
        self,
        event: str,
        value: Any = None,
        *,
        key: str | None = None,
        delay: str | None = None,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
    ) -> types.Sent:
        """Sends an event. It is durable when this returns; what the program makes of it is not waited for."""
        headers, query = headers_of(idempotency_key, correlation_id), {"key": key, "delay": delay}
        path = self._path("send", event)
        sent = await self._http.json("POST", path, query=query, body=value, headers=headers, repeatable=True)
        return cast(types.Sent, sent)

    async def call(
        self,
        event: str,
        value: Any = None,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
    ) -> Any:
        """Sends an event once and waits for the program's reply: past timeouts, broken connections and restarts of the server."""
        until = monotonic() + min(timeout_s, CALL_TIMEOUT_MAX_S)
        headers, backoff, name = headers_of(idempotency_key, correlation_id), Backoff(), None
        while True:
            left_s = max(0.001, until - monotonic())
            query = {"timeout": milliseconds(min(left_s, WAIT_MAX_S))}
            try:
                if name is not None:
                    return await self._http.json("GET", self._path("calls", name), query=query, retry_for_s=left_s)
                path = self._path("call", event)
                return await self._http.json(
                    "POST", path, query=query, body=value, headers=headers, repeatable=True, retry_for_s=left_s
                )
            except MundiError as error:
                if error.code != "CALL_TIMEOUT" or monotonic() >= until:
                    raise
                name = error.problem.get("call", name)  # without a name it is sent again, under the same key
            await asyncio.sleep(backoff.pause_s())

    async def reply(self, call: str, *, timeout: str | None = None) -> Any:
        """The reply to a call that was made before. `problem["call"]` of a call that timed out names it."""
        return await self._http.json("GET", self._path("calls", call), query={"timeout": timeout}, timeout=PATIENT_S)

    async def query(
        self,
        query: str,
        params: Any = None,
        *,
        at: int | None = None,
        at_least: str | int | None = None,
        timeout: str | None = None,
    ) -> Any:
        """Asks the program, which cannot change anything. `at`: as it was before the record at this height."""
        asked = {"at": at, "at_least": at_least, "timeout": timeout}
        return await self._http.json("POST", self._path("query", query), query=asked, body=params, repeatable=True)

    async def journal(self, *, start: int = 0, follow: bool = False) -> AsyncGenerator[dict[str, Any], None]:
        """The records of its journal. With `follow` it continues with each record that is appended, also after the server was restarted."""
        if follow:
            async for record in follow_events(self._http, self._path("journal"), start, "height"):
                yield record
            return
        height: int | None = start
        while height is not None:
            page = await self._http.json("GET", self._path("journal"), query={"from": height})
            for record in page["items"]:
                yield record
            height = None if page.get("next") is None else int(page["next"])

    async def step(self, height: int, **query: Any) -> types.Step:
        """The changes of the record at a height, and what is open after it."""
        return cast(types.Step, await self._http.json("GET", self._path("steps", height), query=query))

    async def cells(
        self, *, prefix: str | None = None, at: int | None = None, limit: int | None = None
    ) -> AsyncGenerator[types.Cell, None]:
        """Its cells under a prefix, in key order."""
        async for cell in self._http.items(self._path("cells"), {"prefix": prefix, "at": at, "limit": limit}):
            yield cast(types.Cell, cell)

    async def cell(self, key: str, *, at: int | None = None) -> types.Cell:
        path = "/".join([self._path("cells"), *(segment(part) for part in key.split("/"))])
        return cast(types.Cell, await self._http.json("GET", path, query={"at": at}))

    async def fork(self, world: str | None = None, **options: Any) -> AsyncWorld:
        """Forks it at any height of its past (`at`, `effects`, `program`, `answers`). Without a name the new world gets a random id."""
        body = given({"world": world, **options})
        forked = await self._http.json("POST", self._path("fork"), body=body, repeatable=world is not None, timeout=PATIENT_S)
        return AsyncWorld(self._http, world or forked["world"])

    async def diff(
        self,
        with_: str | None = None,
        *,
        at: int | None = None,
        with_at: int | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[types.Difference]:
        """The cells that differ between this world and another, or between two heights; with `after`, those behind a key."""
        query = {"with": with_, "at": at, "with_at": with_at, "after": after, "limit": limit}
        return cast(list[types.Difference], await self._http.json("GET", self._path("diff"), query=query, timeout=PATIENT_S))

    async def lineage(self) -> types.Family:
        return cast(types.Family, await self._http.json("GET", self._path("lineage")))

    async def verify(self) -> types.ProofReport:
        """Replays it from genesis and from its baseline, and compares every hash."""
        return cast(types.ProofReport, await self._http.json("POST", self._path("verify"), repeatable=True, timeout=PATIENT_S))

    async def rehearse(self, **body: Any) -> types.RehearsalOf:
        """Runs its history under another program, and names the first record from which something else follows."""
        path = self._path("rehearse")
        return cast(types.RehearsalOf, await self._http.json("POST", path, body=body, repeatable=True, timeout=PATIENT_S))

    async def export(self) -> bytes:
        """The world with its history as one file, in memory."""
        return await self._http.content(self._path("bundle"))

    def export_chunks(self) -> AsyncGenerator[bytes, None]:
        """The same piece by piece. A file that breaks off has no end, and import refuses it."""
        return self._http.chunks(self._path("bundle"))

    async def pause(self) -> types.Commanded:
        return cast(types.Commanded, await self._http.json("POST", self._path("pause"), repeatable=True))

    async def resume(self) -> types.Commanded:
        """Continues after a pause, and after a hold."""
        return cast(types.Commanded, await self._http.json("POST", self._path("resume"), repeatable=True))

    async def retry(self) -> types.Repair:
        """Takes the input again that it is on hold at."""
        return cast(types.Repair, await self._http.json("POST", self._path("retry")))

    async def skip(self) -> types.Repair:
        """Passes the input that it is on hold at: the program does not see it."""
        return cast(types.Repair, await self._http.json("POST", self._path("skip")))

    async def upgrade(self, **body: Any) -> types.Commanded:
        return cast(types.Commanded, await self._http.json("POST", self._path("upgrade"), body=body, timeout=PATIENT_S))

    async def archive(self) -> None:
        await self._http.json("POST", self._path("archive"), repeatable=True)

    async def unarchive(self) -> None:
        await self._http.json("POST", self._path("unarchive"), repeatable=True)

    async def delete(self) -> None:
        """Deletes it for good."""
        await self._http.json("DELETE", self._path())

