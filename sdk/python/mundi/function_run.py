"""One run of one instance: its code from the beginning, on what is on record, up to what is still open.

Recorded results are given to the code one at a time, in the order in which they came, and each only when the code has done all that
follows from the one before. So it takes the same way as before, also where it waits for several things at once. Until it has seen all
that it saw in earlier steps it must ask for exactly what is on record: anything else is FUNCTION_DIVERGED, and nothing is written.
Kind and name are compared in every step. Params are compared when another program takes over and when an instance goes on that has
diverged: the same program asks for the same, and their print costs more than the rest of a replayed await.
"""

import datetime
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Coroutine, NoReturn, Optional, Union

from . import cbor, kinds
from .function_cells import (
    ASKED_NS,
    ATTEMPTS,
    AWAITS_MAX,
    CRC,
    ENDED_AT,
    ENDED_NS,
    KIND,
    NAMED,
    NUMBER,
    ORDER,
    RETRY,
    SIZE,
    STATE,
    VALUE,
    VALUE_BYTES_MAX,
    Cells,
    Entry,
    Head,
    Log,
    Named,
    instance_of,
    label_of,
    print_of,
    waiter_key,
)
from .function_errors import FunctionCancelled, FunctionDiverged, FunctionError
from .function_tasks import Tasks, Wait

if TYPE_CHECKING:
    from . import World
    from .offer import Rules

_MASK = (1 << 64) - 1
_RUN_STEP = 0xD1B54A32D192ED03


class Continue:
    """What a function that starts over returns."""

    def __init__(self, value: Any) -> None:
        self.input = value


class Scope:
    """Where something is waited for: cancelling it ends all waits in it and in those within."""

    def __init__(self, parent: Optional["Scope"], is_shielded: bool) -> None:
        self.parent = parent
        self.is_shielded = is_shielded
        self.cancelled: Optional[FunctionCancelled] = None

    @property
    def over(self) -> Optional[FunctionCancelled]:
        """Why nothing is waited for here any more."""
        if self.cancelled or self.is_shielded or self.parent is None:
            return self.cancelled
        return self.parent.over

    def is_within(self, other: "Scope") -> bool:
        return self is other or (not self.is_shielded and self.parent is not None and self.parent.is_within(other))


class Ask(Wait):
    """Something that a function asked for: await it."""

    def __init__(self, number: int, scope: Scope) -> None:
        super().__init__()
        self.number = number
        self.scope = scope
        self.is_detached = False


Begin = Callable[[str, Entry, int], None]


