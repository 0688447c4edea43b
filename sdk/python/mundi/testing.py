"""A world for tests, without a server: events go in, and what follows is there to be looked at.

It keeps to the rules that a program notices: a step that fails leaves nothing behind, labels name what is open, receipts
and timers come as steps of their own. The bounds of the kernel are not checked here.
"""

import copy
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from . import Event, Failure, Named, Origin, Program, Receipt, SendOptions, Timer, World, cbor


@dataclass
class Step:
    """What one step did."""

    reply: Any = None
    replies: dict[str, Any] = field(default_factory=dict)
    intents: list[dict[str, Any]] = field(default_factory=list)
    timers: list[dict[str, Any]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)


def _said(options: Optional[SendOptions]) -> dict[str, Any]:
    return {} if options is None else asdict(options)


class _Host:
    """What a test world is between two steps, with the calls of a host."""

    def __init__(self) -> None:
        self.cells: dict[str, bytes] = {}
        self.open: dict[str, dict[str, Any]] = {}
        self.timers: dict[str, dict[str, Any]] = {}
        self.now = 1_000_000_000
        self.number = 0
        self.drawn = 0
        self.given: dict[str, str] = {}
        self.step = Step()

    def world_id(self) -> str:
        return "w_00000000000000000000000001"

    def height(self) -> int:
        return self.number

    def now_ns(self) -> int:
        return self.now

    def get(self, key: str) -> Optional[bytes]:
        return self.cells.get(key)

    def scan(self, prefix: str, after: Optional[str], items_max: int) -> list[tuple[str, bytes]]:
        keys = sorted((key for key in self.cells if key.startswith(prefix)), key=str.encode)
        keys = [key for key in keys if after is None or key.encode() > after.encode()]
        return [(key, self.cells[key]) for key in keys[:items_max]]

    def log(self, level: str, text: str) -> None:
        self.step.logs.append(text)

    def put(self, key: str, value: bytes) -> None:
        self.cells[key] = value

    def delete(self, key: str) -> None:
        self.cells.pop(key, None)

    def emit(self, kind: str, params: bytes, label: str) -> None:
        label = label or f"{self.number}.{len(self.step.intents)}"
        if label in self.open:
            raise AssertionError(f"the label `{label}` is in use")
        intent = {"kind": kind, "label": label, "params": cbor.decode(params)}
        self.step.intents.append(intent)
        self.open[label] = intent

    def cancel(self, label: str) -> bool:
        found = self.open.pop(label, None)
        if found:
            self.step.cancelled.append(label)
        return found is not None

    def set_timer(self, label: str, due_ns: int, payload: bytes) -> None:
        self.cancel_timer(label)
        timer = {"label": label, "due_ns": due_ns, "payload": cbor.decode(payload)}
        self.step.timers.append(timer)
        self.timers[label] = timer

    def cancel_timer(self, label: str) -> bool:
        found = self.timers.pop(label, None)
        if found:
            self.step.cancelled.append(label)
        return found is not None

    def headers(self) -> dict[str, str]:
        return dict(self.given)

    def send_event(self, to: str, schema: str, value: bytes, label: str, options: Optional[SendOptions]) -> None:
        params = {"to": to, "schema": schema, "value": cbor.decode(value)}
        self.emit("fabric.send", cbor.encode(params | _said(options)), label)

    def send_message(
        self, to: str, inbox: str, payload: bytes, headers: dict[str, str], label: str, options: Optional[SendOptions]
    ) -> None:
        said = _said(options)
        said["headers"] = headers | said.get("headers", {})
        self.emit("fabric.send", cbor.encode({"to": to, "inbox": inbox} | said), label)

    def spawn(self, manifest: str, first: Optional[tuple[str, bytes]], label: str) -> str:
        child = f"w_{self.number * 1000 + len(self.step.intents):026}"
        self.emit("world.spawn", cbor.encode({"world": child, "manifest": manifest}), label)
        return child

    def reply(self, to: str, payload: bytes) -> None:
        if to in self.step.replies:
            raise AssertionError(f"a second reply to {to}")
        self.step.replies[to] = cbor.decode(payload)

    def random(self) -> int:
        self.drawn += 1
        mixed = ((self.number << 32 | self.drawn) * 0x9E3779B97F4A7C15) & (2**64 - 1)
        return ((mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9) & (2**64 - 1)


class _Reading:
    """What a query sees: as a server would, it refuses whatever changes the world."""

    def __init__(self, host: _Host) -> None:
        self._copy = copy.deepcopy(host)

    def __getattr__(self, name: str) -> Any:
        if name in ("world_id", "height", "now_ns", "get", "scan", "log", "headers"):
            return getattr(self._copy, name)
        raise AssertionError(f"`{name}` was called in a query, which changes nothing")


class TestWorld:
    """A world of a program."""

    __test__ = False  # a helper, whatever test runners think of its name

    def __init__(self, program: Program) -> None:
        self._program = program
        self._host = _Host()

    def advance(self, ns: int) -> None:
        """Moves the world's clock forward."""
        self._host.now += ns

    def send(self, schema: str, value: Any = None) -> Step:
        """An event, as a caller sends it."""
        return self.step(Named(schema, cbor.decode(cbor.encode(value))))

    def receipt(self, label: str, status: str, value: Any = None) -> Step:
        """The answer to the open effect of this label."""
        intent = self._host.open.pop(label, None)
        if intent is None:
            raise Failure(f"no effect is open under `{label}`")
        return self.step(Receipt(label, intent["kind"], status, cbor.encode(value)))

    def fire(self, label: str) -> Step:
        """The timer of this label fires; the clock is at least where it is due."""
        timer = self._host.timers.pop(label, None)
        if timer is None:
            raise Failure(f"no timer is set under `{label}`")
        self._host.now = max(self._host.now, timer["due_ns"])
        return self.step(Timer(label, timer["payload"]))

    def step(self, cause: Any, origin: Optional[Origin] = None, headers: Optional[dict[str, str]] = None) -> Step:
        """Any other cause; perhaps with what its sender said beside it."""
        host = self._host
        host.given = headers or {}
        host.number, host.drawn, host.step = host.number + 1, 0, Step()
        before = copy.deepcopy(host)
        event = Event(f"s_{host.number:024x}", cause, origin or Origin(enqueued_at_ns=host.now, wants_reply=True))
        try:
            self._program.handle(World(host), event)
        except Exception:
            self._host = before
            raise
        host.step.reply = host.step.replies.pop(event.seq, None)
        return host.step

    def query(self, name: str, params: Any = None) -> Any:
        return self._program.query(World(_Reading(self._host)), name, cbor.decode(cbor.encode(params)))

    def cell(self, key: str) -> Any:
        found = self._host.cells.get(key)
        return None if found is None else cbor.decode(found)

    @property
    def cells(self) -> dict[str, bytes]:
        return dict(self._host.cells)

    @property
    def open(self) -> list[str]:
        return sorted(self._host.open)

    @property
    def timers(self) -> list[str]:
        return sorted(self._host.timers)
