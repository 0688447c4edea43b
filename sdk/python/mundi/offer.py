"""What a program's mundi.json allows, the bounds of a server, and whether something is allowed by both."""

import base64
import re
from typing import Any

from . import cbor
from .schema import is_valid

PAYLOAD_BYTES_MAX = 1 << 20
NAME_BYTES_MAX = 256
CELL_KEY_BYTES_MAX = 512
CELL_VALUE_BYTES_MAX = 1 << 20
SCAN_ITEMS_MAX = 1000
SCAN_BYTES_MAX = 1 << 20
STEP_LOGS_MAX = 100
_HEADERS_MAX = 64
_HEADERS_BYTES_MAX = 16 << 10
_PAYLOAD_INLINE_BYTES_MAX = 16 << 10
_STEP_OUTPUT_BYTES_MAX = 1_000_000
_SCAN_CALLS = 16
_HASH_BYTES = 32

# What holds if mundi.json says nothing, and the most that it may say.
_LIMITS = {
    "open_intents_max": (1000, 10_000),
    "timers_max": (1000, 10_000),
    "step_calls_max": (100_000, 1_000_000),
    "step_bytes_max": (16 << 20, 64 << 20),
    "step_outputs_max": (256, 256),
    "max_active_children": (2, 64),
}
# The same of `wasm.limits`. A stack is a power of two.
_WASM_LIMITS = {
    "fuel_max": (50_000_000, 1_000_000_000),
    "memory_bytes_max": (128 << 20, 256 << 20),
    "table_elements_max": (100_000, 100_000),
    "stack_bytes_max": (512 << 10, 1 << 20),
}
_WASM_STACK_BYTES_MIN = 64 << 10
_DAY_MS = 24 * 60 * 60 * 1000
_U32_MAX = 2**32 - 1
_RETRY = {"attempts_max": 100, "backoff_ms": _DAY_MS, "backoff_ms_max": _DAY_MS}
_RATE = {"per_second": _U32_MAX, "burst": _U32_MAX}
# Kinds whose receipts no adapter gives, so that they carry no signature.
_UNSIGNED = {"world.call", "child.spawn"}
_FIELDS = {"name", "version", "events", "effects", "queries", "limits", "on_failure", "wasm"}
_RULE_FIELDS = {"params", "receipt", "timeout_ms", "retry", "rate", "message_ids", "signed"}


class Refused(Exception):
    """Something that a server would refuse, by the code that it would answer with."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class Rules:
    def __init__(self, offer: dict[str, Any]) -> None:
        self._offer = offer
        _known("mundi.json", offer, _FIELDS)
        self.limits = _limits("limits", offer.get("limits", {}), _LIMITS)
        for kind, rule in offer.get("effects", {}).items():
            _check_rule(kind, rule)
        _check_on_failure(offer.get("on_failure", "continue"))
        wasm = offer.get("wasm", {})
        _known("wasm", wasm, {"limits"})
        stack = _limits("wasm.limits", wasm.get("limits", {}), _WASM_LIMITS)["stack_bytes_max"]
        if stack < _WASM_STACK_BYTES_MIN or stack & (stack - 1):
            least = _WASM_STACK_BYTES_MIN
            raise _invalid(f"wasm.limits.stack_bytes_max is {stack}, not a power of two of at least {least}")

    def _rule(self, kind: str) -> Any:
        return self._offer.get("effects", {}).get(kind)

    def declares(self, kind: str) -> bool:
        return self._rule(kind) is not None

    @property
    def chooses_message_ids(self) -> bool:
        return (self._rule("fabric.send") or {}).get("message_ids", False)

    def check_event(self, schema: str, value: bytes) -> None:
        _check(self._offer.get("events", {}).get(schema), "event", schema, value, "EVENT_INVALID")

    def check_query(self, name: str, params: bytes) -> None:
        _check(self._offer.get("queries", {}).get(name), "query", name, params, "QUERY_INVALID")

    def check_effect(self, kind: str, params: bytes) -> None:
        rule = self._rule(kind)
        _check(None if rule is None else rule.get("params", True), "effect", kind, params, "OUTPUT_REFUSED")

    def accepts_receipt(self, kind: str, payload: bytes) -> bool:
        try:
            _check((self._rule(kind) or {}).get("receipt", True), "receipt of", kind, payload, "RECEIPT_INVALID")
        except Refused:
            return False
        return True


def _invalid(why: str) -> Refused:
    return Refused("MANIFEST_INVALID", f"mundi.json: {why}")


def _known(section: str, what: Any, fields: Any) -> None:
    if not isinstance(what, dict):
        raise _invalid(f"{section} is no object")
    for name in what:
        if name not in fields:
            raise _invalid(f"unknown field `{name}`")


def _whole(name: str, value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _invalid(f"{name} is {value!r}, not a whole number")
    if value > most:
        raise _invalid(f"{name} is {value}, beyond the kernel's {most}")
    return value


def _limits(section: str, said: Any, bounds: dict[str, tuple[int, int]]) -> dict[str, int]:
    """Each limit: as it is said, or as it holds if nothing is said."""
    _known(section, said, bounds)
    return {name: _whole(f"{section}.{name}", said.get(name, usual), most) for name, (usual, most) in bounds.items()}


def _check_rule(kind: str, rule: Any) -> None:
    section = f"effects.{kind}"
    _known(section, rule, _RULE_FIELDS)
    for name in ("message_ids", "signed"):
        if not isinstance(rule.get(name, False), bool):
            raise _invalid(f"{section}.{name} is neither true nor false")
    if rule.get("signed") and kind in _UNSIGNED:
        raise _invalid(f"{section}.signed: no adapter answers it, so its receipt is not signed")
    if rule.get("timeout_ms") is not None:
        _whole(f"{section}.timeout_ms", rule["timeout_ms"], _DAY_MS)
    for name, fields in (("retry", _RETRY), ("rate", _RATE)):
        said = rule.get(name)
        if said is not None:
            _known(f"{section}.{name}", said, fields)
            for field, most in fields.items():
                _whole(f"{section}.{name}.{field}", said.get(field), most)


def _check_on_failure(said: Any) -> None:
    if said in ("continue", "hold"):
        return
    _known("on_failure", said, {"pause_after"})
    _whole("on_failure.pause_after", said.get("pause_after"), _U32_MAX)


def _check(schema: Any, what: str, name: str, data: bytes, code: str) -> None:
    if schema is None:
        raise Refused(code, f"mundi.json declares no {what} `{name}`")
    try:
        value = cbor.decode(data)
    except ValueError as error:
        raise Refused(code, f"the {what} `{name}`: {error}") from None
    if not is_valid(schema, _seen(value)):
        raise Refused(code, f"the {what} `{name}` does not satisfy its schema")


def _seen(value: Any) -> Any:
    """The value as a schema sees it: bytes are a text in base 64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_seen(item) for item in value]
    if isinstance(value, dict):
        return {name: _seen(item) for name, item in value.items()}
    return value


