"""A worker that carries out effects: claims them, keeps the claims by heartbeats, and answers or fails them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from .. import types
from .._shared import Backoff, claiming, failed, given, milliseconds
from ..errors import MundiError, WithdrawnError
from .http import Http

log = logging.getLogger("mundi_client.worker")

Handler = Callable[[types.Task], Any]
"""Returns the result of an effect. Raises `FinalError` if another attempt is useless; any other error is one more attempt."""


class Worker:
    """The handlers run in threads. `is_withdrawn` tells one whose claim was lost that it may stop."""

    def __init__(
        self,
        http: Http,
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
        self._running: dict[str, Future[None]] = {}
        self._withdrawn: set[str] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._over = threading.Event()

    def run(self) -> None:
        """Works until `stop`. Raises if the server refuses to give work: a token that may not `work`, say."""
        self._over.clear()
        beating = threading.Thread(target=self._beat, name="mundi-heartbeat", daemon=True)
        beating.start()
        try:
            with ThreadPoolExecutor(self._concurrency, "mundi-worker") as threads:
                self._work(threads)
        finally:
            self._over.set()
            beating.join()

    def stop(self) -> None:
        """Takes no more work. `run` returns when everything that was begun is answered."""
        self._stopping.set()

    def is_withdrawn(self, task: types.Task) -> bool:
        """Whether nobody waits for the result of a task any more."""
        with self._lock:
            return task["claim"] in self._withdrawn

    def _work(self, threads: ThreadPoolExecutor) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            try:
                for task in self._claim():
                    running = threads.submit(self._carry_out, task)
                    with self._lock:
                        self._running[task["claim"]] = running
                backoff.reset()
            except MundiError as error:
                if not error.is_transient:
                    raise
                log.warning("no work can be claimed: %s", error)
                self._stopping.wait(backoff.pause_s())
            self._make_room()

    def _make_room(self) -> None:
        with self._lock:
            running = list(self._running.values())
        if len(running) >= self._concurrency:
            wait(running, return_when=FIRST_COMPLETED)
        with self._lock:
            self._running = {claim: it for claim, it in self._running.items() if not it.done()}
            self._withdrawn &= self._running.keys()

    def _claim(self) -> list[types.Task]:
        body = claiming(self._handlers, self._concurrency - len(self._running), self._ttl_s, self._wait_s)
        tasks: list[types.Task] = self._http.json("POST", self._http.path("tasks", "claim"), body=body)
        return tasks

    def _carry_out(self, task: types.Task) -> None:
        try:
            try:
                result = self._handlers[task["kind"]](task)
            except WithdrawnError:
                return
            except Exception as error:  # whatever a handler raises is an attempt that failed
                if not self.is_withdrawn(task):
                    self._answer("fail", failed(task["claim"], error, self._final, self._adapter))
                return
            if not self.is_withdrawn(task):
                self._answer("complete", {"claim": task["claim"], "result": result, **given({"adapter": self._adapter})})
        except MundiError as error:
            log.warning("%s %s: %s", task["kind"], task["intent"], error)

    def _answer(self, verb: str, body: dict[str, Any]) -> None:
        """Repeated as long as the claim may be held."""
        retry_for_s = max(self._ttl_s, self._http.retry_for_s)
        self._http.json("POST", self._http.path("tasks", verb), body=body, repeatable=True, retry_for_s=retry_for_s)

    def _beat(self) -> None:
        while not self._over.wait(self._ttl_s / 3):
            with self._lock:
                claims = [claim for claim, it in self._running.items() if not it.done()]
            if not claims:
                continue
            try:
                body, path = {"claims": claims, "ttl": milliseconds(self._ttl_s)}, self._http.path("tasks", "heartbeat")
                kept = self._http.json("POST", path, body=body, repeatable=True, retry_for_s=self._ttl_s / 3)
            except MundiError as error:
                log.warning("the claims could not be renewed: %s", error)
                continue
            with self._lock:
                self._withdrawn.update(kept["lost"], kept["withdrawn"])
