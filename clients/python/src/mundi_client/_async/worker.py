"""A worker that carries out effects: claims them, keeps the claims by heartbeats, and answers or fails them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from .. import types
from .._shared import Backoff, claiming, failed, given, milliseconds
from ..errors import MundiError
from .http import AsyncHttp

log = logging.getLogger("mundi_client.worker")

Handler = Callable[[types.Task], Awaitable[Any]]
"""Returns the result of an effect. Raises `FinalError` if another attempt is useless; any other error is one more attempt. If the claim is
lost or the effect withdrawn, it is cancelled."""


class AsyncWorker:
    def __init__(
        self,
        http: AsyncHttp,
        handlers: Mapping[str, Handler],
        concurrency: int,
        ttl_s: float,
        wait_s: float,
        final: Sequence[type[BaseException]],
        adapter: str | None,
    ) -> None:
        if not handlers or concurrency < 1:
            raise ValueError("a worker needs a handler, and a concurrency of at least 1")
        self._http, self._handlers, self._concurrency = http, handlers, concurrency
        self._ttl_s, self._wait_s, self._final, self._adapter = ttl_s, wait_s, final, adapter
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Works until `stop`. Raises if the server refuses to give work: a token that may not `work`, say."""
        beating = asyncio.create_task(self._beat())
        try:
            await self._work()
        finally:
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    def stop(self) -> None:
        """Takes no more work. `run` returns when everything that was begun is answered."""
        self._stopping.set()

    async def _work(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            try:
                for task in await self._claim():
                    self._begin(task)
                backoff.reset()
            except MundiError as error:
                if not error.is_transient:
                    raise
                log.warning("no work can be claimed: %s", error)
                await asyncio.sleep(backoff.pause_s())
            if len(self._running) >= self._concurrency:
                await asyncio.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)  # lets what is done leave the table

    async def _claim(self) -> list[types.Task]:
        room = self._concurrency - len(self._running)
        if room == 0:
            return []
        body = claiming(self._handlers, room, self._ttl_s, self._wait_s)
        tasks: list[types.Task] = await self._http.json("POST", self._http.path("tasks", "claim"), body=body)
        return tasks

    def _begin(self, task: types.Task) -> None:
        claim = task["claim"]
        running = asyncio.create_task(self._carry_out(task))
        self._running[claim] = running
        running.add_done_callback(lambda _: self._running.pop(claim, None))

    async def _carry_out(self, task: types.Task) -> None:
        try:
            try:
                result = await self._handlers[task["kind"]](task)
            except Exception as error:  # whatever a handler raises is an attempt that failed
                await self._answer("fail", failed(task["claim"], error, self._final, self._adapter))
            else:
                body = {"claim": task["claim"], "result": result, **given({"adapter": self._adapter})}
                await self._answer("complete", body)
        except MundiError as error:
            log.warning("%s %s: %s", task["kind"], task["intent"], error)

    async def _answer(self, verb: str, body: dict[str, Any]) -> None:
        """Repeated as long as the claim may be held."""
        retry_for_s = max(self._ttl_s, self._http.retry_for_s)
        await self._http.json("POST", self._http.path("tasks", verb), body=body, repeatable=True, retry_for_s=retry_for_s)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_s / 3)
            claims = list(self._running)
            if not claims:
                continue
            try:
                body, path = {"claims": claims, "ttl": milliseconds(self._ttl_s)}, self._http.path("tasks", "heartbeat")
                kept = await self._http.json("POST", path, body=body, repeatable=True, retry_for_s=self._ttl_s / 3)
            except MundiError as error:
                log.warning("the claims could not be renewed: %s", error)
                continue
            for claim in (*kept["lost"], *kept["withdrawn"]):
                if claim in self._running:
                    self._running[claim].cancel("the claim was lost, or the effect withdrawn")