class Run:
    def __init__(
        self, world: "World", cells: Cells, head: Head, log: Log, rules: Optional["Rules"], is_check: bool
    ) -> None:
        """With is_check nothing new is asked for: only whether the code would do as is on record."""
        self.world = world
        self.head = head
        self.tasks = Tasks()
        self.root = Scope(None, False)
        self.log = log
        self._now: Union[int, str] = log.entries[0][ASKED_NS]
        self.newest = 0
        self.status: Any = None
        self.has_status = False
        self.outcome: Optional[Wait] = None
        self.diverged: Optional[FunctionDiverged] = None
        self.is_over = False
        self._cells = cells
        self._entries = log.entries
        self._rules = rules
        self._is_check = is_check
        self._asks: dict[int, Ask] = {}
        self._asked = 0
        self._delivered = 0
        self._drawn = 0
        self._recorded: int = head["asked"]
        self._trusted: int = 0 if is_check or head["state"] == "diverged" else head["asked"]
        """Up to this one, awaits on record are those of this very program."""
        self._has_cancelled = False
        self._ran_before: int = head["ran"]
        order: dict[int, Union[int, str]] = {e[ORDER]: e[NUMBER] for e in log.entries if e[ORDER] is not None}
        if "cancel" in head:
            order[head["cancel"]["order"]] = "cancel"
        self._order = [order[place] for place in sorted(order)]

    @property
    def now_ns(self) -> int:
        """The world's clock when the newest result came that the code has seen."""
        return int(self._now)

    @property
    def is_live(self) -> bool:
        """The code does for the first time what it does now."""
        return not self._is_check and self._delivered >= self._ran_before

    @property
    def ran(self) -> int:
        return self._delivered + 1

    def execute(self, code: Callable[["Run", Any], Coroutine[Any, Any, Any]], names: dict[str, Any]) -> None:
        """Runs the code as far as it comes. The names are those of its module."""
        restore = _own_clock(self, names)
        try:
            done = self.tasks.wait_for(code(self, self._entries[0][VALUE]))
            while True:
                self.tasks.run()
                if self.diverged or done.is_settled or self._delivered >= len(self._order):
                    break
                if self._is_check and self._delivered + 1 >= self._ran_before:
                    break
                self._deliver()
            self.outcome = done if done.is_settled else None
            if not self.diverged:
                self._check_end()
        except FunctionDiverged:
            pass
        finally:
            restore()
            self.is_over = True

    def _check_end(self) -> None:
        """The code ended, and not before all was asked for that is on record."""
        if self.outcome and (self._delivered < self._ran_before or self._asked < self._recorded):
            number = min(self._asked + 1, self._recorded)
            self._diverge(number, describe(self._entries[number]), "nothing more: it ends")
        if self._is_check and self._asked < self._recorded:
            self._diverge(self._asked + 1, describe(self._entries[self._asked + 1]), "nothing")
        if not self.outcome or self.outcome.error:
            return
        for ask in self._asks.values():
            if ask.is_awaited or ask.is_detached:
                continue
            what = f"await {ask.number} ({describe(self._entries[ask.number])})"
            message = f"{what} was asked for and nobody waits for it: write `await` before it, or `ctx.detach(…)` around it"
            self.outcome = Wait()
            self.outcome.settle(error=FunctionError("FUNCTION_AWAIT_MISSING", message))
            return

    def failed(self, error: BaseException) -> dict[str, Any]:
        """What the code failed with, for the record."""
        code = getattr(error, "code", None)
        message = str(error)
        if isinstance(error, kinds.EffectError) and hasattr(error, "effect"):
            message = f"{error.effect}: {message}"
        return {"code": code if isinstance(code, str) else "FUNCTION_FAILED", "message": message, "await": self.newest}

    def _diverge(self, number: int, recorded: str, asked: str) -> NoReturn:
        self.diverged = self.diverged or FunctionDiverged(number, recorded, asked)
        raise self.diverged

    def _check_now(self) -> None:
        if self.diverged:
            raise self.diverged
        if self.is_over:
            name = self.head["function"]
            message = f"this `ctx` is that of an instance of `{name}` whose step is over: use it only inside its function"
            raise FunctionError("FUNCTION_CONTEXT_OVER", message)

    def _next(self, kind: str, name: str, printed: list[int]) -> tuple[int, Optional[Entry]]:
        """The entry of the next await: the one on record, or none if it is asked for the first time."""
        self._check_now()
        number = self._asked + 1
        if number > AWAITS_MAX:
            message = f"the log has {AWAITS_MAX} awaits: start over with `return ctx.continue_as(input)` before it is so long"
            raise FunctionError("FUNCTION_LOG_FULL", message)
        if number > self._recorded:
            if not self.is_live:
                self._diverge(number, "nothing", _describe(kind, name, printed))
            self._asked = number
            return number, None
        entry = self._entries[number]
        if entry[KIND] != kind or entry[NAMED] != name or entry[SIZE : CRC + 1] != printed:
            self._diverge(number, describe(entry), _describe(kind, name, printed))
        self._asked = number
        return number, entry

    def _new_entry(self, number: int, kind: str, name: str, printed: list[int]) -> Entry:
        world = self.world
        entry = [number, kind, name, "open", None, None, None, *printed, str(world.now_ns), world.height, None, None, None]
        self._entries.append(entry)
        self.head["asked"] = number
        return entry

    def _again(self, kind: str, name: str) -> Optional[Entry]:
        """What this program asked for in an earlier step. Its params are not looked at."""
        number = self._asked + 1
        if number > self._trusted or self.is_over or self.diverged:
            return None
        entry = self._entries[number]
        if entry[NAMED] != name or entry[KIND] != kind:
            return None
        self._asked = number
        return entry

    def ask(self, scope: Scope, kind: str, name: str, params: Any, begin: Begin) -> Ask:
        """Asks for something that ends later."""
        if not (self._has_cancelled and scope.over) and self._again(kind, name) is not None:
            ask = self._asks[self._asked] = Ask(self._asked, scope)
            return ask
        self._check_now()
        if scope.over:
            ask = Ask(0, scope)
            ask.settle(error=scope.over)
            return ask
        printed = print_of(params)
        number, entry = self._next(kind, name, printed)
        ask = self._asks[number] = Ask(number, scope)
        if entry is not None:
            return ask
        made = self._new_entry(number, kind, name, printed)
        try:
            begin(label_of(self.head, number), made, number)
            if made[STATE] == "open":
                self._cells.put_entry(self.head, made, self.log)
        except Exception as error:
            # What the host itself refused ends the step, whatever is done here.
            code = getattr(error, "code", "FUNCTION_WORLD_FULL" if type(error).__name__ == "Full" else "OUTPUT_REFUSED")
            reason = getattr(error, "reason", None) or str(error)
            self.end(number, "error", {"code": code, "reason": reason, "attempts": 0})
        return ask

    def instant(self, kind: str, name: str, params: Any, answer: Callable[[], Any]) -> Any:
        """Asks for something that is known at once."""
        again = self._again(kind, name)
        if again is not None:
            return again[VALUE]
        printed = print_of(params)
        number, entry = self._next(kind, name, printed)
        if entry is not None:
            return entry[VALUE]
        made = self._new_entry(number, kind, name, printed)
        made[VALUE] = answer()
        made[STATE] = "ok"
        self._cells.put_entry(self.head, made, self.log)
        return made[VALUE]

    def version(self, name: str, old: int, new: int) -> int:
        """Which of two ways in the code this instance goes."""
        self._check_now()
        is_recorded = self._asked + 1 <= self._recorded
        entry = self._entries[self._asked + 1] if is_recorded else []
        if is_recorded and (entry[KIND], entry[NAMED]) != ("version", name):
            return old
        if not is_recorded and not self.is_live:
            return old  # it waits at this place since before the code had two ways
        version: int = entry[VALUE] if is_recorded else new
        self.instant("version", name, None, lambda: version)
        if not old <= version <= new:
            self._diverge(self._asked, f"version {version} of `{name}`", f"a version from {old} to {new}")
        return version

    def end(self, number: int, state: str, value: Any) -> None:
        """Ends an await, for the record; the code sees it when its turn comes."""
        entry = self._entries[number]
        end_entry(self.world, self.head, entry, state, value)
        self._cells.put_entry(self.head, entry, self.log)
        self._order.append(number)

    def _deliver(self) -> None:
        what = self._order[self._delivered]
        self._delivered += 1
        if isinstance(what, str):
            self._now = self.head["cancel"]["at_ns"]
            self.cancel(self.root, self.head["cancel"]["reason"])
            return
        entry = self._entries[what]
        ask = self._asks.get(what)
        if ask is None:
            self._diverge(what, describe(entry), "nothing so far")
        self._now = entry[ENDED_NS]
        self.newest = what
        if entry[STATE] == "error":
            ask.settle(error=_failure(entry))
        else:
            ask.settle(_result(entry))

    def cancel(self, scope: Scope, reason: str) -> None:
        """Ends all waits of a scope, and nothing more is waited for in it."""
        if scope.cancelled:
            return
        scope.cancelled = FunctionCancelled(reason)
        self._has_cancelled = True
        for ask in list(self._asks.values()):
            if not ask.is_settled and ask.scope.is_within(scope):
                self.withdraw(ask)
                ask.settle(error=scope.cancelled)

    def withdraw(self, ask: Ask) -> None:
        """Gives up what an await waits for."""
        if ask.number == 0 or self.is_over or self._entries[ask.number][STATE] != "open":
            return
        if not self.is_live:
            self._diverge(ask.number, f"{describe(self._entries[ask.number])}, which is waited for", "its withdrawal")
        self._withdraw_number(ask.number)

    def _withdraw_number(self, number: int) -> None:
        entry = self._entries[number]
        withdraw_entry(self.world, self.head, entry)
        entry[STATE], entry[RETRY] = "cancelled", None
        self._cells.put_entry(self.head, entry, self.log)

    def withdraw_all(self) -> None:
        """Gives up all that is open when the function has ended, but effects that it let go."""
        for entry in self.log.open:
            ask = self._asks.get(entry[NUMBER])
            if not (entry[KIND] == "effect" and ask is not None and ask.is_detached):
                self._withdraw_number(entry[NUMBER])
            elif entry[RETRY] is not None:
                self._cells.put_detached(Named(instance_of(self.head), self.head["run"], entry[NUMBER], None), entry)

    def check_effect(self, kind: str, params: Any) -> None:
        """A kind that mundi.json does not declare, or params that its schema refuses, must not end the step: the code hears of it."""
        if self._rules is None:
            return
        if not self._rules.declares(kind):
            message = f"mundi.json does not declare the effect `{kind}`: add it to `effects`"
            raise FunctionError("FUNCTION_EFFECT_UNDECLARED", message)
        if kind not in ("fabric.send", "world.spawn"):
            self._rules.check_effect(kind, cbor.encode(params))

    def take_signal(self, name: str, wanted: Any) -> Optional[tuple[Any]]:
        """An event that arrived for this instance before it was asked for."""
        signals = self.head.get("signals", [])
        for at, (signal, value) in enumerate(signals):
            if signal == name and matches(value, wanted):
                del signals[at]
                if not signals:
                    del self.head["signals"]
                return (value,)
        return None

    def idempotency_key(self, number: int) -> str:
        """A text that no other await has: the same in every run and for every attempt, another one in a fork."""
        return f"{self.world.id}/{instance_of(self.head)}/{self.head['run']}.{number}/{self.head['seed']:x}"

    @property
    def seed(self) -> int:
        """Of this run of the instance: a function that starts over draws other numbers."""
        return (self.head["seed"] + self.head["run"] * _RUN_STEP) & _MASK

    def random(self) -> int:
        """The next number of 64 bits. The instance's seed and the number of its run determine the sequence."""
        self._drawn += 1
        mixed = (self.seed + self._drawn * 0x9E3779B97F4A7C15) & _MASK
        mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _MASK
        return mixed ^ mixed >> 31


