"""Durable functions of a world. An instance is named FUNCTION/KEY."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from time import monotonic
from typing import Any, cast

from .. import types
from .._shared import CALL_TIMEOUT_S, WAIT_MAX_S, Backoff, milliseconds, segment
from ..errors import MundiError
from .http import AsyncHttp


class AsyncFunctions:
    """The durable functions of a world."""

    def __init__(self, http: AsyncHttp, world: str) -> None:
        self._http = http
        self._world = world

    def _path(self, instance: str | None = None) -> str:
        path = self._http.path("worlds", self._world, "functions")
        return path if instance is None else "/".join([path, *(segment(part) for part in instance.split("/"))])

    async def run(self, function: str, key: str, value: Any = None, *, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Runs a function under a key and waits for its result: past timeouts, broken connections and restarts of the server.

        The same key with the same input finds the instance again; with another input it is refused. The instance goes on after a timeout.
        """
        until, backoff, path = monotonic() + timeout_s, Backoff(), self._path(f"{function}/{key}")
        while True:
            left_s = max(0.001, until - monotonic())
            query = {"timeout": milliseconds(min(left_s, WAIT_MAX_S))}
            try:
                return await self._http.json("POST", path, query=query, body=value, repeatable=True, retry_for_s=left_s)
            except MundiError as error:
                if error.code != "CALL_TIMEOUT" or monotonic() >= until:
                    raise
            await asyncio.sleep(backoff.pause_s())

    async def list(
        self, *, function: str | None = None, state: str | None = None, at: int | None = None, limit: int | None = None
    ) -> AsyncGenerator[types.FunctionInstance, None]:
        """The instances: all, those of a function or in a state; with `at`, as they were before the record at this height."""
        query = {"function": function, "state": state, "at": at, "limit": limit}
        async for instance in self._http.items(self._path(), query):
            yield cast(types.FunctionInstance, instance)

    async def describe(self, instance: str, *, at: int | None = None) -> types.FunctionDescription:
        """An instance with every await on record."""
        return cast(types.FunctionDescription, await self._http.json("GET", self._path(instance), query={"at": at}))

    async def cancel(self, instance: str, *, reason: str | None = None) -> types.FunctionState:
        """Cancels an instance; its cleanup runs. One that has ended stays as it is."""
        query = {"reason": reason}
        return cast(types.FunctionState, await self._http.json("DELETE", self._path(instance), query=query, repeatable=True))

    async def pause(self, instance: str) -> types.FunctionState:
        """An instance that is paused keeps what comes in, and does not go on."""
        return await self._set_paused(instance, True)

    async def resume(self, instance: str) -> types.FunctionState:
        return await self._set_paused(instance, False)

    async def _set_paused(self, instance: str, paused: bool) -> types.FunctionState:
        query = {"paused": paused}
        return cast(types.FunctionState, await self._http.json("PUT", self._path(instance), query=query, repeatable=True))
