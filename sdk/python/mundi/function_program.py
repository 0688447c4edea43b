"""A program with durable functions: which event, receipt and timer goes to which instance."""

from typing import Any, Callable, Optional

from . import Event, Failure, Message, Named, Receipt, Timer, Upgraded, World, cbor
from .function_cells import (
    ATTEMPTS,
    CALLERS_MAX,
    INBOX,
    INSTANCES_MAX,
    KIND,
    NAMED,
    NUMBER,
    RETRY,
    SIGNALS_BYTES_MAX,
    SIGNALS_MAX,
    STATE,
    STATUS_BYTES_MAX,
    VALUE_BYTES_MAX,
    WAITERS_MAX,
    WOKEN_MAX,
    Cells,
    Entry,
    Head,
    Log,
    event_prefix,
    head_key,
    instance_of,
    is_name,
    label_of,
    of_label,
    print_of,
    waiter_key,
)
from .function_cells import Named as Label
from .function_errors import FunctionCancelled, FunctionError
from .function_run import Continue, Run, end_entry, matches, withdraw_entry
from .function_tasks import Wait
from .functions import Code, Ctx
from .offer import Rules

# Fuel of a step of a durable function, and host calls, of which each thousand units of fuel count as one: mundi.json may say otherwise.
_FUEL_MAX = 200_000_000
_STEP_CALLS_MAX = 300_000
_RETRY_MS = 1000
_RETRY_MS_MAX = 60_000
# Errors that another attempt does not mend.
_FINAL = ("EFFECT_CANCELLED", "EFFECT_SANDBOXED", "EFFECT_NOT_RECORDED", "EFFECT_DENIED", "UNIVERSE_DENIED")


class Functions:
    """A program: what durable_program makes."""

    def __init__(self, functions: dict[str, Code], handlers: Any) -> None:
        self._functions = functions
        self._handlers = handlers
        self._rules: Optional[Rules] = None
        self.source_module = next((code.__module__ for code in functions.values()), __name__)
        """The module beside whose file mundi.json is."""

    def describe_to(self, offer: dict[str, Any]) -> None:
        """Hears what mundi.json declares, before the first event."""
        self._rules = Rules(offer)

    def offered(self, offer: dict[str, Any]) -> dict[str, Any]:
        """What the program declares: mundi.json, with the limits that durable functions need where it names none."""
        wasm = offer.get("wasm", {})
        limits = {"step_calls_max": _STEP_CALLS_MAX, **offer.get("limits", {})}
        return {**offer, "limits": limits, "wasm": {**wasm, "limits": {"fuel_max": _FUEL_MAX, **wasm.get("limits", {})}}}

    def handle(self, world: World, event: Event) -> None:
        cause = event.cause
        step = Instances(self._functions, self._rules, world, event)
        if isinstance(cause, Named) and cause.schema in self._functions:
            step.start(cause)
            return
        if isinstance(cause, Named):
            taken_by = step.event(cause)
            if (taken_by or self._handlers is None) and event.origin.wants_reply:
                world.reply(event.seq, {"taken_by": taken_by})
            if taken_by:
                return
        elif isinstance(cause, (Receipt, Timer)) and (label := of_label(cause.label)) is not None:
            if isinstance(cause, Receipt):
                step.receipt(label, cause)
            else:
                step.timer(label)
            return
        elif isinstance(cause, Message) and cause.inbox == INBOX:
            step.command(cbor.decode(cause.payload))
            return
        elif isinstance(cause, Message) and cause.inbox == "child.started" and of_label(cause.headers.get("label", "")):
            return  # the start of a child of a function: it waits for the end
        elif isinstance(cause, Upgraded):
            step.check()
        if self._handlers is not None:
            self._handlers.handle(world, event)

    def query(self, world: World, name: str, params: Any) -> Any:
        if self._handlers is None or not hasattr(self._handlers, "query"):
            raise Failure(f"this program answers no query `{name}`")
        return self._handlers.query(world, name, params)


