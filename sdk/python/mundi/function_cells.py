"""How the instances of durable functions lie in a world's cells. The layout is the same in every language, so that a server lists
instances without running code.

    $fn/m                          how many instances there are
    $fn/i/FUNCTION/KEY             an instance: its state and what it waits for
    $fn/l/FUNCTION/KEY/NNNNNN      its log: 000000 is its input, the others are awaits by their number
    $fn/p/FUNCTION/KEY/NNNNNN      pages of its log: awaits that have ended, which are read together
    $fn/e/EVENT/FUNCTION/KEY/RUN.N an await of an event that is not addressed to one instance
    $fn/o/FUNCTION/KEY/RUN.N       an effect that was let go and is tried again without its function: its row
    $fn/d/NNNNNNNNNNNN             instances that have ended, in that order

The cell of an instance is a map whose fields are those of the TypeScript SDK's function-cells.ts; a field that would be None is not
there. An await is a row: a JSON array in a text, because interpreters read JSON by native code. Where a result has no exact JSON (bytes,
floats, integers beyond 2^53) its cell is {"row": ..., "value": ...}. A page is rows with commas between them.
"""

import json
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
SIGNALS_BYTES_MAX = 256 << 10
"""All of them together, so that the instance's cell always fits."""
STATUS_BYTES_MAX = 64 << 10
"""What an instance says about itself."""
WAITERS_MAX = 1000
"""Awaits of one event without a key that a step looks at."""
WOKEN_MAX = 250
"""Those of them that it wakes: each may ask for something, and a step has 256 outputs."""
CALLERS_MAX = 100
"""Callers that wait for one instance."""
_WAITS_SHOWN_MAX = 16
_PAGE_ROWS = 16
"""Awaits that have ended are moved to a page so many at a time."""
_PAGE_BYTES = 32 << 10
"""A page that has so many bytes gets no more rows."""
_ROW_BYTES_MAX = 4 << 10
"""A larger row stays in its own cell."""
_EXACT_MAX = (1 << 53) - 1
_NAME = re.compile(r"[A-Za-z0-9\-_.:@]{1,128}")
_LABEL = re.compile(r"\$fn/([^/]+/[^/]+)/([0-9]+)\.([0-9]+|start)(?:/(retry|timeout))?")

Head = dict[str, Any]
Entry = list[Any]
"""An await: the columns of its row. Times are texts, because they are beyond 2^53; columns at the end that are null are left out of the
text. The last one is how often it may be tried again and with what."""
NUMBER, KIND, NAMED, STATE, ORDER, ENDED_NS, VALUE, SIZE, CRC, ASKED_NS, ASKED_AT, ENDED_AT, ATTEMPTS, RETRY = range(14)


class Log:
    """The log of an instance: the start, and every await by its number."""

    def __init__(self, size: int) -> None:
        self.entries: list[Entry] = [[] for _ in range(size)]
        self.tail: dict[int, tuple[str, bool]] = {}
        """Those in cells of their own, with their row and whether it may be moved to a page. All that are open are among them."""
        self.pages = 0
        self.last: Optional[tuple[str, int]] = None

    @property
    def open(self) -> list[Entry]:
        return [self.entries[number] for number in sorted(self.tail) if self.entries[number][STATE] == "open"]


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


def _page_prefix(instance: str) -> str:
    return f"{PREFIX}p/{instance}/"


