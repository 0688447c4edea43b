"""A universe of a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast

import httpx

from .. import types
from .._shared import RETRY_FOR_S, Holders, given
from .http import PATIENT_S, AsyncHttp, http_of
from .pool import AsyncPool
from .worker import AsyncWorker, Handler
from .world import AsyncWorld

URL = "http://127.0.0.1:7600"


class AsyncMundi:
    """A universe of a server. Close it after use, or use it in a `with` block.

    `follow_holders` sends calls and events to the process of a fleet that holds their world, once an answer has named it (`mundi-holder`). The
    token goes there, too. An address that cannot be reached is forgotten, and the request goes to `url`.
    """

    def __init__(
        self,
        url: str = URL,
        *,
        token: str | None = None,
        universe: str = "default",
        retry_for_s: float = RETRY_FOR_S,
        follow_holders: bool = False,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        holders = Holders(url.rstrip("/")) if follow_holders else None
        self.http: AsyncHttp = http_of(url, token, universe, retry_for_s, client, holders)
        """For requests that have no method here."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self.http.aclose()

    def universe(self, name: str) -> AsyncMundi:
        """The same server, token and connections, another universe."""
        http = self.http
        follow = http.holders is not None
        return AsyncMundi(
            http.url, token=http.token, universe=name, retry_for_s=http.retry_for_s, follow_holders=follow, client=http.client
        )

    async def whoami(self) -> types.Caller:
        """What the caller's token allows."""
        return cast(types.Caller, await self.http.json("GET", "/v1/whoami"))

    async def summary(self) -> types.Summary:
        """Counts of worlds by state, and of queued items."""
        return cast(types.Summary, await self.http.json("GET", self.http.path("summary")))

    async def sql(self, query: str, *, timeout_ms: int | None = None) -> types.SqlAnswer:
        """Read-only SQL over the tables of the universe: `rows` has the values in the order of `columns`."""
        body = given({"query": query, "timeout_ms": timeout_ms})
        # Sent once: a query that is too large is refused as full, and would be again.
        answer = await self.http.json("POST", self.http.path("sql"), body=body, timeout=PATIENT_S)
        return cast(types.SqlAnswer, answer)

    def world(self, name: str) -> AsyncWorld:
        """A world by its name or its id."""
        return AsyncWorld(self.http, name)

    async def create(self, world: str | None = None, **options: Any) -> AsyncWorld:
        """Creates a world (`program`, `manifest` or `seed`); one that exists already with the same program is returned."""
        body = given({"world": world, **options})
        created = await self.http.json("POST", self.http.path("worlds"), body=body, repeatable=world is not None)
        return AsyncWorld(self.http, world or created["world"])

    async def list(self, **filters: Any) -> AsyncGenerator[types.World, None]:
        """All worlds that match the filters: `state`, `program`, `parent`, `held_by`, `on_hold`, `failed`, `name`, `label` …"""
        async for world in self.http.items(self.http.path("worlds"), filters):
            yield cast(types.World, world)

    async def count(self, **filters: Any) -> types.WorldCount:
        """How many worlds match the filters, by state."""
        count, states, after = 0, dict[str, int](), None
        while True:
            page = await self.http.json("GET", self.http.path("world-count"), query={**filters, "after": after})
            count += page["count"]
            for state, found in page["states"].items():
                states[state] = states.get(state, 0) + found
            after = page.get("next")
            if after is None:
                return {"count": count, "states": states, "next": None}

    async def bulk(
        self,
        verb: str,
        filters: Mapping[str, Any],
        *,
        dry_run: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[types.ListPage_BulkWorld, None]:
        """Pauses, resumes, archives, unarchives or deletes all worlds that match the filters, page by page. At least one filter is needed.

        Each page has `items`, what became of its worlds, and `next`: an iteration that was interrupted goes on with it as `after`.
        """
        while True:
            body = given({"verb": verb, "filters": dict(filters), "dry_run": dry_run, "limit": limit, "after": after})
            page = await self.http.json("POST", self.http.path("bulk"), body=body, repeatable=True, timeout=PATIENT_S)
            yield cast(types.ListPage_BulkWorld, page)
            after = page.get("next")
            if after is None:
                return

    async def import_bundle(
        self, bundle: bytes | AsyncIterable[bytes], *, world: str | None = None, effects: str | None = None
    ) -> types.ImportedWorld:
        """Verifies a bundle and creates its world."""
        query, path = {"world": world, "effects": effects}, self.http.path("bundles")
        imported = await self.http.json("POST", path, query=query, content=bundle, repeatable=False, timeout=PATIENT_S)
        return cast(types.ImportedWorld, imported)

    async def put_blob(self, content: bytes | AsyncIterable[bytes]) -> types.Blob:
        path = self.http.path("blobs")
        return cast(types.Blob, await self.http.json("POST", path, content=content, repeatable=True, timeout=PATIENT_S))

    async def get_blob(self, hash: str) -> bytes:
        return await self.http.content(self.http.path("blobs", hash))

    async def effects(
        self, *, world: str | None = None, kind: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[types.Effect, None]:
        """The effects that have no receipt yet."""
        async for effect in self.http.items(self.http.path("effects"), {"world": world, "kind": kind, "limit": limit}):
            yield cast(types.Effect, effect)

    async def effect(self, effect: str, *, world: str | None = None) -> types.Effect:
        """One effect. With `world`, one that is over is found in the journal."""
        return cast(types.Effect, await self.http.json("GET", self.http.path("effects", effect), query={"world": world}))

    async def retry_effect(self, effect: str, *, world: str | None = None) -> types.Changed:
        path = self.http.path("effects", "retry", effect)
        return cast(types.Changed, await self.http.json("POST", path, query={"world": world}, repeatable=True))

    async def cancel_effect(self, effect: str, *, reason: str | None = None, world: str | None = None) -> types.Changed:
        path, body = self.http.path("effects", "cancel", effect), given({"reason": reason, "world": world})
        return cast(types.Changed, await self.http.json("POST", path, body=body, repeatable=True))

    async def answer_effect(
        self, effect: str, *, status: types.AnswerStatus, payload: Any = None, world: str | None = None
    ) -> types.Answered:
        """Gives an open effect the receipt that an operator chooses."""
        path, body = self.http.path("effects", "answer", effect), given({"status": status, "payload": payload, "world": world})
        return cast(types.Answered, await self.http.json("POST", path, body=body, repeatable=True))

    async def dead_letters(
        self, *, queue: str | None = None, world: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[types.Letter, None]:
        query = {"queue": queue, "world": world, "limit": limit}
        async for letter in self.http.items(self.http.path("dead-letters"), query):
            yield cast(types.Letter, letter)

    async def dead_letter(self, letter: str) -> types.Letter:
        return cast(types.Letter, await self.http.json("GET", self.http.path("dead-letters", letter)))

    async def replay_dead_letters(self, **which: Any) -> types.BulkDone:
        """Replays dead letters: `letters`, or those of a `queue` that match `world` and `code`. Ask again while `more` is true."""
        body = {"action": "replay", **which}
        return cast(types.BulkDone, await self.http.json("POST", self.http.path("dead-letters"), body=body))

    async def drop_dead_letters(self, **which: Any) -> types.BulkDone:
        body = {"action": "drop", **which}
        return cast(types.BulkDone, await self.http.json("POST", self.http.path("dead-letters"), body=body))

    async def pools(self) -> Sequence[types.PoolEntry]:
        return cast(Sequence[types.PoolEntry], await self.http.json("GET", self.http.path("pools")))

    async def create_pool(self, name: str, **options: Any) -> AsyncPool:
        """Creates a pool (`shards`, `config`)."""
        await self.http.json("POST", self.http.path("pools"), body={"name": name, **options}, repeatable=True)
        return AsyncPool(self.http, name)

    def pool(self, name: str) -> AsyncPool:
        return AsyncPool(self.http, name)

    def worker(
        self,
        handlers: Mapping[str, Handler],
        *,
        concurrency: int = 1,
        ttl_s: float = 30.0,
        wait_s: float = 5.0,
        final: Sequence[type[BaseException]] = (),
        adapter: str | None = None,
    ) -> AsyncWorker:
        """A worker for effects: a handler for each kind. It works from `run` to `stop`."""
        return AsyncWorker(self.http, handlers, concurrency, ttl_s, wait_s, final, adapter)
