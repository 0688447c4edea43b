"""The effects that come with Mundi: their params, and what their receipts carry.

Each is declared in mundi.json by its kind alone ("effects": {"http.request": {}}), asked for with world.ask, and its receipt
is read with receipt.answer.
"""

import json
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Optional, Union

from . import cbor
from .pools import Lease


@dataclass
class EffectError(Exception):
    """Why an effect was not carried out: what a receipt that says "error" or "timeout" carries."""

    code: str
    """One of the error codes, such as EFFECT_DENIED."""
    reason: str
    attempts: int = 0
    """How often it was tried."""
    failed_code: Optional[str] = None
    """Of CALL_FAILED: the code of the step of the world that was called."""
    failed_at: Optional[int] = None
    """Of CALL_FAILED: the height of that step in the journal of that world."""

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


class EffectCancelled(EffectError):
    """EFFECT_CANCELLED: by an operator, or because the world is a fork that dropped what its parent had open."""


class EffectSandboxed(EffectError):
    """EFFECT_SANDBOXED: the world is a sandbox, and nothing answers in place of the outside."""


class EffectNotRecorded(EffectError):
    """EFFECT_NOT_RECORDED: the world is a recorded fork, and its parent had no receipt for it."""


class EffectDenied(EffectError):
    """EFFECT_DENIED, UNIVERSE_DENIED: a configuration does not allow it."""


class EffectTimedOut(EffectError):
    """EFFECT_TIMEOUT, EFFECT_CLAIM_EXPIRED, CALL_TIMEOUT: whether the other side acted is not known."""


_ERRORS: dict[str, type[EffectError]] = {
    "EFFECT_CANCELLED": EffectCancelled,
    "EFFECT_SANDBOXED": EffectSandboxed,
    "EFFECT_NOT_RECORDED": EffectNotRecorded,
    "EFFECT_DENIED": EffectDenied,
    "UNIVERSE_DENIED": EffectDenied,
    "EFFECT_TIMEOUT": EffectTimedOut,
    "EFFECT_CLAIM_EXPIRED": EffectTimedOut,
    "CALL_TIMEOUT": EffectTimedOut,
}


class Params:
    """Params of an effect, which know what they are params of."""

    KIND: ClassVar[str]

    def params(self) -> dict[str, Any]:
        """What is not said is not written."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        said = {name: vars(value) if isinstance(value, Lease) else value for name, value in said.items()}
        return {name: value for name, value in said.items() if value is not None}


@dataclass
class HttpRequest(Params):
    """One request to the outside. A text as a body is sent as UTF-8."""

    KIND = "http.request"
    url: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: Optional[Union[bytes, str]] = None
    lease: Optional[Lease] = None
    """The lease that it is carried out under, and only while it is held. The other side gets it, too."""


@dataclass
class HttpResponse:
    """The answer of a server, whatever its status."""

    status: int
    headers: dict[str, str]
    """By their names in lower case."""
    body: bytes

    @property
    def ok(self) -> bool:
        """The status says that it went well: 200 to 299."""
        return 200 <= self.status < 300

    def bytes(self) -> bytes:
        return self.body

    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class LlmChat(Params):
    """A conversation with a model."""

    KIND = "llm.chat"
    messages: list[dict[str, Any]]
    """Each has at least "role" and "content"."""
    model: Optional[str] = None
    """One that the configuration allows; its own if absent."""
    options: Optional[dict[str, Any]] = None
    """Passed on: temperature, max_tokens, tools and the like."""


@dataclass
class LlmAnswer:
    model: str
    content: str
    finish_reason: Optional[str]
    tool_calls: list[Any]
    usage: Optional[dict[str, int]]


@dataclass
class BlobPut(Params):
    """Keeps bytes in the content store."""

    KIND = "blob.put"
    bytes: bytes


@dataclass
class Blob:
    """A reference to an object of the content store: what blob.put answers, and blob.get takes."""

    hash: str
    bytes: int
    """How many there are."""


@dataclass
class BlobGet(Params):
    """The bytes of an object, up to a MiB."""

    KIND = "blob.get"
    hash: str


@dataclass
class BlobContent:
    bytes: bytes


@dataclass
class ProcessRun(Params):
    """A command that the node's configuration lists."""

    KIND = "process.run"
    command: str
    args: list[str] = field(default_factory=list)
    stdin: Optional[Union[bytes, str]] = None
    lease: Optional[Lease] = None
    """The lease that it is carried out under, and only while it is held. The other side gets it, too."""


