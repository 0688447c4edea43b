"""Programs of Mundi in Python.

A program is a function of its events: what it reads and writes, asks for and answers goes through its World. The same
source is a component, when it is built, and runs in ordinary tests through mundi.testing, without a server.
"""

from dataclasses import dataclass, field
from typing import Any, Optional, Protocol, Union

from . import cbor, kinds
from .kinds import (
    Blob,
    BlobContent,
    BlobGet,
    BlobPut,
    EffectCancelled,
    EffectDenied,
    EffectError,
    EffectNotRecorded,
    EffectSandboxed,
    EffectTimedOut,
    Forked,
    HttpRequest,
    HttpResponse,
    LlmAnswer,
    LlmChat,
    Params,
    ProcessResult,
    ProcessRun,
    Sent,
    Spawned,
    WorldCall,
    WorldFork,
)
from .children import Budget, ChildEvent, child_spec
from .functions import (
    Ask,
    Ctx,
    Durable,
    FunctionCancelled,
    FunctionDiverged,
    FunctionError,
    durable,
    durable_program,
    function_status,
)
from .pools import Lease, PoolResult, Wish, resource_id, shard_of, shard_world

__all__ = [
    "Ask",
    "Blob",
    "BlobContent",
    "BlobGet",
    "BlobPut",
    "Budget",
    "ChildEvent",
    "Ctx",
    "Durable",
    "EffectCancelled",
    "EffectDenied",
    "EffectError",
    "EffectNotRecorded",
    "EffectSandboxed",
    "EffectTimedOut",
    "Event",
    "Failure",
    "Forked",
    "Full",
    "FunctionCancelled",
    "FunctionDiverged",
    "FunctionError",
    "HttpRequest",
    "HttpResponse",
    "Lease",
    "LlmAnswer",
    "LlmChat",
    "Message",
    "Named",
    "Origin",
    "Params",
    "PoolResult",
    "ProcessResult",
    "ProcessRun",
    "Program",
    "Receipt",
    "SendOptions",
    "Sent",
    "Spawned",
    "Timer",
    "Upgraded",
    "Wish",
    "World",
    "WorldCall",
    "WorldFork",
    "durable",
    "durable_program",
    "resource_id",
    "shard_of",
]


class Failure(Exception):
    """A program's own reason to give up a step or a query."""


class Full(Failure):
    """The world has as many open effects or timers as it may have; the program may go on without."""


@dataclass
class Named:
    """An event of the program's own vocabulary; its value satisfies the schema in mundi.json."""

    schema: str
    value: Any
    key: Optional[str] = None


@dataclass
class Receipt:
    """The one answer to an effect that was asked for under this label."""

    label: str
    kind: str
    status: str  # "ok", "error" or "timeout"
    payload: bytes

    @property
    def value(self) -> Any:
        return cbor.decode(self.payload)

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def answer(self) -> Any:
        """What it carries: a type of mundi.kinds for a kind of Mundi's own. Raises an EffectError if it is none, of a
        class of its own for the reasons that a program may want to tell apart."""
        if not self.ok:
            raise self.error
        return kinds.read(self.kind, self.payload)

    @property
    def error(self) -> EffectError:
        """Why the effect was not carried out."""
        return kinds.read_error(self.payload)


@dataclass
class Message:
    inbox: str
    payload: bytes
    headers: dict[str, str]


@dataclass
class Timer:
    label: str
    payload: Any


@dataclass
class Upgraded:
    """This program takes over from that of another manifest. If it fails here, it does not."""

    source: str


@dataclass
class Origin:
    enqueued_at_ns: int = 0
    correlation_id: Optional[str] = None
    trace: Optional[str] = None
    wants_reply: bool = False
    sender: Optional[tuple[str, int]] = None


@dataclass
class SendOptions:
    """What may be said about something that is sent."""

    universe: Optional[str] = None
    """The universe of the world that it goes to: the sender's own if absent. Another one must accept messages from here."""
    correlation_id: Optional[str] = None
    """Arrives as the event's origin.correlation_id."""
    headers: dict[str, str] = field(default_factory=dict)
    """Arrive as the world's headers."""
    message_id: Optional[str] = None
    """A hash (h_...) under which it is enqueued at most once, in place of the intent's; only where the manifest allows it."""


@dataclass
class Event:
    """What reaches a program. The place is where a reply goes, now or in a later step."""

    seq: str
    cause: Union[Named, Receipt, Message, Timer, Upgraded]
    origin: Origin = field(default_factory=Origin)


