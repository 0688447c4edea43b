"""Pools: worlds that lease resources. A program reserves, activates and releases by calls to the pool; the host says who calls, so the
holder of a lease is the calling world and no other.

Each is a world.call, which mundi.json declares. PoolResult.of reads what the pool answers.
"""

import hashlib
import re
from dataclasses import dataclass, field, fields
from typing import Any, Optional

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def _bits(prefix: str, text: str) -> Optional[int]:
    """The bits of an id in its text form."""
    if not re.fullmatch(prefix + "[0-7][0-9a-hjkmnp-tv-z]{25}", text):
        return None
    bits = 0
    for digit in text[2:]:
        bits = bits << 5 | _DIGITS.index(digit)
    return bits


def _of_name(name: str) -> int:
    return int.from_bytes(hashlib.sha256(b"mundi.pool.resource.1\0" + name.encode()).digest()[:16], "big")


def resource_id(name: str) -> str:
    """The id (r_...) of the resource of this name."""
    bits = _of_name(name)
    return "r_" + "".join(_DIGITS[bits >> 5 * place & 31] for place in reversed(range(26)))


def shard_of(resource: str, shards: int) -> int:
    """The shard that a resource lies in, of a pool of so many: by its id (r_...) or its name. It is the same for ever."""
    bits = _bits("r_", resource)
    bits = _of_name(resource) if bits is None else bits
    digest = hashlib.sha256(b"mundi.pool.shard.1\0" + bits.to_bytes(16, "big")).digest()
    return int.from_bytes(digest[:8], "big") % max(shards, 1)


def shard_world(pool: str, shard: int) -> str:
    """The world of a shard of a pool: the first one has the pool's name."""
    return pool if shard == 0 else f"{pool}.shard-{shard}"


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
        bits = _bits("l_", self.lease_id)
        if bits is None:
            raise ValueError(f"`{self.lease_id}` is not a lease id")
        return shard_world(self.pool, bits >> 64)

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
