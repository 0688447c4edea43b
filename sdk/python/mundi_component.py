"""The component's side of the contract. `mundi program build` puts it beside a project's program.py."""

import json
from typing import Any, Optional

import wit_world
from componentize_py_types import Err
from mundi_offer import OFFER
from program import program
from wit_world.imports import host, types

from mundi import Event, Full, Message, Named, Origin, Receipt, SendOptions, Timer, Upgraded, World, cbor

_LEVELS = {"debug": host.Level.DEBUG, "info": host.Level.INFO, "warn": host.Level.WARN, "error": host.Level.ERROR}
_STATUS = {types.Status.OK: "ok", types.Status.ERROR: "error", types.Status.TIMEOUT: "timeout"}


def _or_full(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Err as error:
        raise Full(f"the world has as many {error.value.name.lower().replace('_', ' ')} as it may have") from None


def _send(to: str, what: Any, label: str, options: Optional[SendOptions]) -> None:
    if options is None:
        _or_full(host.send, to, what, label)
        return
    headers = list(options.headers.items())
    said = host.SendOptions(options.universe, options.correlation_id, headers, options.message_id)
    _or_full(host.send_with, to, what, said, label)


class _Host:
    """The imports, in the form that World asks for."""

    world_id = staticmethod(host.world_id)
    height = staticmethod(host.height)
    now_ns = staticmethod(host.now_ns)
    get = staticmethod(host.get)
    put = staticmethod(host.put)
    delete = staticmethod(host.delete)
    cancel = staticmethod(host.cancel)
    cancel_timer = staticmethod(host.cancel_timer)
    reply = staticmethod(host.reply)
    random = staticmethod(host.random)

    def scan(self, prefix: str, after: Optional[str], items_max: int) -> list[tuple[str, bytes]]:
        return [(cell.key, cell.value) for cell in host.scan(prefix, after, items_max)]

    def log(self, level: str, text: str) -> None:
        host.log(_LEVELS[level], text)

    def emit(self, kind: str, params: bytes, label: str) -> None:
        _or_full(host.emit, kind, params, label)

    def set_timer(self, label: str, due_ns: int, payload: bytes) -> None:
        _or_full(host.set_timer, label, due_ns, payload)

    def headers(self) -> dict[str, str]:
        return dict(host.headers())

    def send_event(self, to: str, schema: str, value: bytes, label: str, options: Optional[SendOptions]) -> None:
        _send(to, types.Outgoing_Event(types.OutgoingEvent(schema, value)), label, options)

    def send_message(
        self, to: str, inbox: str, payload: bytes, headers: dict[str, str], label: str, options: Optional[SendOptions]
    ) -> None:
        _send(to, types.Outgoing_Message(types.Message(inbox, payload, list(headers.items()))), label, options)

    def spawn(self, manifest: str, first: Optional[tuple[str, bytes]], label: str) -> str:
        outgoing = None if first is None else types.Outgoing_Event(types.OutgoingEvent(*first))
        return _or_full(host.spawn, manifest, outgoing, label)


def _event(event: types.Event) -> Event:
    given = event.origin
    sender = None if given.sender is None else (given.sender.world_id, given.sender.height)
    origin = Origin(given.enqueued_at_ns, given.correlation_id, given.trace, given.wants_reply, sender)
    return Event(event.seq, _cause(event.cause), origin)


def _cause(cause: Any) -> Any:
    it = cause.value
    if isinstance(cause, types.Cause_Event):
        return Named(it.schema, cbor.decode(it.value), it.key)
    if isinstance(cause, types.Cause_Receipt):
        return Receipt(it.label, it.kind, _STATUS[it.status], it.payload)
    if isinstance(cause, types.Cause_Message):
        return Message(it.inbox, it.payload, dict(it.headers))
    if isinstance(cause, types.Cause_Timer):
        return Timer(it.label, cbor.decode(it.payload))
    return Upgraded(it)


if hasattr(program, "describe_to"):
    program.describe_to(json.loads(OFFER))


_OFFERED = json.dumps(program.offered(json.loads(OFFER))) if hasattr(program, "offered") else OFFER


class WitWorld(wit_world.WitWorld):
    def handle(self, event: types.Event) -> None:
        try:
            program.handle(World(_Host()), _event(event))
        except Exception as error:
            raise Err(f"{getattr(error, 'code', type(error).__name__)}: {error}") from None

    def query(self, name: str, params: bytes) -> bytes:
        try:
            return cbor.encode(program.query(World(_Host()), name, cbor.decode(params)))
        except Exception as error:
            raise Err(f"{type(error).__name__}: {error}") from None

    def describe(self) -> str:
        return _OFFERED
