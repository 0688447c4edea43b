"""How the instances of durable functions lie in a world's cells. The layout is the same in every language, so that a server lists
instances without running code.

    $fn/m                          how many instances there are
    $fn/i/FUNCTION/KEY             an instance: its state and what it waits for
    $fn/l/FUNCTION/KEY/NNNNNN      its log: 000000 is its input, the others are its awaits in the order in which they were asked for
    $fn/e/EVENT/FUNCTION/KEY/RUN.N an await of an event that is not addressed to one instance
    $fn/d/NNNNNNNNNNNN             instances that have ended, in that order

A cell is a map whose fields are those of the TypeScript SDK's function-cells.ts; a field that would be None is not there.
"""

import re
from binascii import crc32
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Optional, Union

from . import cbor

if TYPE_CHECKING:
    from . import World

PREFIX = "$fn/"
INBOX = "$fn"
"""The inbox of a world to which commands about instances go."""
INSTANCES_MAX = 1000
"""Instances of a world that have not ended."""
ENDED_MAX = 1000
"""Instances that have ended and are still found by their key; the oldest are forgotten first."""
AWAITS_MAX = 1000
"""Awaits in the log of one instance."""
VALUE_BYTES_MAX = 512 << 10
"""What an await or an input may have, so that its cell always fits."""
SIGNALS_MAX = 100
"""Events addressed to one instance that it has not asked for yet."""
CALLERS_MAX = 100
"""Callers that wait for one instance."""
_WAITS_SHOWN_MAX = 16
_NAME = re.compile(r"[A-Za-z0-9\-_.:@]{1,128}")
_LABEL = re.compile(r"\$fn/([^/]+/[^/]+)/([0-9]+)\.([0-9]+|start)(?:/(retry|timeout))?")

Head = dict[str, Any]
Entry = dict[str, Any]


class Named(NamedTuple):
    """What a label names."""

    instance: str
    run: int
    number: Optional[int]
    part: Optional[str]


def instance_of(head: Head) -> str:
    return f"{head['function']}/{head['key']}"


def head_key(instance: str) -> str:
    return f"{PREFIX}i/{instance}"


def _log_prefix(instance: str) -> str:
    return f"{PREFIX}l/{instance}/"


def log_key(instance: str, number: int) -> str:
    return f"{_log_prefix(instance)}{number:06}"


def event_prefix(name: str) -> str:
    return f"{PREFIX}e/{name}/"


def waiter_key(head: Head, event: str, number: int) -> str:
    """The cell by which an event finds who waits for it."""
    return f"{event_prefix(event)}{instance_of(head)}/{head['run']}.{number}"


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def label_of(head: Head, number: int) -> str:
    """The label of an await's effect or timer; those of its retry and its timeout have a further part."""
    return f"{PREFIX}{instance_of(head)}/{head['run']}.{number}"


def of_label(label: str) -> Optional[Named]:
    """What a label names, if it is one of ours."""
    parts = _LABEL.fullmatch(label)
    if parts is None:
        return None
    instance, run, number, part = parts.groups()
    return Named(instance, int(run), None if number == "start" else int(number), part)


class Cells:
    """The cells of instances, in a world."""

    def __init__(self, world: "World") -> None:
        self.world = world

    def head(self, instance: str) -> Optional[Head]:
        return self.world.get(head_key(instance))

    def put_head(self, head: Head, open_entries: dict[int, Entry]) -> None:
        shown = sorted(open_entries.items())[:_WAITS_SHOWN_MAX]
        head["waits"] = [[number, entry["kind"], entry["name"], entry["asked_ns"]] for number, entry in shown]
        self.world.put(head_key(instance_of(head)), head)

    def log(self, head: Head) -> list[Entry]:
        """The whole log: the start, and every await by its number."""
        entries: list[Entry] = []
        after: Optional[str] = None
        while len(entries) <= head["asked"]:
            page = self.world.scan(_log_prefix(instance_of(head)), after, 1000)
            if not page:
                break
            entries.extend(entry for _, entry in page)
            after = page[-1][0]
        if len(entries) != head["asked"] + 1:
            raise RuntimeError(f"the log of {instance_of(head)} lacks awaits")
        return entries

    def entry(self, head: Head, number: int) -> Optional[Entry]:
        return self.world.get(log_key(instance_of(head), number))

    def put_entry(self, head: Head, number: int, entry: Entry) -> None:
        self.world.put(log_key(instance_of(head), number), entry)

    def delete_log(self, head: Head) -> None:
        for number in range(head["asked"] + 1):
            self.world.delete(log_key(instance_of(head), number))

    def totals(self) -> dict[str, int]:
        return self.world.get(f"{PREFIX}m") or {"running": 0, "ended": 0, "next": 0}

    def began(self) -> None:
        totals = self.totals()
        self.world.put(f"{PREFIX}m", totals | {"running": totals["running"] + 1})

    def ended(self, head: Head) -> None:
        """Notes that an instance has ended, and forgets the one that ended first if there are too many."""
        totals = self.totals()
        self.world.put(f"{PREFIX}d/{totals['next']:012}", instance_of(head))
        totals = {"running": totals["running"] - 1, "ended": totals["ended"] + 1, "next": totals["next"] + 1}
        if totals["ended"] > ENDED_MAX:
            key, instance = self.world.scan(f"{PREFIX}d/", None, 1)[0]
            oldest = self.head(instance)
            if oldest is not None:
                self.delete_log(oldest)
            self.world.delete(head_key(instance))
            self.world.delete(key)
            totals["ended"] -= 1
        self.world.put(f"{PREFIX}m", totals)

    def heads(self) -> Iterator[Head]:
        """All instances, in the order of their names."""
        after: Optional[str] = None
        while page := self.world.scan(f"{PREFIX}i/", after, 100):
            yield from (head for _, head in page)
            after = page[-1][0]


def print_of(value: Any) -> list[int]:
    """What a value is recognized by: the length and the CRC-32 of its canonical CBOR."""
    encoded = cbor.encode(value)
    return [len(encoded), crc32(encoded)]


_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
Duration = Union[int, str]


def milliseconds(duration: Duration) -> int:
    """A number of milliseconds, or a text such as "30s", "5m", "1h"."""
    parts = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", duration) if isinstance(duration, str) else None
    found = int(parts[1]) * _UNITS[parts[2]] if parts else duration
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1 << 53:
        raise ValueError(f"`{duration}` is no duration: write a number of milliseconds, or `30s`, `5m`, `1h`, `2d`")
    return found
