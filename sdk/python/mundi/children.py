"""Children: runs that this world dispatches and does not replay, each started at most once. World.spawn_child asks for one under a label,
ChildEvent.of reads what becomes of it, and World.cancel_child ends it.

mundi.json declares the effects child.spawn, child.cancel and, for a program that is run as a child of kind "world", child.done.
"""

from dataclasses import dataclass, field
from typing import Any, Optional

from . import cbor


@dataclass
class Budget:
    """What a child may use, or has used. A lane that is absent is unbounded in a budget."""

    solver_calls: Optional[int] = None
    duration_secs: Optional[int] = None
    tokens: Optional[int] = None

    def lanes(self) -> dict[str, int]:
        """The lanes that are said."""
        return {name: amount for name, amount in vars(self).items() if amount is not None}


@dataclass
class ChildEvent:
    """What became of a child of this world."""

    label: str
    """The label under which it was spawned."""
    lifecycle: str
    """"started", "passed", "failed" or "cancelled"."""
    child_id: str = ""
    lease_id: Optional[str] = None
    """The worker_run_id: the idempotency key of the run. None if it never had an executor."""
    world: Optional[str] = None
    """The world that runs it, of a child of kind "world"."""
    result: Any = None
    """What a child that passed returned."""
    code: Optional[str] = None
    reason: Optional[str] = None
    cancel_request_id: Optional[str] = None
    spent: Budget = field(default_factory=Budget)
    """What was debited for it, once it has ended."""

    @staticmethod
    def of(cause: Any) -> "Optional[ChildEvent]":
        """What a cause says about a child of this world; None if it is about none."""
        if getattr(cause, "inbox", None) == "child.started":
            return _read(cause.headers.get("label", ""), "started", cause.payload)
        if getattr(cause, "kind", None) != "child.spawn":
            return None
        return _read(cause.label, "passed" if cause.status == "ok" else "failed", cause.payload)


def _read(label: str, lifecycle: str, payload: bytes) -> ChildEvent:
    said = cbor.decode(payload)
    fields: dict[str, Any] = said if isinstance(said, dict) else {}
    # A fork that does not run it, or an operator who answered for it, cancelled it, too.
    was_cancelled = fields.get("outcome") == "cancelled" or fields.get("code") == "EFFECT_CANCELLED"
    names = ("lease_id", "world", "result", "code", "reason", "cancel_request_id")
    spent = Budget(**{lane: amount for lane, amount in fields.get("spent", {}).items() if lane in vars(Budget())})
    return ChildEvent(
        label,
        "cancelled" if lifecycle == "failed" and was_cancelled else lifecycle,
        fields.get("child_id", ""),
        spent=spent,
        **{name: fields.get(name) for name in names},
    )


def child_spec(kind: str, params: Any, budget: Optional[Budget]) -> dict[str, Any]:
    """The params of child.spawn."""
    lanes = budget.lanes() if budget else {}
    said = {"params": params, "budget": lanes or None}
    return {"kind": kind} | {name: value for name, value in said.items() if value is not None}