def withdraw_entry(world: "World", head: Head, entry: Entry) -> None:
    """Gives up what an await waits for."""
    label = label_of(head, entry[NUMBER])
    if entry[KIND] == "effect":
        world.cancel(label)
        world.cancel_timer(f"{label}/retry")
        world.cancel_timer(f"{label}/timeout")
    elif entry[KIND] == "timer":
        world.cancel_timer(label)
    elif entry[KIND] == "event":
        world.delete(waiter_key(head, entry[NAMED], entry[NUMBER]))


def end_entry(world: "World", head: Head, entry: Entry, state: str, value: Any) -> None:
    """Ends an await in its cell. A value that is too large becomes an error."""
    size = len(cbor.encode(value))
    if size > VALUE_BYTES_MAX:
        reason = f"the result has {size} bytes, more than {VALUE_BYTES_MAX}: put it into a blob"
        state, value = "error", {"code": "FUNCTION_RESULT_TOO_LARGE", "reason": reason, "attempts": entry[ATTEMPTS] or 0}
    entry[STATE], entry[VALUE], entry[RETRY] = state, value, None
    entry[ORDER] = head["resolved"]
    head["resolved"] += 1
    entry[ENDED_NS], entry[ENDED_AT] = str(world.now_ns), world.height


def matches(value: Any, wanted: Any) -> bool:
    """Every field of the filter is in the value, and the same."""
    if wanted is None:
        return True
    if not isinstance(wanted, dict):
        return print_of(value) == print_of(wanted)
    if not isinstance(value, dict):
        return False
    return all(print_of(value.get(name)) == print_of(part) for name, part in wanted.items())


