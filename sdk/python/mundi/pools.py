"""Pools: worlds that lease resources. A program reserves, activates and releases by calls to the pool; the host says who calls, so the
holder of a lease is the calling world and no other.

Each is a world.call, which mundi.json declares. PoolResult.of reads what the pool answers.
"""

import re
from dataclasses import dataclass, field, fields
from typing import Any, Optional

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


@dataclass
class Wish:
    """What is to be reserved, all or nothing: one resource or several by their ids (r_...), or so many with a label."""

    resources: list[str] = field(default_factory=list)
    count: int = 0
    label: str = ""
    queued: bool = False
    """Answered once it is this caller's turn in the queue of the pool, or the call times out. Of a count only."""

    def command(self, ttl_slots: int) -> dict[str, Any]:
        if len(self.resources) == 1:
            return {"reserve": {"resource_id": self.resources[0], "ttl_slots": ttl_slots}}
        if self.resources:
            return {"reserve_bundle": {"resource_ids": self.resources, "ttl_slots": ttl_slots}}
        any_of = {"label": self.label, "count": self.count, "ttl_slots": ttl_slots}
        return {"enqueue_reserve": any_of | {"wait": True}} if self.queued else {"reserve_any": any_of}


@dataclass
class Lease:
    """A lease that this world holds: the pool, and the pair that fences it. Keep it in a cell (vars(lease)), and name it in effects that
    use the resource."""

    pool: str
    lease_id: str
    lease_epoch: int

    def world(self) -> str:
        """The world of the pool that has the lease: its shard stands in the id."""
        if not re.fullmatch("l_[0-7][0-9a-hjkmnp-tv-z]{25}", self.lease_id):
            raise ValueError(f"`{self.lease_id}` is not a lease id")
        bits = 0
        for digit in self.lease_id[2:]:
            bits = bits << 5 | _DIGITS.index(digit)
        shard = bits >> 64
        return self.pool if shard == 0 else f"{self.pool}.shard-{shard}"

    def command(self, name: str) -> dict[str, Any]:
        return {name: {"lease_id": self.lease_id, "lease_epoch": self.lease_epoch}}


@dataclass
class PoolResult:
    """What a pool answers. One that refuses answers, too: ok."""

    result: str
    """"ok", "noop", or why nothing was done: "resource_busy", "stale_epoch", "holder_mismatch" ..."""
    lsn: int = 0
    """The height of the command in the pool's journal."""
    slot: int = 0
    lease_id: Optional[str] = None
    lease_epoch: Optional[int] = None
    """After the command."""
    deadline_slot: Optional[int] = None
    """When a reservation ends that is not activated."""
    resource_ids: list[str] = field(default_factory=list)

    @staticmethod
    def of(answer: dict[str, Any]) -> "PoolResult":
        """Of the answer of a receipt."""
        known = {each.name for each in fields(PoolResult)}
        return PoolResult(**{name: value for name, value in answer.items() if name in known})

    @property
    def ok(self) -> bool:
        """Whether it was done, or had been before."""
        return self.result in ("ok", "noop")

    def lease(self, pool: str) -> Optional[Lease]:
        """The lease that was reserved, activated or released, with its epoch now."""
        if self.lease_id is None or self.lease_epoch is None:
            return None
        return Lease(pool, self.lease_id, self.lease_epoch)