def refused(reason: str) -> Refused:
    return Refused("OUTPUT_REFUSED", reason)


def check_name(what: str, name: str) -> None:
    size = len(name.encode())
    if size == 0:
        raise refused(f"the {what} is empty")
    if size > NAME_BYTES_MAX:
        raise refused(f"the {what} has {size} bytes")


def check_payload(payload: bytes) -> None:
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise refused(f"a payload has {len(payload)} bytes")


def check_child(kind: str, params: bytes) -> None:
    """The parameters of a child are part of its token, which is one value of the engine."""
    if kind == "child.spawn" and len(params) > _PAYLOAD_INLINE_BYTES_MAX:
        raise refused(f"the parameters of a child have {len(params)} bytes")


def check_headers(headers: dict[str, str]) -> None:
    size = sum(len(name.encode()) + len(text.encode()) + 8 for name, text in headers.items())
    if len(headers) > _HEADERS_MAX or size > _HEADERS_BYTES_MAX:
        raise refused(f"{len(headers)} headers with {size} bytes")


_BASE32 = "[0-7][0-9a-hjkmnp-tv-z]{25}"
_IDS = {
    "world": f"w_{_BASE32}",
    "universe": f"u_{_BASE32}",
    "hash": "h_[0-9a-f]{64}",
    "inbox sequence": "s_[0-9a-f]{24}",
}


def check_id(what: str, text: str) -> None:
    if not re.fullmatch(_IDS[what], text):
        raise refused(f"`{text}` is not a {what}")


def check_world(text: str) -> None:
    """A world by its id or its name."""
    is_name = re.fullmatch(r"[A-Za-z0-9\-_.:@]{1,256}", text) and not text.startswith("w_") and text not in (".", "..")
    if not is_name:
        check_id("world", text)


def check_program(text: str) -> None:
    """A program by the hash of a manifest, or by its name and perhaps its version."""
    named = re.fullmatch(r"([a-z][a-z0-9-]{0,63})(?:@([1-9][0-9]*))?", text)
    if named is None or int(named[2] or 1) >= 2**32:
        check_id("hash", text)


class Meter:
    """The budget of a step, counted as the server counts it. Fuel and memory of components are not counted here."""

    def __init__(self, limits: dict[str, int]) -> None:
        self._left = {
            "host calls": limits["step_calls_max"],
            "bytes": limits["step_bytes_max"],
            "outputs": limits["step_outputs_max"],
            "output bytes": _STEP_OUTPUT_BYTES_MAX,
        }
        self.deleted = 0

    def _spend(self, what: str, units: int) -> None:
        if units > self._left[what]:
            raise Refused("BUDGET_EXHAUSTED", f"no {what} left")
        self._left[what] -= units

    def call(self, size: int) -> None:
        self.charge(1)
        self.move(size)

    def scan(self, size: int) -> None:
        self.charge(_SCAN_CALLS + self.deleted // _SCAN_CALLS)
        self.call(size)

    def charge(self, units: int) -> None:
        self._spend("host calls", units)

    def move(self, size: int) -> None:
        self._spend("bytes", size)

    def output(self, payload_size: int, other_size: int = 0) -> None:
        """One record that the step adds. A large payload is stored beside it."""
        inline = payload_size if payload_size <= _PAYLOAD_INLINE_BYTES_MAX else _HASH_BYTES
        self._spend("outputs", 1)
        self._spend("output bytes", inline + other_size)