def _detached_key(label: Named) -> str:
    return f"{PREFIX}o/{label.instance}/{label.run}.{label.number}"


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

    def put_head(self, head: Head, open_entries: list[Entry]) -> None:
        shown = open_entries[:_WAITS_SHOWN_MAX]
        head["waits"] = [[entry[NUMBER], entry[KIND], entry[NAMED], int(entry[ASKED_NS])] for entry in shown]
        self.world.put(head_key(instance_of(head)), head)

    def log(self, head: Head) -> Log:
        instance = instance_of(head)
        log = Log(head["asked"] + 1)
        entries, count = log.entries, 0
        for _, data in self.world.cells_under(_page_prefix(instance)):
            rows = cbor.decode(data)
            page = json.loads(f"[{rows}]")
            for entry in page:
                entries[entry[NUMBER]] = entry
            count += len(page)
            log.pages += 1
            log.last = (rows, len(data))
        for _, data in self.world.cells_under(_log_prefix(instance)):
            entry, piece = _read_cell(data)
            entries[entry[NUMBER]] = entry
            log.tail[entry[NUMBER]] = piece
            count += 1
        if count != head["asked"] + 1:
            raise RuntimeError(f"the log of {instance} lacks awaits")
        return log

    def entry(self, head: Head, number: int) -> Optional[Entry]:
        found = self.world.get_bytes(log_key(instance_of(head), number))
        return None if found is None else _read_cell(found)[0]

    def put_entry(self, head: Head, entry: Entry, log: Optional[Log] = None) -> None:
        row, cell = _write_cell(entry)
        data = cbor.encode(cell)
        self.world.put_bytes(log_key(instance_of(head), entry[NUMBER]), data)
        if log is not None:
            log.tail[entry[NUMBER]] = (row, cell is row and len(data) <= _ROW_BYTES_MAX)

    def compact(self, head: Head, log: Log) -> None:
        """Moves awaits that have ended to a page, once there are enough of them."""
        ended = [(number, row) for number, (row, fits) in sorted(log.tail.items()) if fits and number > 0]
        ended = [(number, row) for number, row in ended if log.entries[number][STATE] != "open"]
        if len(ended) < _PAGE_ROWS:
            return
        instance = instance_of(head)
        rows = [row for _, row in ended]
        if log.last is None or log.last[1] >= _PAGE_BYTES:
            log.pages += 1
        else:
            rows.insert(0, log.last[0])
        self.world.put(f"{_page_prefix(instance)}{log.pages - 1:06}", ",".join(rows))
        for number, _ in ended:
            del log.tail[number]
            self.world.delete(log_key(instance, number))

    def put_detached(self, label: Named, entry: Entry) -> None:
        """Keeps an effect that is tried again without its function, which has ended or started over."""
        self.world.put_bytes(_detached_key(label), cbor.encode(_write_cell(entry)[1]))

    def detached(self, label: Named) -> Optional[Entry]:
        """The effect that a label names, if it is tried again without its function."""
        found = self.world.get_bytes(_detached_key(label))
        return None if found is None else _read_cell(found)[0]

    def forget_detached(self, label: Named) -> None:
        self.world.delete(_detached_key(label))

    def delete_log(self, head: Head) -> None:
        for prefix in (_page_prefix, _log_prefix):
            for key, _ in self.world.cells_under(prefix(instance_of(head))):
                self.world.delete(key)

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


def _is_exact(value: Any) -> bool:
    """Whether every language reads the JSON of a value as the same."""
    if value is None or isinstance(value, (bool, str)):
        return True
    if isinstance(value, int):
        return -_EXACT_MAX <= value <= _EXACT_MAX
    if isinstance(value, (list, tuple)):
        return all(map(_is_exact, value))
    return isinstance(value, dict) and all(map(_is_exact, value.values()))


def _sorted(value: Any) -> Any:
    """With the keys in the order of canonical CBOR."""
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _sorted(value[key]) for key in sorted(value, key=lambda key: (len(key.encode()), key.encode()))}


def _write_cell(entry: Entry) -> tuple[str, Any]:
    """The row of an await, and its cell, which is the row unless a part of it has no exact JSON."""
    columns, apart = list(entry), {}
    for at, name in ((VALUE, "value"), (RETRY, "retry")):
        if at >= len(columns):
            continue
        if _is_exact(columns[at]):
            columns[at] = _sorted(columns[at])
        else:
            apart[name], columns[at] = columns[at], None
    while columns[-1] is None:  # the first ones never are
        columns.pop()
    row = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
    return row, ({"row": row, **apart} if apart else row)


def _read_cell(data: bytes) -> tuple[Entry, tuple[str, bool]]:
    cell = cbor.decode(data)
    row = cell if isinstance(cell, str) else cell["row"]
    entry = json.loads(row)
    entry.extend([None] * (RETRY + 1 - len(entry)))
    if isinstance(cell, str):
        return entry, (row, len(data) <= _ROW_BYTES_MAX)
    entry[VALUE], entry[RETRY] = cell.get("value", entry[VALUE]), cell.get("retry", entry[RETRY])
    return entry, (row, False)


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