class World:
    """All that a program can do. There is no other clock, randomness or I/O.

    A call that breaks a bound ends the step at once, and does not return.
    """

    def __init__(self, host: Any) -> None:
        self._host = host

    @property
    def id(self) -> str:
        return self._host.world_id()

    @property
    def height(self) -> int:
        return self._host.height()

    @property
    def now_ns(self) -> int:
        """The world's clock, which never goes back."""
        return self._host.now_ns()

    @property
    def headers(self) -> dict[str, str]:
        """The headers that came with the event or message that is being handled."""
        return self._host.headers()

    def get(self, key: str, default: Any = None) -> Any:
        """What a cell holds."""
        found = self._host.get(key)
        return default if found is None else cbor.decode(found)

    def get_bytes(self, key: str) -> Optional[bytes]:
        return self._host.get(key)

    def cells_under(self, prefix: str) -> list[tuple[str, bytes]]:
        """All cells whose keys begin with the prefix, as bytes."""
        found: list[tuple[str, bytes]] = []
        while page := self._host.scan(prefix, found[-1][0] if found else None, 1000):
            found.extend(page)
        return found

    def scan(self, prefix: str, after: Optional[str], items_max: int) -> list[tuple[str, Any]]:
        """Cells whose keys begin with the prefix and come after another key, in order."""
        return [(key, cbor.decode(value)) for key, value in self._host.scan(prefix, after, items_max)]

    def log(self, level: str, text: str) -> None:
        """A line for people. It is no part of the outcome."""
        self._host.log(level, text)

    def put(self, key: str, value: Any) -> None:
        self._host.put(key, cbor.encode(value))

    def put_bytes(self, key: str, value: bytes) -> None:
        self._host.put(key, value)

    def delete(self, key: str) -> None:
        self._host.delete(key)

    def emit(self, kind: str, params: Any, label: str = "") -> None:
        """Asks for an effect. Its receipt comes back under the label, which names it while it is open."""
        self._host.emit(kind, cbor.encode(params), label)

    def ask(self, effect: Params, label: str = "") -> None:
        """The same for an effect with a type: those of mundi.kinds."""
        self.emit(effect.KIND, effect.params(), label)

    def cancel(self, label: str) -> bool:
        """Withdraws an open effect. Says whether there was one."""
        return self._host.cancel(label)

    def set_timer(self, label: str, due_ns: int, payload: Any = None) -> None:
        """Sets a timer, in place of the one with the same label. One in the past is due at once."""
        self._host.set_timer(label, due_ns, cbor.encode(payload))

    def set_timer_in_ms(self, label: str, in_ms: int, payload: Any = None) -> None:
        """The same, so many milliseconds from now."""
        self.set_timer(label, self.now_ns + in_ms * 1_000_000, payload)

    def cancel_timer(self, label: str) -> bool:
        return self._host.cancel_timer(label)

    def send_event(
        self, to: str, schema: str, value: Any, label: str = "", options: Optional[SendOptions] = None
    ) -> None:
        """Sends an event to another world, by its id or its name. Whether it arrived comes back as a receipt under the label."""
        self._host.send_event(to, schema, cbor.encode(value), label, options)

    def send_message(
        self,
        to: str,
        inbox: str,
        payload: bytes,
        headers: dict[str, str],
        label: str = "",
        options: Optional[SendOptions] = None,
    ) -> None:
        self._host.send_message(to, inbox, payload, headers, label, options)

    def call(self, to: str, event: str, value: Any = None, label: str = "", timeout_ms: Optional[int] = None) -> None:
        """Calls another world, by its id or its name: what its program replies comes back as a receipt under the label, as its
        answer. More can be said with WorldCall and ask."""
        self.ask(WorldCall(to, event, value, timeout_ms=timeout_ms), label)

    def pool_reserve(self, pool: str, wish: Wish, ttl_slots: int, label: str = "", shard: int = 0) -> None:
        """Reserves resources of a pool for so many slots, within which the lease must be activated. Of a pool of several shards, those of
        one: that of the resources by shard_of, or any of them."""
        self.call(shard_world(pool, shard), "pool.command", {"command": wish.command(ttl_slots)}, label)

    def pool_activate(self, lease: Lease, label: str = "") -> None:
        """Activates a lease that was reserved: from then on it ends only when it is released or revoked."""
        self.call(lease.world(), "pool.command", {"command": lease.command("activate")}, label)

    def pool_release(self, lease: Lease, label: str = "") -> None:
        """Gives a lease back, reserved or active."""
        self.call(lease.world(), "pool.command", {"command": lease.command("release")}, label)

    def spawn(self, program: str, first: Optional[tuple[str, Any]] = None, label: str = "") -> str:
        """Asks for a new world, which gets a first event: of a manifest by its hash, or of a program by its name, "todo" for the
        newest version or "todo@2". Its id is known at once."""
        encoded = None if first is None else (first[0], cbor.encode(first[1]))
        return self._host.spawn(program, encoded, label)

    def spawn_child(self, kind: str, params: Any = None, budget: Optional[Budget] = None, label: str = "") -> None:
        """Asks for a child of a kind ("process", "world", "agent", "external") under a label, which names it while it runs."""
        self.emit("child.spawn", child_spec(kind, params, budget), label)

    def cancel_child(self, child: str, label: str = "") -> None:
        """Asks for the cancellation of the child that was spawned under this label. Whether it was in time comes back as a receipt of
        child.cancel; how the child ended arrives as a ChildEvent."""
        self.emit("child.cancel", {"label": child}, label)

    def child_done(self, result: Any = None, spent: Optional[Budget] = None, label: str = "") -> None:
        """Says that this world, which is a child, is done: its parent gets the result. Perhaps with what it used of solver_calls and
        tokens."""
        lanes = spent.lanes() if spent else {}
        self.emit("child.done", {"result": result} | ({"spent": lanes} if lanes else {}), label)

    def child_failed(self, reason: str, label: str = "") -> None:
        """Says that this world, which is a child, has failed."""
        self.emit("child.done", {"reason": reason}, label)

    def reply(self, to: str, value: Any) -> None:
        """Answers the call that arrived at this place of the inbox."""
        self._host.reply(to, cbor.encode(value))

    def random(self) -> int:
        """The next number, of 64 bits, of a sequence that the record determines."""
        return self._host.random()


class Program(Protocol):
    """The code of a world. A project's program.py has one, under the name `program`."""

    def handle(self, world: World, event: Event) -> None:
        """Takes one event. An exception throws away all that the step did; the world goes on."""

    def query(self, world: World, name: str, params: Any) -> Any:
        """Answers a question about the world, and changes nothing."""
        raise Failure(f"this program answers no query `{name}`")
