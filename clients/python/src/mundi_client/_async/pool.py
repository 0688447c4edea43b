"""Pools of resources that are leased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from .. import types
from .._shared import given, unique_key
from .http import AsyncHttp


class AsyncPool:
    """A pool. A command that is repeated is carried out once: it has an operation id."""

    def __init__(self, http: AsyncHttp, name: str) -> None:
        self._http = http
        self.name = name

    def _path(self, *parts: object) -> str:
        return self._http.path("pools", self.name, *parts)

    async def _command(self, verb: str, form: dict[str, Any]) -> types.CommandResult:
        body = {"operation_id": unique_key(), **given(form)}
        return cast(types.CommandResult, await self._http.json("POST", self._path(verb), body=body, repeatable=True))

    async def get(self) -> dict[str, Any]:
        return cast(dict[str, Any], await self._http.json("GET", self._path()))

    async def create_resources(self, resources: Sequence[dict[str, Any]]) -> list[types.CommandResult]:
        body = {"resources": list(resources), "operation_id": unique_key()}
        made = await self._http.json("POST", self._path("resources"), body=body, repeatable=True)
        return cast(list[types.CommandResult], made)

    async def resource(self, resource: str, **query: Any) -> dict[str, Any]:
        return cast(dict[str, Any], await self._http.json("GET", self._path("resources", resource), query=query))

    async def resources(self, **query: Any) -> dict[str, Any]:
        """A page of the resources, of all shards or of one."""
        return cast(dict[str, Any], await self._http.json("GET", self._path("resources"), query=query))

    async def lease(self, lease: str, **query: Any) -> dict[str, Any]:
        return cast(dict[str, Any], await self._http.json("GET", self._path("leases", lease), query=query))

    async def leases(self, **query: Any) -> dict[str, Any]:
        """A page of the leases, of all shards or of one."""
        return cast(dict[str, Any], await self._http.json("GET", self._path("leases"), query=query))

    async def ticket(self, ticket: str, **query: Any) -> dict[str, Any]:
        return cast(dict[str, Any], await self._http.json("GET", self._path("tickets", ticket), query=query))

    async def reserve(self, *, holder: str, ttl_slots: int, **form: Any) -> types.CommandResult:
        """Reserves `resources` by name, or a `count` of a `label`: all of them, or none."""
        return await self._command("reserve", {"holder": holder, "ttl_slots": ttl_slots, **form})

    async def enqueue(self, *, holder: str, ttl_slots: int, **form: Any) -> types.CommandResult:
        """Waits in the pool's queue for resources of a label."""
        return await self._command("enqueue", {"holder": holder, "ttl_slots": ttl_slots, **form})

    async def cancel(self, *, ticket: str, holder: str, **form: Any) -> types.CommandResult:
        return await self._command("cancel", {"ticket": ticket, "holder": holder, **form})

    async def activate(self, *, lease_id: str, lease_epoch: int, holder: str, **form: Any) -> types.CommandResult:
        return await self._command("activate", {"lease_id": lease_id, "lease_epoch": lease_epoch, "holder": holder, **form})

    async def release(self, *, lease_id: str, lease_epoch: int, holder: str, **form: Any) -> types.CommandResult:
        return await self._command("release", {"lease_id": lease_id, "lease_epoch": lease_epoch, "holder": holder, **form})

    async def revoke(self, *, lease_id: str, **form: Any) -> types.CommandResult:
        return await self._command("revoke", {"lease_id": lease_id, **form})

    async def reclaim(self, *, lease_id: str, **form: Any) -> types.CommandResult:
        return await self._command("reclaim", {"lease_id": lease_id, **form})

    async def delete(self) -> None:
        await self._http.json("DELETE", self._path())
