"""Children: runs that a world dispatches, each started at most once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

from .. import types
from .._shared import given, headers_of
from .following import follow as follow_events
from .http import AsyncHttp


class AsyncChildren:
    """The children of a world."""

    def __init__(self, http: AsyncHttp, world: str) -> None:
        self._http = http
        self._world = world

    def _path(self, *parts: object) -> str:
        return self._http.path("worlds", self._world, *parts)

    async def spawn(
        self,
        kind: str,
        params: Any = None,
        *,
        budget: Mapping[str, int] | None = None,
        idempotency_key: str | None = None,
    ) -> types.Child:
        """Spawns a child in place of the world's program. `budget` bounds what it may spend, by lane."""
        body, headers = given({"kind": kind, "params": params, "budget": budget}), headers_of(idempotency_key, None)
        child = await self._http.json("POST", self._path("children"), body=body, headers=headers, repeatable=True)
        return cast(types.Child, child)

    async def list(self, *, limit: int | None = None) -> AsyncGenerator[types.Child, None]:
        """All children, in the order in which they were spawned."""
        async for child in self._http.items(self._path("children"), {"limit": limit}):
            yield cast(types.Child, child)

    async def get(self, child: str) -> types.Child:
        return cast(types.Child, await self._http.json("GET", self._path("children", child)))

    async def cancel(self, child: str, *, idempotency_key: str | None = None) -> types.Cancelled:
        """Cancels a child. One that has ended stays as it is."""
        path, headers = self._path("children", child, "cancel"), headers_of(idempotency_key, None)
        return cast(types.Cancelled, await self._http.json("POST", path, body={}, headers=headers, repeatable=True))

    async def events(self, child: str, *, start: int = 0, follow: bool = False) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a child (`urm-events@1`). With `follow` it continues until the child has ended, also after the server was restarted."""
        path = self._path("children", child, "events")
        if not follow:
            for event in await self._http.json("GET", path, query={"from": start}):
                yield event
            return

        async def is_over() -> bool:
            return (await self.get(child))["phase"] == "terminal"

        async for event in follow_events(self._http, path, start, "seq", is_over):
            yield event

    async def budget(self) -> types.Budget:
        """What the children have spent, and may spend."""
        return cast(types.Budget, await self._http.json("GET", self._path("budget")))

    async def set_budget(self, limits: Mapping[str, int | None]) -> types.Budget:
        """Sets limits by lane; None removes one."""
        body = {"limits": dict(limits)}
        return cast(types.Budget, await self._http.json("PUT", self._path("budget"), body=body, repeatable=True))