def describe(entry: Entry) -> str:
    return _describe(entry[KIND], entry[NAMED], entry[SIZE : CRC + 1])


def _describe(kind: str, name: str, printed: list[int]) -> str:
    return f"{kind} `{name}` with params of {printed[0]} bytes and print {printed[1]:08x}"


def _result(entry: Entry) -> Any:
    """The value that the code gets, and may change: it was read from its cell in this step, and is not written again."""
    value = entry[VALUE]
    return kinds.read_value(entry[NAMED], value) if entry[KIND] == "effect" else value


def _failure(entry: Entry) -> Exception:
    value = entry[VALUE]
    if entry[KIND] != "effect" or value["code"].startswith("FUNCTION_"):
        return FunctionError(value["code"], value["reason"])
    error = kinds.read_error(cbor.encode(value))
    error.effect = entry[NAMED]  # type: ignore[attr-defined]
    return error


_DATETIME, _DATE = datetime.datetime, datetime.date


class _OwnClass(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _DATETIME if issubclass(cls, _DATETIME) else _DATE)


class _OwnDatetime(_DATETIME, metaclass=_OwnClass):
    """A datetime whose clock is that of the instance, in UTC where no zone is given."""

    @classmethod
    def now(cls, tz: Optional[datetime.tzinfo] = None) -> "_OwnDatetime":
        return cls.fromtimestamp(time.time(), tz) if tz is not None else cls.utcnow()

    @classmethod
    def utcnow(cls) -> "_OwnDatetime":
        return cls.fromtimestamp(time.time(), datetime.timezone.utc).replace(tzinfo=None)

    @classmethod
    def today(cls) -> "_OwnDatetime":
        return cls.utcnow()


