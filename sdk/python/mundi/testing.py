"""A world for tests, without a server: events go in, and what follows is there to be looked at.

It is as strict as a server: what mundi.json does not declare, a value that its schema refuses, an id that is none and what is
beyond a bound end the step with a Refused that has the server's code, and leave nothing behind. Only the fuel and the memory
of a component are not counted here.
"""

import copy
import functools
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional, Union

from . import (
    Budget,
    Event,
    Failure,
    Full,
    Message,
    Named,
    Origin,
    Program,
    Receipt,
    SendOptions,
    Timer,
    World,
    WorldCall,
    cbor,
    kinds,
)
from .offer import (
    CELL_KEY_BYTES_MAX,
    CELL_VALUE_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    SCAN_BYTES_MAX,
    SCAN_ITEMS_MAX,
    STEP_LOGS_MAX,
    Meter,
    Refused,
    Rules,
    check_child,
    check_headers,
    check_id,
    check_name,
    check_payload,
    check_program,
    check_world,
    refused,
)

__all__ = ["Refused", "Sending", "Step", "TestWorld", "replay_bundle"]


@dataclass
class Sending:
    """Something that was sent to another world: an event with its schema, or a message with its inbox."""

    label: str
    to: str
    """The destination: an id or a name."""
    value: Any
    """The value of an event, or the payload of a message."""
    schema: Optional[str] = None
    inbox: Optional[str] = None
    headers: dict[str, str] = field(default_factory=dict)
    universe: Optional[str] = None
    correlation_id: Optional[str] = None
    message_id: Optional[str] = None


@dataclass
class Step:
    """What one step did."""

    reply: Any = None
    replied: bool = False
    """Whether there is a reply to the event itself, which may be None."""
    replies: dict[str, Any] = field(default_factory=dict)
    intents: list[dict[str, Any]] = field(default_factory=list)
    sent: list[Sending] = field(default_factory=list)
    """What was sent to other worlds; each is also among the intents."""
    timers: list[dict[str, Any]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)


