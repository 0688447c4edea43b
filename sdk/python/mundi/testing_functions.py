"""A world for tests of durable functions, with a clock that is moved by hand."""

import copy
from dataclasses import dataclass
from typing import Any, Callable, Optional

from . import Message, Named, Program, Receipt, Timer, Upgraded, World, cbor
from .function_cells import KIND, NAMED, STATE, Cells, Duration, Entry, head_key, milliseconds
from .offer import Refused
from .testing import Step, TestWorld


@dataclass
class Instance:
    """An instance of a durable function, as it is at the moment."""

    function: str
    key: str
    state: str
    waits: list[tuple[int, str, str]]
    """What it waits for: number, kind and name of each await."""
    status: Any
    result: Any
    error: Any
    asks: list[str]
    """All that it asked for, in order: "effect payment.charge", "timer sleep"."""


class DurableWorld(TestWorld):
    """A world of a program with durable functions."""

    __test__ = False

    def __init__(self, program: Program, offer: Any = None) -> None:
        super().__init__(program, offer)
        self._past: list["DurableWorld"] = []
        self._crash_at = -1

    def run(self, name: str, value: Any = None, key: str = "test") -> Instance:
        """Starts an instance, and gives what has become of it so far."""
        self.step(Named(name, value, key))
        return self.instance(name, key)

    def instance(self, name: str, key: str = "test") -> Instance:
        head = self.cell(head_key(f"{name}/{key}"))
        if head is None:
            raise LookupError(f"there is no instance {name}/{key}")
        asks = [f"{entry[KIND]} {entry[NAMED]}" for entry in self._log(f"{name}/{key}")[1:]]
        waits = [(number, kind, what) for number, kind, what, _ in head["waits"]]
        return Instance(name, key, head["state"], waits, head.get("status"), head.get("result"), head.get("error"), asks)

    def _log(self, instance: str) -> list[Entry]:
        cells = Cells(World(copy.deepcopy(self._host)))
        head = cells.head(instance)
        return [] if head is None else cells.log(head).entries

    def event(self, schema: str, value: Any = None, key: Optional[str] = None) -> Step:
        """An event that starts no function; with a key, for the instance that has it."""
        return self.step(Named(schema, value, key))

    def answer(self, kind: str, value: Any = None) -> Step:
        """Answers the oldest open effect of a kind."""
        return self.receipt(self._oldest(kind), "ok", value)

    def fail_effect(self, kind: str, code: str, reason: str) -> Step:
        """The oldest open effect of a kind is not carried out."""
        return self.fail(self._oldest(kind), code, reason)

    def _oldest(self, kind: str) -> str:
        for label, intent in self._host.open.items():
            if intent["kind"] == kind:
                return label
        others = ", ".join(intent["kind"] for intent in self._host.open.values()) or "none"
        raise Refused("RECEIPT_UNKNOWN", f"no effect of the kind `{kind}` is open; open are: {others}")

    def skip(self, duration: Duration) -> None:
        """Moves the clock, and lets every timer fire that is due until then."""
        until = self._host.now + milliseconds(duration) * 1_000_000
        while due := [timer for timer in self._host.timers.values() if timer["due_ns"] <= until]:
            self.fire(min(due, key=lambda timer: (timer["due_ns"], timer["label"]))["label"])
        self._host.now = until

    def cancel(self, name: str, key: str = "test", reason: str = "it was cancelled") -> Step:
        return self._command({"cancel": f"{name}/{key}", "reason": reason})

    def pause(self, name: str, key: str = "test") -> Step:
        return self._command({"pause": f"{name}/{key}"})

    def resume(self, name: str, key: str = "test") -> Step:
        return self._command({"resume": f"{name}/{key}"})

    def resolve(self, number: int, value: Any, name: str, key: str = "test") -> Step:
        """An open await ends with this result, in place of what it waits for: what `mundi world fork --at-await ... --with` does."""
        return self._command({"resolve": f"{name}/{key}", "await": number, "ok": value})

    def reject(self, number: int, code: str, reason: str, name: str, key: str = "test") -> Step:
        """An open await fails with this error."""
        return self._command({"resolve": f"{name}/{key}", "await": number, "error": {"code": code, "reason": reason}})

    def _command(self, command: dict[str, Any]) -> Step:
        return self.step(Message("$fn", cbor.encode(command), {}))

    def upgrade(self, program: Any) -> Step:
        """Another program takes over. Fails with FUNCTION_DIVERGED if an instance would go another way than is on record."""
        before, self._program = self._program, program
        if hasattr(program, "describe_to"):
            program.describe_to(self._offer)
        try:
            return self.step(Upgraded("h_" + "0" * 64))
        except Exception:
            self._program = before
            raise

    def step(self, cause: Any, *said: Any, **more: Any) -> Step:
        past = self.fork()
        # The receipt or the timer that this step takes was closed when it arrived.
        if isinstance(cause, (Receipt, Timer)) and self._taken is not None:
            past._host = self._taken
        self._taken = None
        if len(self._past) == self._crash_at:
            lost = self.fork()
            lost._crash_at = -1
            try:
                lost.step(cause, *said, **more)
            except Exception:
                pass
        step = super().step(cause, *said, **more)
        self._past.append(past)
        return step

    _taken: Any = None

    def receipt(self, label: str, status: str, value: Any = None) -> Step:
        self._taken = copy.deepcopy(self._host)
        return super().receipt(label, status, value)

    def fire(self, label: str) -> Step:
        self._taken = copy.deepcopy(self._host)
        return super().fire(label)

    def fork(self) -> "DurableWorld":
        """Another world that goes on from here."""
        fork = DurableWorld(self._program, self._offer)
        fork._host = copy.deepcopy(self._host)
        fork._past = list(self._past)
        return fork

    def fork_at_await(self, number: int, name: str, key: str = "test") -> "DurableWorld":
        """A world in which the await has not ended yet: to try what would have happened with another result."""
        worlds = [*self._past, self]
        logs = [world._log(f"{name}/{key}") for world in worlds]
        ended = [at for at, log in enumerate(logs) if number < len(log) and log[number][STATE] != "open"]
        if not ended or ended[0] == 0:
            raise LookupError(f"await {number} of {name}/{key} has not ended")
        return worlds[ended[0] - 1].fork()

    @property
    def steps(self) -> int:
        """How many steps there were."""
        return len(self._past)

    def crash(self, step: int) -> None:
        """The process dies in the step with this number, once: after the code has run, and before anything is kept."""
        self._crash_at = step


def for_each_crash(make: Callable[[], DurableWorld], scenario: Callable[[DurableWorld], None]) -> int:
    """Runs a scenario once as it is, and then once for each of its steps with a process that dies in that step. Every time the same
    must come of it, byte for byte. Gives the number of steps."""
    plain = make()
    scenario(plain)
    for step in range(plain.steps):
        world = make()
        world.crash(step)
        scenario(world)
        if world.cells != plain.cells:
            raise AssertionError(f"something else came of it after a crash in step {step}")
    return plain.steps