class _OwnDate(_DATE, metaclass=_OwnClass):
    @classmethod
    def today(cls) -> datetime.date:
        return _OwnDatetime.utcnow().date()


_OWN = {_DATETIME: _OwnDatetime, _DATE: _OwnDate}


def _own_dates(names: dict[str, Any]) -> Callable[[], None]:
    """While the code runs, the names of its module and of the module datetime that stand for the classes with a clock stand for those above."""
    changed = []
    for where in (vars(datetime), names):
        for name, value in list(where.items()):
            if value is _DATETIME or value is _DATE:
                changed.append((where, name, value))
                where[name] = _OWN[value]

    def restore() -> None:
        for where, name, value in changed:
            where[name] = value

    return restore


def _own_clock(run: Run, names: dict[str, Any]) -> Callable[[], None]:
    """While the code runs, time.time(), datetime.now() and the numbers of the module random are the instance's: the same in every run."""
    restore_dates = _own_dates(names)
    random = sys.modules.get("random")
    own = {"time": lambda: run.now_ns / 1e9, "time_ns": lambda: run.now_ns}
    before = {name: getattr(time, name) for name in own}
    for name, function in own.items():
        setattr(time, name, function)
    state = random.getstate() if random is not None else None
    if random is not None:
        random.seed(run.seed)

    def restore() -> None:
        restore_dates()
        for name, function in before.items():
            setattr(time, name, function)
        if random is not None:
            random.setstate(state)

    return restore