class Instances:
    """The instances of a world, in one step."""

    def __init__(self, functions: dict[str, Code], rules: Optional[Rules], world: World, given: Event) -> None:
        self._functions = functions
        self._rules = rules
        self._world = world
        self._given = given
        self._cells = Cells(world)

    def start(self, cause: Named) -> None:
        """Starts an instance, or finds the one that has this key."""
        key = cause.key or self._given.seq
        if not is_name(key):
            raise FunctionError("FUNCTION_KEY_INVALID", f"`{key}` is no key: 1 to 128 of letters, digits and `-_.:@`")
        head = self._cells.head(f"{cause.schema}/{key}")
        printed = print_of(cause.value)
        if head is not None:
            self._again(head, printed)
            return
        if printed[0] > VALUE_BYTES_MAX:
            raise FunctionError("FUNCTION_INPUT_TOO_LARGE", f"the input has {printed[0]} bytes, more than {VALUE_BYTES_MAX}")
        if self._cells.totals()["running"] >= INSTANCES_MAX:
            raise FunctionError("FUNCTIONS_FULL", f"the world has {INSTANCES_MAX} instances that have not ended")
        self._cells.began()
        head = {"format": 2, "function": cause.schema, "key": key, "state": "running", "run": 0}
        head |= {"seed": self._world.random() >> 11, "input": printed, "began_ns": self._world.now_ns}
        head |= {"asked": 0, "resolved": 0, "ran": 0, "waits": []}
        head["callers"] = [self._given.seq] if self._given.origin.wants_reply else []
        self._advance(head, self._put_start(head, cause.value))

    def _put_start(self, head: Head, value: Any) -> Log:
        world = self._world
        entry: Entry = [0, "start", head["function"], "ok", None, None, value, *print_of(value), str(world.now_ns), world.height]
        log = Log(0)
        log.entries.append(entry)
        self._cells.put_entry(head, entry, log)
        return log

    def _again(self, head: Head, printed: list[int]) -> None:
        """The key is in use: the same call gets the same answer, another one is refused."""
        if head["input"] != printed:
            raise FunctionError("FUNCTION_KEY_REUSED", f"{instance_of(head)} was started with another input: choose another key")
        if not self._given.origin.wants_reply:
            return
        if "ended_ns" in head:
            self._world.reply(self._given.seq, _answer(head))
            return
        if len(head["callers"]) >= CALLERS_MAX:
            raise FunctionError("FUNCTIONS_FULL", f"{CALLERS_MAX} callers wait for {instance_of(head)}")
        head["callers"].append(self._given.seq)
        self._world.put(head_key(instance_of(head)), head)

    def _code(self, code: Code) -> Callable[[Run, Any], Any]:
        return lambda run, value: code(Ctx(run, run.root), value)

    def _advance(self, head: Head, log: Log) -> None:
        """Runs an instance as far as it comes, and keeps what has become of it."""
        code = self._functions.get(head["function"])
        run = Run(self._world, self._cells, head, log, self._rules, False)
        if "paused" in head:
            self._cells.put_head(head, log.open)
            return
        if code is None:
            message = f"the program has no durable function `{head['function']}`"
            self._stand(head, run, {"code": "FUNCTION_DIVERGED", "message": message, "await": 0})
            return
        run.execute(self._code(code), code.__globals__)
        if run.diverged:
            error = {"code": run.diverged.code, "message": run.diverged.message, "await": run.diverged.number}
            self._stand(head, run, error)
            return
        head["ran"] = run.ran
        if run.has_status and (size := len(cbor.encode(run.status))) > STATUS_BYTES_MAX:
            large = Wait()
            message = f"the status has {size} bytes, more than {STATUS_BYTES_MAX}: put it into a cell"
            large.settle(error=FunctionError("FUNCTION_RESULT_TOO_LARGE", message))
            self._end(run, head, large)
            return
        if run.has_status:
            head["status"] = run.status
        if head["state"] == "diverged":
            head["state"] = "running"
            del head["error"]
        if run.outcome:
            self._end(run, head, run.outcome)
        elif open_entries := log.open:
            self._cells.compact(head, log)
            self._cells.put_head(head, open_entries)
        else:
            message = "the function waits for something that never comes: wait for what `ctx` gives, or for coroutines made of that"
            stuck = Wait()
            stuck.settle(error=FunctionError("FUNCTION_STUCK", message))
            self._end(run, head, stuck)

    def _stand(self, head: Head, run: Run, error: dict[str, Any]) -> None:
        """Nothing is lost: it goes on when the program does again what is on record."""
        head["state"] = "diverged"
        head["error"] = error
        self._world.log("error", f"{instance_of(head)}: {error['code']}: {error['message']}")
        self._cells.put_head(head, run.log.open)

    def _end(self, run: Run, head: Head, outcome: Wait) -> None:
        run.withdraw_all()
        error = outcome.error
        result = None if error else outcome.result()
        if isinstance(result, Continue):
            try:
                size = len(cbor.encode(result.input))
                if size <= VALUE_BYTES_MAX:
                    self._start_over(head, result.input)
                    return
                message = f"the input to start over with has {size} bytes, more than {VALUE_BYTES_MAX}"
                error = FunctionError("FUNCTION_INPUT_TOO_LARGE", message)
            except Exception as failed:
                error = failed
        if error is None:
            try:
                size = len(cbor.encode(result))
                if size > VALUE_BYTES_MAX:
                    raise FunctionError("FUNCTION_RESULT_TOO_LARGE", f"the result has {size} bytes")
                head["state"], head["result"] = "done", result
            except Exception as failed:
                error = failed
        if error is not None:
            is_cancelled = "cancel" in head and isinstance(error, FunctionCancelled)
            head["state"] = "cancelled" if is_cancelled else "failed"
            head["error"] = run.failed(error)
        head["ended_ns"] = self._world.now_ns
        head.pop("signals", None)
        for caller in head["callers"]:
            self._world.reply(caller, _answer(head))
        head["callers"] = []
        self._cells.put_head(head, [])
        self._cells.ended(head)

    def _start_over(self, head: Head, value: Any) -> None:
        """In a step of its own, so that a function that only starts over does not fill one."""
        self._cells.delete_log(head)
        head |= {"run": head["run"] + 1, "asked": 0, "resolved": 0, "ran": 0}
        head.pop("cancel", None)
        self._put_start(head, value)
        self._world.set_timer(f"$fn/{instance_of(head)}/{head['run']}.start", self._world.now_ns)
        self._cells.put_head(head, [])

    def _find(self, label: Label) -> Optional[tuple[Head, Entry]]:
        """The instance and the await that a label names, if they are still open."""
        head = self._cells.head(label.instance)
        if head is None or head["run"] != label.run or "ended_ns" in head or label.number is None:
            return None
        entry = self._cells.entry(head, label.number)
        return (head, entry) if entry is not None and entry[STATE] == "open" else None

    def _resolve(self, head: Head, entry: Entry, state: str, value: Any) -> None:
        end_entry(self._world, head, entry, state, value)
        self._cells.put_entry(head, entry)
        self._advance(head, self._cells.log(head))

    def receipt(self, label: Label, cause: Receipt) -> None:
        found = self._find(label)
        if found is None:
            self._detached_receipt(label, cause)
            return
        head, entry = found
        name = label_of(head, entry[NUMBER])
        attempts = entry[ATTEMPTS] or 1
        if cause.ok:
            self._world.cancel_timer(f"{name}/timeout")
            self._resolve(head, entry, *_failed_call(entry, cause.value))
            return
        error = cause.error
        if _may_retry(entry, error.code):
            self._world.set_timer_in_ms(f"{name}/retry", _wait_ms(attempts))
            self._cells.put_entry(head, entry)
            return
        self._world.cancel_timer(f"{name}/timeout")
        value = {"code": error.code, "reason": error.reason, "attempts": attempts}
        value |= {} if error.failed_code is None else {"failed_code": error.failed_code}
        value |= {} if error.failed_at is None else {"failed_at": error.failed_at}
        self._resolve(head, entry, "error", value)

    def timer(self, label: Label) -> None:
        if label.number is None:
            head = self._cells.head(label.instance)
            if head is not None and head["run"] == label.run and "ended_ns" not in head:
                self._advance(head, self._cells.log(head))
            return
        found = self._find(label)
        if found is None:
            self._detached_timer(label)
            return
        head, entry = found
        name = label_of(head, entry[NUMBER])
        if label.part == "retry":
            self._world.emit(entry[NAMED], entry[RETRY][1], name)
            entry[ATTEMPTS] = (entry[ATTEMPTS] or 1) + 1
            self._cells.put_entry(head, entry)
        elif label.part == "timeout":
            self._world.cancel(name)
            self._world.cancel_timer(f"{name}/retry")
            reason = "no receipt came within the timeout of the await"
            value = {"code": "EFFECT_TIMEOUT", "reason": reason, "attempts": entry[ATTEMPTS] or 1}
            self._resolve(head, entry, "error", value)
        else:
            self._resolve(head, entry, "ok", None)

    def _detached_receipt(self, label: Label, cause: Receipt) -> None:
        """The receipt of an effect that a function let go, and that is tried again without it."""
        entry = self._cells.detached(label)
        if entry is None:
            return
        name = f"$fn/{label.instance}/{label.run}.{label.number}"
        if not cause.ok and _may_retry(entry, cause.error.code):
            self._world.set_timer_in_ms(f"{name}/retry", _wait_ms(entry[ATTEMPTS] or 1))
            return
        self._world.cancel_timer(f"{name}/timeout")
        self._cells.forget_detached(label)

    def _detached_timer(self, label: Label) -> None:
        entry = self._cells.detached(label)
        if entry is None:
            return
        name = f"$fn/{label.instance}/{label.run}.{label.number}"
        if label.part == "retry":
            self._world.emit(entry[NAMED], entry[RETRY][1], name)
            entry[ATTEMPTS] = (entry[ATTEMPTS] or 1) + 1
            self._cells.put_detached(label, entry)
            return
        self._world.cancel(name)
        self._world.cancel_timer(f"{name}/retry")
        self._cells.forget_detached(label)

    def event(self, cause: Named) -> list[str]:
        """An event that starts no function. Says which instances took it."""
        addressed = [] if cause.key is None else self._running(cause.key)
        if addressed:
            for head in addressed:
                self._signal(head, cause.schema, cause.value)
            return [instance_of(head) for head in addressed]
        taken: list[str] = []
        prefix = event_prefix(cause.schema)
        waiters = self._world.scan(prefix, None, WAITERS_MAX)
        if waiters and self._world.scan(prefix, waiters[-1][0], 1):
            message = f"more than {WAITERS_MAX} awaits wait for `{cause.schema}`: send it with the key of an instance"
            raise FunctionError("FUNCTIONS_FULL", message)
        woken = [waiter for waiter, wanted in waiters if matches(cause.value, wanted)]
        if len(woken) > WOKEN_MAX:
            message = f"more than {WOKEN_MAX} awaits would take this `{cause.schema}`: send it with the key of an instance"
            raise FunctionError("FUNCTIONS_FULL", message)
        for waiter in woken:
            label = of_label(f"$fn/{waiter[len(prefix):]}")
            found = self._find(label) if label is not None else None
            if found is None:
                continue
            head, entry = found
            self._world.delete(waiter)
            taken.append(instance_of(head))
            self._resolve(head, entry, "ok", cause.value)
        return taken

    def _running(self, key: str) -> list[Head]:
        if not is_name(key):
            return []
        heads = [self._cells.head(f"{name}/{key}") for name in sorted(self._functions)]
        return [head for head in heads if head is not None and "ended_ns" not in head]

    def _signal(self, head: Head, name: str, value: Any) -> None:
        """An event for one instance: what it waits for first, or kept until it asks."""
        for entry in self._cells.log(head).open:
            if entry[NAMED] != name or entry[KIND] not in ("signal", "event"):
                continue
            waiter = waiter_key(head, name, entry[NUMBER])
            if entry[KIND] == "event":
                if not matches(value, self._world.get(waiter)):
                    continue
                self._world.delete(waiter)
            self._resolve(head, entry, "ok", value)
            return
        signals = [*head.get("signals", []), [name, value]]
        size = sum(len(cbor.encode(value)) for _, value in signals)
        if len(signals) > SIGNALS_MAX or size > SIGNALS_BYTES_MAX:
            most = f"{SIGNALS_MAX} events or {SIGNALS_BYTES_MAX >> 10} KiB"
            message = f"{instance_of(head)} has as much as it may have that it has not asked for: {most}"
            raise FunctionError("FUNCTION_SIGNALS_FULL", message)
        head["signals"] = signals
        self._world.put(head_key(instance_of(head)), head)

    def command(self, command: Any) -> None:
        """{"cancel": "order/17", "reason": ...}, {"pause": ...}, {"resume": ...} or {"resolve": ..., "await": 3, "ok": ...}, with `error` in
        place of `ok` for a failure: what an operator asks for. And {"check": ["order/17", ...]}: which of these would diverge on this
        program, which a rehearsal asks."""
        given = command if isinstance(command, dict) else {}
        if isinstance(given.get("check"), list):
            self._answer_check([str(name) for name in given["check"]])
            return
        verb = next((verb for verb in ("cancel", "pause", "resume", "resolve") if verb in given), None)
        head = self._cells.head(str(given[verb])) if verb is not None else None
        if verb is None or head is None:
            message = f"there is no instance `{given.get(verb, '') if verb else ''}` to {verb or 'change'}"
            raise FunctionError("FUNCTION_NOT_FOUND", message)
        if verb == "resolve":
            self._given_result(head, given)
        elif "ended_ns" not in head:
            self._obey(head, verb, str(given.get("reason", "it was cancelled")))
        if self._given.origin.wants_reply:
            self._world.reply(self._given.seq, {"instance": instance_of(head), "state": head["state"]})

    def _obey(self, head: Head, verb: str, reason: str) -> None:
        if verb == "pause":
            head["paused"] = True
        else:
            head.pop("paused", None)
        if verb == "cancel" and "cancel" not in head:
            head["cancel"] = {"order": head["resolved"], "reason": reason, "at_ns": self._world.now_ns}
            head["resolved"] += 1
        self._advance(head, self._cells.log(head))

    def _given_result(self, head: Head, command: dict[str, Any]) -> None:
        """Ends an open await with a result that is given, in place of what it waits for."""
        number = command.get("await", 0)
        entry = self._cells.entry(head, number) if "ended_ns" not in head and number > 0 else None
        if entry is None or entry[STATE] != "open":
            raise FunctionError("FUNCTION_NOT_FOUND", f"{instance_of(head)} does not wait for await {number}")
        withdraw_entry(self._world, head, entry)
        error = command.get("error")
        if error is None:
            self._resolve(head, entry, "ok", command.get("ok"))
            return
        value = {"code": error.get("code", ""), "reason": error.get("reason", ""), "attempts": entry[ATTEMPTS] or 0}
        self._resolve(head, entry, "error", value)

    def check(self) -> None:
        """This program takes over: unless an instance would go another way than is on record."""
        diverged: list[str] = []
        standing: list[Head] = []
        for head in self._cells.heads():
            if "ended_ns" in head:
                continue
            if (differs := self._would_diverge(head)) is not None:
                diverged.append(f"{instance_of(head)}: {differs[1]}")
            elif head["state"] == "diverged":
                standing.append(head)
        if diverged:
            shown = "; ".join(diverged[:20])
            raise FunctionError("FUNCTION_DIVERGED", f"{len(diverged)} instances would diverge: {shown}")
        for head in standing:
            self._advance(head, self._cells.log(head))

    def _would_diverge(self, head: Head) -> Optional[tuple[int, str]]:
        """At which await an instance would go another way than is on record, and how."""
        if head["format"] != 2:
            return 0, "it is on record in another format: let it end on the program that it runs on"
        code = self._functions.get(head["function"])
        if code is None:
            return 0, f"the program has no function `{head['function']}`"
        run = Run(self._world, self._cells, dict(head), self._cells.log(head), self._rules, True)
        if head["ran"] > 0:
            run.execute(self._code(code), code.__globals__)
        return (run.diverged.number, run.diverged.message) if run.diverged else None

    def _answer_check(self, names: list[str]) -> None:
        diverged = []
        for name in names:
            head = self._cells.head(name)
            differs = self._would_diverge(head) if head is not None and "ended_ns" not in head else None
            if differs is not None:
                diverged.append({"instance": name, "await": differs[0], "message": differs[1]})
        if self._given.origin.wants_reply:
            self._world.reply(self._given.seq, {"diverged": diverged})


def _may_retry(entry: Entry, code: str) -> bool:
    return entry[RETRY] is not None and (entry[ATTEMPTS] or 1) <= entry[RETRY][0] and code not in _FINAL


def _wait_ms(attempts: int) -> int:
    """How long to wait after so many attempts."""
    return min(_RETRY_MS * 2 ** (attempts - 1), _RETRY_MS_MAX)


def _failed_call(entry: Entry, value: Any) -> tuple[str, Any]:
    """A called function that failed answers with its failure, which is one here, too."""
    if entry[NAMED] != "world.call" or not isinstance(value, dict) or "$function_failed" not in value:
        return "ok", value
    failed = value["$function_failed"]
    error = {"code": "CALL_FAILED", "reason": failed["message"], "attempts": entry[ATTEMPTS] or 1}
    return "error", error | {"failed_code": failed["code"]}


def _answer(head: Head) -> Any:
    """What callers of an instance that has ended hear."""
    if head["state"] == "done":
        return head["result"]
    return {"$function_failed": {"instance": instance_of(head), "state": head["state"], **head["error"]}}