def _call(method: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a call, unless the step is over; one that is refused ends it, even if the program catches the exception."""

    @functools.wraps(method)
    def wrapped(self: Any, *arguments: Any) -> Any:
        if self.fault is not None:
            raise self.fault
        if self.reading and method.__name__ not in ("get", "scan", "log", "headers"):
            self.fault = Refused("PROGRAM_TRAPPED", f"`{method.__name__}` was called in a query, which changes nothing")
            raise self.fault
        try:
            return method(self, *arguments)
        except Refused as error:
            self.fault = error
            raise

    return wrapped


def _size(text: str) -> int:
    return len(text.encode())


class _Host:
    """What a test world is between two steps, with the calls of a host."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.cells: dict[str, bytes] = {}
        self.open: dict[str, dict[str, Any]] = {}
        self.timers: dict[str, dict[str, Any]] = {}
        self.closed: set[str] = set()
        self.now = 1_000_000_000
        self.number = 0
        self.reading = False
        self.begin({})

    def begin(self, headers: dict[str, str]) -> None:
        self.given = headers
        self.drawn = 0
        self.emitted = 0
        self.step = Step()
        self.meter = Meter(self.rules.limits)
        self.fault: Optional[Refused] = None

    def world_id(self) -> str:
        return "w_00000000000000000000000001"

    def height(self) -> int:
        return self.number

    def now_ns(self) -> int:
        return self.now

    @_call
    def get(self, key: str) -> Optional[bytes]:
        self.meter.call(_size(key))
        found = self.cells.get(key)
        self.meter.move(len(found or b""))
        return found

    @_call
    def scan(self, prefix: str, after: Optional[str], items_max: int) -> list[tuple[str, bytes]]:
        self.meter.scan(_size(prefix))
        keys = sorted((key for key in self.cells if key.startswith(prefix)), key=str.encode)
        keys = [key for key in keys if after is None or key.encode() > after.encode()]
        found: list[tuple[str, bytes]] = []
        total = 0
        for key in keys[: min(items_max, SCAN_ITEMS_MAX)]:
            size = _size(key) + len(self.cells[key])
            if found and total + size > SCAN_BYTES_MAX:
                break
            total += size
            found.append((key, self.cells[key]))
        self.meter.charge(len(found))
        self.meter.move(total)
        return found

    @_call
    def log(self, level: str, text: str) -> None:
        self.meter.charge(1)
        if len(self.step.logs) < STEP_LOGS_MAX:
            self.step.logs.append(text)

    @_call
    def headers(self) -> dict[str, str]:
        self.meter.charge(1)
        return dict(self.given)

    @_call
    def put(self, key: str, value: bytes) -> None:
        self.meter.call(_size(key) + len(value))
        if not 0 < _size(key) <= CELL_KEY_BYTES_MAX:
            raise refused(f"the key of a cell has {_size(key)} bytes")
        if len(value) > CELL_VALUE_BYTES_MAX:
            raise refused(f"the cell `{key}` would have {len(value)} bytes")
        self.cells[key] = value

    @_call
    def delete(self, key: str) -> None:
        self.meter.call(_size(key))
        self.meter.deleted += 1
        self.cells.pop(key, None)

    @_call
    def emit(self, kind: str, params: bytes, label: str) -> None:
        self.meter.call(_size(kind) + len(params) + _size(label))
        if kind in ("timer.set", "fabric.send", "world.spawn"):
            raise refused(f"the effect kind `{kind}` has a call of its own")
        check_name("effect kind", kind)
        check_payload(params)
        self.rules.check_effect(kind, params)
        self._open_effect(kind, params, label)

    def _open_effect(self, kind: str, params: bytes, label: str) -> str:
        """An effect of any kind but a timer."""
        check_payload(params)
        check_child(kind, params)
        label = label or f"{self.number}.{self.emitted}"
        check_name("label", label)
        if label in self.open:
            raise refused(f"the label `{label}` is in use")
        if len(self.open) >= self.rules.limits["open_intents_max"]:
            raise Full("the world has as many open intents as it may have")
        self.meter.output(len(params), _size(kind) + _size(label))
        self.emitted += 1
        intent = {"kind": kind, "label": label, "params": cbor.decode(params)}
        self.step.intents.append(intent)
        self.open[label] = intent
        return label

    @_call
    def cancel(self, label: str) -> bool:
        self.meter.call(_size(label))
        found = self.open.pop(label, None)
        if found:
            self.meter.output(0)
            self.closed.add(label)
            self.step.cancelled.append(label)
        return found is not None

    @_call
    def set_timer(self, label: str, due_ns: int, payload: bytes) -> None:
        self.meter.call(_size(label) + len(payload))
        check_name("label", label)
        check_payload(payload)
        self._withdraw_timer(label)
        if len(self.timers) >= self.rules.limits["timers_max"]:
            raise Full("the world has as many timers as it may have")
        self.meter.output(len(payload), _size(label))
        self.emitted += 1
        timer = {"label": label, "due_ns": due_ns, "payload": cbor.decode(payload)}
        self.step.timers.append(timer)
        self.timers[label] = timer

    def _withdraw_timer(self, label: str) -> bool:
        found = self.timers.pop(label, None)
        if found:
            self.meter.output(0)
            self.step.cancelled.append(label)
        return found is not None

    @_call
    def cancel_timer(self, label: str) -> bool:
        self.meter.call(_size(label))
        return self._withdraw_timer(label)

    def _send(self, to: str, message: dict[str, Any], label: str, options: Optional[SendOptions]) -> None:
        said = options or SendOptions()
        check_world(to)
        if said.universe is not None:
            check_id("universe", said.universe)
        if said.message_id is not None:
            check_id("hash", said.message_id)
        params = cbor.encode(_message_params(to, None, message, said))
        self.meter.call(len(params) + _size(label))
        self._require_declared("fabric.send")
        if said.correlation_id is not None:
            check_name("correlation id", said.correlation_id)
        check_headers(said.headers)
        if said.message_id is not None and not self.rules.chooses_message_ids:
            raise refused("mundi.json does not allow the program to choose message ids")
        label = self._open_effect("fabric.send", params, label)
        event = message["mode"] == "typed_event"
        sending = Sending(label, to, cbor.decode(message["value_cbor"]) if event else message["payload_cbor"])
        sending.schema, sending.inbox = message.get("schema"), message.get("inbox")
        sending.headers = message.get("headers", {}) | said.headers
        sending.universe, sending.correlation_id = said.universe, said.correlation_id
        sending.message_id = said.message_id
        self.step.sent.append(sending)

    def _require_declared(self, kind: str) -> None:
        if not self.rules.declares(kind):
            raise refused(f"mundi.json does not declare the effect `{kind}`")

    @_call
    def send_event(self, to: str, schema: str, value: bytes, label: str, options: Optional[SendOptions]) -> None:
        self._send(to, {"mode": "typed_event", "schema": schema, "value_cbor": value}, label, options)

    @_call
    def send_message(
        self, to: str, inbox: str, payload: bytes, headers: dict[str, str], label: str, options: Optional[SendOptions]
    ) -> None:
        message = {"mode": "inbox", "inbox": inbox, "payload_cbor": payload, "headers": headers}
        self._send(to, message, label, options)

    @_call
    def spawn(self, manifest: str, first: Optional[tuple[str, bytes]], label: str) -> str:
        check_program(manifest)
        child = f"w_{self.number * 1000 + self.emitted:026}"
        message = None if first is None else {"mode": "typed_event", "schema": first[0], "value_cbor": first[1]}
        params = cbor.encode(_message_params(child, manifest, message, SendOptions()))
        self.meter.call(len(params) + _size(label))
        self._require_declared("world.spawn")
        self._open_effect("world.spawn", params, label)
        return child

    @_call
    def reply(self, to: str, payload: bytes) -> None:
        check_id("inbox sequence", to)
        self.meter.call(len(payload))
        check_payload(payload)
        if to in self.step.replies:
            raise refused(f"a second reply to {to}")
        self.meter.output(len(payload))
        self.step.replies[to] = cbor.decode(payload)

    @_call
    def random(self) -> int:
        self.meter.call(8)
        self.drawn += 1
        mixed = ((self.number << 32 | self.drawn) * 0x9E3779B97F4A7C15) & (2**64 - 1)
        return ((mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9) & (2**64 - 1)


def _message_params(to: str, manifest: Optional[str], message: Any, options: SendOptions) -> dict[str, Any]:
    """The params of a message, as the server makes them. What is not said is not written."""
    params = {"dest_world": to, "manifest": manifest, "dest_universe": options.universe}
    params |= {"correlation_id": options.correlation_id, "message_id": options.message_id}
    if message is not None:
        headers = message.get("headers", {}) | options.headers
        is_written = message["mode"] == "inbox" or headers
        params |= message | {"headers": headers if is_written else None}
    return {name: value for name, value in params.items() if value is not None}


# What a program hears in place of a receipt that its schema refuses.
_BAD_RECEIPT = b"the payload does not satisfy the manifest's schema"


def _check_size(payload: bytes) -> None:
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise Refused("ITEM_TOO_LARGE", f"the payload has {len(payload)} bytes")


def _offer_beside(program: Any) -> dict[str, Any]:
    """The mundi.json beside the file that the program is in."""
    module = sys.modules.get(getattr(program, "source_module", type(program).__module__))
    path = Path(getattr(module, "__file__", None) or ".").resolve().parent / "mundi.json"
    if not path.is_file():
        raise Refused("MANIFEST_INVALID", f"there is no {path}: give the offer to TestWorld")
    return json.loads(path.read_text())


def replay_bundle(bundle: Union[str, Path], program: Union[str, Path] = ".", *, open_work: bool = False) -> None:
    """Replays a bundle, which `mundi world export` writes, with the program of this project, or with another project or component: each recorded
    input must lead to the same cells, effects and replies, and each running instance of a durable function must be able to go on. The
    AssertionError says where it does not. With open_work, only what an upgrade at the end of the bundle would compare: running instances by what
    is on record of them, also where ctx.version has another way for new ones, and the outputs of steps that are of no function. Needs `mundi` on
    the path."""
    given = ["mundi", "world", "replay", "--program", str(program), "--bundle", str(bundle)]
    replayed = subprocess.run([*given, "--open-work"] if open_work else given, capture_output=True, text=True)
    if replayed.returncode != 0:
        raise AssertionError(f"{bundle}: {replayed.stdout}{replayed.stderr}")


class TestWorld:
    """A world of a program."""

    __test__ = False  # a helper, whatever test runners think of its name

    def __init__(self, program: Program, offer: Union[dict[str, Any], str, Path, None] = None) -> None:
        """The offer is the content of the program's mundi.json, or its path; if absent, that beside the program's file."""
        if isinstance(offer, (str, Path)):
            offer = json.loads(Path(offer).read_text())
        self._program = program
        self._offer = _offer_beside(program) if offer is None else offer
        self._host = _Host(Rules(self._offer))
        if hasattr(program, "describe_to"):
            program.describe_to(self._offer)

    def advance(self, ns: int) -> None:
        """Moves the world's clock forward."""
        self._host.now += ns

    def send(self, schema: str, value: Any = None) -> Step:
        """An event, as a caller sends it."""
        return self.step(Named(schema, value))

    def receipt(self, label: str, status: str, value: Any = None) -> Step:
        """The answer to the open effect of this label."""
        host = self._host
        intent = host.open.get(label)
        if intent is None:
            code = "RECEIPT_CLOSED" if label in host.closed else "RECEIPT_UNKNOWN"
            raise Refused(code, f"no effect is open under `{label}`")
        payload = cbor.encode(vars(value) if hasattr(value, "__dataclass_fields__") else value)
        _check_size(payload)
        if status == "ok":
            wrong = kinds.wrong_field(intent["kind"], payload)
            if wrong is not None:
                raise Refused("RECEIPT_INVALID", f"no `{intent['kind']}` answers so: {wrong}")
            if not host.rules.accepts_receipt(intent["kind"], payload):
                status, payload = "error", _BAD_RECEIPT
        del host.open[label]
        host.closed.add(label)
        return self.step(Receipt(label, intent["kind"], status, payload))

    def fail(self, label: str, code: str, reason: str) -> Step:
        """The open effect of this label is not carried out."""
        return self.receipt(label, "error", {"code": code, "reason": reason, "attempts": 1})

    def answer_call(self, label: str, other: "TestWorld") -> Step:
        """Lets another world answer the open world.call of this label, in one step of each. A program that replies in a later step
        of its own is answered for with receipt."""
        intent = self._host.open.get(label)
        if intent is None or intent["kind"] != WorldCall.KIND:
            raise Refused("RECEIPT_UNKNOWN", f"no call is open under `{label}`")
        call = WorldCall(**intent["params"])
        sender = (self._host.world_id(), self._host.number)
        origin = Origin(self._host.now, call.correlation_id, wants_reply=True, sender=sender)
        try:
            step = other.step(Named(call.event, call.value), origin, call.headers)
        except Exception as error:
            code, reason = getattr(error, "code", "PROGRAM_FAILED"), getattr(error, "reason", str(error))
            if code == "EVENT_INVALID":
                return self.fail(label, code, reason)
            failed = {"failed_code": code, "failed_at": other._host.number}
            said = {"code": "CALL_FAILED", "reason": reason, "attempts": 1}
            return self.receipt(label, "error", said | failed)
        if not step.replied:
            raise Failure(f"the other world did not reply to `{label}` in this step")
        return self.receipt(label, "ok", step.reply)

    def child_started(self, label: str) -> Step:
        """The child that was spawned under this label starts."""
        self._require_child(label)
        headers = {"child_id": f"c_{label}", "label": label}
        return self.step(Message("child.started", cbor.encode({"child_id": f"c_{label}", "dispatch_seq": 1}), headers))

    def child_passed(self, label: str, result: Any = None, spent: Optional[Budget] = None) -> Step:
        """It passed, and used so much."""
        lanes = spent.lanes() if spent else {}
        return self._child_ended(label, "ok", {"outcome": "passed", "result": result, "spent": lanes})

    def child_failed(self, label: str, code: str, reason: str) -> Step:
        """It failed."""
        return self._child_ended(label, "error", {"outcome": "failed", "code": code, "reason": reason, "spent": {}})

    def child_cancelled(self, label: str) -> Step:
        """It was cancelled."""
        why = {"code": "URM_CHILD_CANCELLED", "reason": "cancelled", "cancel_request_id": "test"}
        return self._child_ended(label, "error", {"outcome": "cancelled", "spent": {}} | why)

    def _child_ended(self, label: str, status: str, fields: dict[str, Any]) -> Step:
        self._require_child(label)
        return self.receipt(label, status, {"child_id": f"c_{label}"} | fields)

    def _require_child(self, label: str) -> None:
        if self._host.open.get(label, {}).get("kind") != "child.spawn":
            raise Refused("RECEIPT_UNKNOWN", f"no child runs under `{label}`")

    def fire(self, label: str) -> Step:
        """The timer of this label fires; the clock is at least where it is due."""
        timer = self._host.timers.pop(label, None)
        if timer is None:
            raise Refused("TIMER_UNKNOWN", f"no timer is set under `{label}`")
        self._host.now = max(self._host.now, timer["due_ns"])
        return self.step(Timer(label, timer["payload"]))

    def step(self, cause: Any, origin: Optional[Origin] = None, headers: Optional[dict[str, str]] = None) -> Step:
        """Any other cause; perhaps with what its sender said beside it."""
        host = self._host
        if isinstance(cause, Named):
            value = cbor.encode(cause.value)
            _check_size(value)
            host.rules.check_event(cause.schema, value)
            cause = Named(cause.schema, cbor.decode(value), cause.key)
        host.number += 1
        before = copy.deepcopy(host)
        host.begin(headers or {})
        event = Event(f"s_{host.number:024x}", cause, origin or Origin(enqueued_at_ns=host.now, wants_reply=True))
        try:
            self._program.handle(World(host), event)
        except Exception:
            self._host = before
            if host.fault is not None:
                raise host.fault from None
            raise
        if host.fault is not None:
            self._host = before
            raise host.fault
        host.step.replied = event.seq in host.step.replies
        host.step.reply = host.step.replies.pop(event.seq, None)
        return host.step

    def query(self, name: str, params: Any = None) -> Any:
        encoded = cbor.encode(params)
        self._host.rules.check_query(name, encoded)
        host = copy.deepcopy(self._host)
        host.begin({})
        host.reading = True
        try:
            answer = self._program.query(World(host), name, cbor.decode(encoded))
        except Exception:
            if host.fault is not None:
                raise host.fault from None
            raise
        if host.fault is not None:
            raise host.fault
        return cbor.decode(cbor.encode(answer))

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
