"""Requests: the token, refusals as exceptions, retries of what may be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from time import monotonic
from typing import Any

import httpx

from .._shared import RETRY_FOR_S, WAIT_MAX_S, Backoff, Holders, params, segment
from ..errors import MundiError, UnreachableError, refusal

JSON = {"content-type": "application/json"}
BYTES = {"content-type": "application/octet-stream"}
TIMEOUT_S = httpx.Timeout(WAIT_MAX_S + 20, connect=10)
# Replays of long histories take as long as they take.
PATIENT_S = httpx.Timeout(None, connect=10)


class AsyncHttp:
    """A server, a token and a universe."""

    def __init__(
        self,
        url: str,
        token: str | None,
        universe: str,
        retry_for_s: float,
        client: httpx.AsyncClient | None,
        holders: Holders | None,
    ) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self.universe = universe
        self.retry_for_s = retry_for_s
        self.client = client or httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_S)
        self.holders = holders

    async def aclose(self) -> None:
        await self.client.aclose()

    def path(self, *parts: object) -> str:
        """A path below the universe."""
        return "/".join(["/v1/u", segment(self.universe), *(segment(part) for part in parts)])

    async def json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = ...,
        content: bytes | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        retry_for_s: float | None = None,
        timeout: httpx.Timeout | None = None,
    ) -> Any:
        """The answer as JSON; None for an empty one. Refusals are exceptions."""
        arguments: dict[str, Any] = {"params": params(query or {}), "headers": self.headers(headers)}
        if content is not None:
            arguments |= {"content": content, "headers": self.headers(headers) | BYTES}
        elif body is not ...:
            arguments["json"] = body
        if timeout is not None:
            arguments["timeout"] = timeout
        again = (method == "GET" if repeatable is None else repeatable) and (content is None or isinstance(content, bytes))
        response = await self.send(method, path, arguments, again, retry_for_s)
        return response.json() if response.content else None

    async def send(
        self, method: str, path: str, arguments: Mapping[str, Any], repeatable: bool, retry_for_s: float | None
    ) -> httpx.Response:
        until = monotonic() + (self.retry_for_s if retry_for_s is None else retry_for_s)
        backoff = Backoff()
        while True:
            error: MundiError
            after_s = 0.0
            address = self.url if self.holders is None else self.holders.address(path)
            try:
                response = await self.client.request(method, address + path, **arguments)
                if self.holders is not None:
                    # Of a refusal by another address than the server's own it may be that another service has the address now.
                    if address != self.url and not response.is_success:
                        self.holders.forget(path)
                    self.holders.learn(path, response.headers.get("mundi-holder"))
                if response.is_success:
                    return response
                after_s = float(response.headers.get("retry-after", 0))
                error = refusal(response.status_code, self.decoded(response))
            except httpx.TransportError as broken:
                error = UnreachableError(address, repr(broken))
                if self.holders is not None:
                    self.holders.forget(path)
            # Whether a call that timed out is asked for again, and how, is up to the call.
            again = repeatable and error.is_transient and error.code != "CALL_TIMEOUT"
            if not again or monotonic() + after_s >= until:
                raise error
            await asyncio.sleep(backoff.pause_s(after_s))

    async def content(self, path: str) -> bytes:
        """An answer of bytes, in memory."""
        arguments = {"headers": self.headers(None), "timeout": PATIENT_S}
        return (await self.send("GET", path, arguments, True, None)).content

    async def chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """An answer of bytes, piece by piece."""
        try:
            async with self.client.stream("GET", self.url + path, headers=self.headers(None), timeout=PATIENT_S) as response:
                await self.check(response)
                async for chunk in response.aiter_bytes():
                    yield chunk
        except httpx.TransportError as broken:
            raise UnreachableError(self.url, repr(broken)) from broken

    async def items(self, path: str, query: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """Every item of a list that comes in pages."""
        after: Any = query.get("after")
        while True:
            page = await self.json("GET", path, query={**query, "after": after})
            for item in page["items"]:
                yield item
            after = page.get("next")
            if after is None:
                return

    async def check(self, response: httpx.Response) -> None:
        """Raises what a streamed answer is refused with."""
        if not response.is_success:
            await response.aread()
            raise refusal(response.status_code, self.decoded(response))

    def decoded(self, response: httpx.Response) -> object:
        try:
            return response.json()
        except ValueError:
            return None

    def headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        headers = dict(more or {})
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        return headers


def http_of(
    url: str,
    token: str | None,
    universe: str,
    retry_for_s: float = RETRY_FOR_S,
    client: httpx.AsyncClient | None = None,
    holders: Holders | None = None,
) -> AsyncHttp:
    return AsyncHttp(url, token, universe, retry_for_s, client, holders)