@dataclass
class ProcessResult:
    status: Optional[int]
    """None for a command that a signal ended."""
    stdout: bytes
    stderr: bytes


@dataclass
class WorldFork(Params):
    """A branch of a world."""

    KIND = "world.fork"
    world: Optional[str] = None
    """The id or the name of the parent; the world itself if absent."""
    at: Optional[int] = None
    """The height to fork at. If absent: before the step that asks, or the newest of another world."""
    policy: Optional[str] = None
    """What becomes of the parent's effects; "suppress" if absent."""


@dataclass
class Forked:
    status: str
    world: str
    forked_at: int


@dataclass
class WorldCall(Params):
    """An event to another world, whose reply is the receipt. World.call is its short form."""

    KIND = "world.call"
    world: str
    """The id or the name of the world."""
    event: str
    value: Any = None
    headers: Optional[dict[str, str]] = None
    """Arrive as the world's headers."""
    correlation_id: Optional[str] = None
    """Arrives as the event's origin.correlation_id."""
    universe: Optional[str] = None
    """The universe of the world: the caller's own if absent. Another one must accept messages from here."""
    timeout_ms: Optional[int] = None
    """How long the reply may take; as long as timeout_ms in mundi.json if absent."""


@dataclass
class Sent:
    """What comes of world.send_event and world.send_message."""

    status: str
    """"ok", or "already_enqueued" when an earlier attempt had done it."""
    message_id: str
    dest_world: str
    """The destination, as the program wrote it."""
    enqueued_seq: Optional[bytes] = None


@dataclass
class Spawned:
    """What comes of world.spawn."""

    status: str
    world: str


_RECEIPTS: dict[str, Any] = {
    "http.request": HttpResponse,
    "llm.chat": LlmAnswer,
    "blob.put": Blob,
    "blob.get": BlobContent,
    "process.run": ProcessResult,
    "fabric.send": Sent,
    "world.spawn": Spawned,
    "world.fork": Forked,
}


def read(kind: str, payload: bytes) -> Any:
    """What an "ok" receipt carries: a type of this module for a kind of Mundi's own, else the value."""
    return read_value(kind, cbor.decode(payload))


def read_value(kind: str, value: Any) -> Any:
    receipt = _RECEIPTS.get(kind)
    if receipt is None:
        return value
    if not isinstance(value, dict):
        raise ValueError(f"a receipt of `{kind}` is a map")
    missing = [each.name for each in fields(receipt) if each.name not in value and each.name != "enqueued_seq"]
    if missing:
        raise ValueError(f"a receipt of `{kind}` has `{missing[0]}`")
    return receipt(**{each.name: value.get(each.name) for each in fields(receipt)})


def read_error(payload: bytes) -> EffectError:
    """The class says why, for the codes that a program may want to tell apart. A receipt that the manifest's schema refuses
    arrives as an error whose payload is a text."""
    try:
        value = cbor.decode(payload)
        code, reason, attempts = value["code"], value["reason"], value.get("attempts", 0)
        of_call = (value.get("failed_code"), value.get("failed_at"))
        return _ERRORS.get(code, EffectError)(code, reason, attempts, *of_call)
    except (ValueError, TypeError, KeyError, AttributeError):
        return EffectError("RECEIPT_INVALID", payload.decode(errors="replace"))


_BYTES = {("http.request", "body"), ("blob.get", "bytes"), ("process.run", "stdout"), ("process.run", "stderr")}
_TEXTS = {"hash", "model", "content", "world", "message_id", "dest_world"}


def wrong_field(kind: str, payload: bytes) -> Optional[str]:
    """Why the kind's own adapter could never give such a receipt; None if it could."""
    try:
        answer = read(kind, payload)
    except ValueError as error:
        return str(error)
    if kind not in _RECEIPTS:
        return None
    for each in fields(answer):
        value = getattr(answer, each.name)
        if (kind, each.name) in _BYTES and not isinstance(value, bytes):
            return f"`{each.name}` is bytes"
        if each.name in _TEXTS and not isinstance(value, str):
            return f"`{each.name}` is a text"
    if kind == "http.request":
        texts = isinstance(answer.headers, dict) and all(isinstance(text, str) for text in answer.headers.values())
        if type(answer.status) is not int or not texts:
            return "`status` is a number and `headers` a map of texts"
    return None
