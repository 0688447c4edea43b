"""Durable functions: what should happen, in order, as ordinary async code.

    @durable
    async def order(ctx: Ctx, order: dict):
        charge = await ctx.effect("payment.charge", {"cents": order["cents"]}, retry=3)
        approval = await ctx.race([ctx.event("approve"), ctx.sleep("1h")])
        if approval is None:
            await ctx.effect("payment.refund", charge)
        return {"state": "placed" if approval else "expired"}

    program = durable_program(order)

An event with the function's name starts an instance under the event's key; the reply is what the function returns. What it awaits is
on record in the world's cells, and each step runs it from its beginning on that.
"""

from collections import deque
from datetime import datetime
from typing import Any, Awaitable, Callable, Coroutine, Iterable, Optional, Union

from .children import Budget, child_spec
from .function_cells import ATTEMPTS, RETRY, Duration, Entry, head_key, is_name, milliseconds, waiter_key
from .function_errors import FunctionCancelled, FunctionDiverged, FunctionError
from .function_run import Ask, Continue, Run, Scope
from .function_tasks import Wait
from .kinds import Params

__all__ = [
    "Ask",
    "Ctx",
    "Durable",
    "FunctionCancelled",
    "FunctionDiverged",
    "FunctionError",
    "durable",
    "durable_program",
    "function_status",
]


class Ctx:
    """All that a durable function can do. What it returns is to be awaited, but for what is known at once."""

    def __init__(self, run: Run, scope: Scope) -> None:
        self._run = run
        self._scope = scope

    @property
    def key(self) -> str:
        """The key of this instance."""
        return self._run.head["key"]

    @property
    def world(self) -> str:
        """The id of the world."""
        return self._run.world.id

    @property
    def now(self) -> int:
        """Milliseconds since 1970: the world's clock when the newest result came. time.time() says the same."""
        return self._run.now_ns // 1_000_000

    @property
    def now_ns(self) -> int:
        return self._run.now_ns

    def random(self) -> int:
        """The next number, of 64 bits, of a sequence that is this instance's."""
        return self._run.random()

    def effect(
        self,
        kind: Union[str, Params],
        params: Any = None,
        *,
        retry: int = 0,
        timeout: Optional[Duration] = None,
        key_in: Optional[str] = None,
    ) -> Ask:
        """Asks for an effect that mundi.json declares: by its kind and its params, or by an object of mundi.kinds. Fails with an
        EffectError. It is asked for again up to `retry` times when it fails, after 1 s, 2 s, 4 s and so on up to a minute; after
        `timeout`, all attempts together, it is withdrawn and fails with EFFECT_TIMEOUT. The field `key_in` of its params gets a key, unless
        they have one: the same for every attempt of this await, another one for every other await and in a fork. A worker recognizes by it an
        attempt whose answer was lost. An http.request that is retried has it in its header idempotency-key anyway."""
        if isinstance(kind, Params):
            kind, params = kind.KIND, kind.params()
        run = self._run

        def begin(label: str, entry: Entry, number: int) -> None:
            given = _keyed(kind, params, (key_in, retry), lambda: run.idempotency_key(number))
            run.check_effect(kind, given)
            if retry > 0:
                entry[RETRY] = [retry, given]
            if timeout is not None:
                run.world.set_timer_in_ms(f"{label}/timeout", milliseconds(timeout))
            entry[ATTEMPTS] = 1
            run.world.emit(kind, given, label)

        return run.ask(self._scope, "effect", kind, params, begin)

    def call(
        self, world: str, event: str, value: Any = None, *, retry: int = 0, timeout: Optional[Duration] = None, **more: Any
    ) -> Ask:
        """Calls another world, by its id or its name, and waits for its reply. A durable function there answers with its result.
        What else can be said is that of WorldCall."""
        said = {name: part for name, part in more.items() if part is not None}
        return self.effect("world.call", {"world": world, "event": event, "value": value, **said}, retry=retry, timeout=timeout)

    def send(self, world: str, schema: str, value: Any = None) -> Ask:
        """Sends an event to another world. Ends when it is in that world's inbox."""
        run = self._run

        def begin(label: str, entry: Entry, _: int) -> None:
            run.check_effect("fabric.send", None)
            entry[ATTEMPTS] = 1
            run.world.send_event(world, schema, value, label)

        return run.ask(self._scope, "effect", "fabric.send", {"world": world, "schema": schema, "value": value}, begin)

    def spawn(self, program: str, first: Optional[tuple[str, Any]] = None) -> Ask:
        """Asks for a new world of a program, by its name or its manifest's hash, which gets a first event. Ends when it is there."""
        run = self._run
        params: dict[str, Any] = {"program": program}
        if first is not None:
            params["first"] = {"schema": first[0], "value": first[1]}

        def begin(label: str, entry: Entry, _: int) -> None:
            run.check_effect("world.spawn", None)
            entry[ATTEMPTS] = 1
            run.world.spawn(program, first, label)

        return run.ask(self._scope, "effect", "world.spawn", params, begin)

    def child(
        self, kind: str, params: Any = None, *, budget: Optional[Budget] = None, timeout: Optional[Duration] = None
    ) -> Ask:
        """Runs a child of a kind ("process", "world", "agent", "external"), which is started at most once, and waits for what it returns:
        a dict with `result`, `spent` and `child_id`. Whoever withdraws the wait (a race, a scope, a timeout, the end of the function)
        cancels the child."""
        return self.effect("child.spawn", child_spec(kind, params, budget), timeout=timeout)

    def sleep(self, duration: Duration) -> Ask:
        """Waits so long. Ends with None."""
        ms = milliseconds(duration)
        return self._run.ask(
            self._scope, "timer", "sleep", ms, lambda label, *_: self._run.world.set_timer_in_ms(label, ms)
        )

    def until(self, time: Union[int, datetime, str]) -> Ask:
        """Waits until a time: milliseconds since 1970, a datetime with a time zone, or a text such as 2031-05-01T12:00:00Z."""
        if isinstance(time, str):
            time = datetime.fromisoformat(time.replace("Z", "+00:00"))
        ms = round(time.timestamp() * 1000) if isinstance(time, datetime) else time
        return self._run.ask(
            self._scope, "timer", "until", ms, lambda label, *_: self._run.world.set_timer(label, ms * 1_000_000)
        )

    def event(self, name: str, wanted: Optional[dict[str, Any]] = None) -> Ask:
        """Waits for an event of the world with this name, whose fields are those of the filter. One that is sent with this
        instance's key goes to this instance alone, also if it comes before it is waited for; one without a key goes to all that
        wait at that moment."""
        return self._listen("event", name, wanted)

    def signal(self, name: str) -> Ask:
        """Waits for an event with this name that is sent with this instance's key, and for no other."""
        return self._listen("signal", name, None)

    def _listen(self, kind: str, name: str, wanted: Optional[dict[str, Any]]) -> Ask:
        run = self._run
        if not is_name(name):
            raise ValueError(f"`{name}` cannot be the name of an event that is waited for")

        def begin(_: str, entry: Entry, number: int) -> None:
            early = run.take_signal(name, wanted)
            if early is not None:
                run.end(number, "ok", early[0])
            elif kind == "event":
                run.world.put(waiter_key(run.head, name, number), wanted)

        return run.ask(self._scope, kind, name, wanted, begin)

    async def all(self, waits: Iterable[Any]) -> list[Any]:
        """Waits for all; fails with the first that fails. Coroutines begin at once, in order."""
        return await self._run.tasks.all(waits)

    async def race(self, waits: Iterable[Any]) -> Any:
        """Waits for the first that ends, in whichever way, and withdraws the others. A branch that waits for several things in turn is a
        function of a Ctx: the waits in it end with FunctionCancelled when another branch ends first."""
        given: list[tuple[Wait, Optional[Scope]]] = []
        for wait in waits:
            scope = Scope(self._scope, False) if callable(wait) else None
            given.append((self._run.tasks.wait_for(wait(Ctx(self._run, scope)) if scope else wait), scope))
        try:
            return await self._run.tasks.first([wait for wait, _ in given])
        finally:
            for wait, scope in given:
                if wait.is_settled:
                    continue
                if isinstance(wait, Ask):
                    self._run.withdraw(wait)
                elif scope is not None:
                    self._run.cancel(scope, "another branch of the race ended first")

    def detach(self, wait: Any) -> None:
        """Lets something go: the function ends without it, and an effect is not withdrawn then. A coroutine begins at once."""
        waited = self._run.tasks.wait_for(wait)
        if isinstance(waited, Ask):
            waited.is_detached = True

    def scope(self) -> "ScopedCtx":
        """What is waited for with the Ctx that this gives ends with FunctionCancelled when its cancel is called, and only that."""
        return ScopedCtx(self._run, Scope(self._scope, False))

    async def shield(self, cleanup: Callable[["Ctx"], Awaitable[Any]]) -> Any:
        """Runs cleanup that is not cancelled with the instance: compensation goes here. Wait with the Ctx that it gets."""
        return await cleanup(Ctx(self._run, Scope(self._scope, True)))

    def limit(self, limit_max: int) -> Callable[[Callable[[], Awaitable[Any]]], Coroutine[Any, Any, Any]]:
        """At most so many at a time:

        limit = ctx.limit(5)
        await ctx.all(limit(lambda it=it: ctx.effect("pay", it)) for it in orders)
        """
        if limit_max < 1:
            raise ValueError("a limit is at least 1")
        queue: deque[Wait] = deque()
        running = 0

        async def limited(begin: Callable[[], Awaitable[Any]]) -> Any:
            nonlocal running
            if running >= limit_max:
                turn = Wait()
                queue.append(turn)
                await turn
            else:
                running += 1
            try:
                return await begin()
            finally:
                if queue:
                    queue.popleft().settle()
                else:
                    running -= 1

        return limited

    def get(self, key: str, default: Any = None) -> Any:
        """What a cell of the world holds now. It is on record: a later run sees the same."""
        found = self._run.instant("get", key, None, lambda: self._run.world.get(key))
        return default if found is None else found

    def put(self, key: str, value: Any) -> None:
        _check_cell(key)
        self._run.instant("put", key, value, lambda: self._run.world.put(key, value))

    def delete(self, key: str) -> None:
        _check_cell(key)
        self._run.instant("delete", key, None, lambda: self._run.world.delete(key))

    def status(self, value: Any) -> None:
        """What people see of the instance while it runs."""
        self._run.status, self._run.has_status = value, True

    def log(self, text: str, level: str = "info") -> None:
        """A line for people. One that was written in an earlier step is not written again."""
        if self._run.is_live:
            self._run.world.log(level, f"{self._run.head['function']}/{self.key}: {text}")

    def version(self, name: str, old: int, new: int) -> int:
        """Which version of the code this instance goes through here: `old` if it passed this place before there was another, else
        `new`."""
        return self._run.version(name, old, new)

    def continue_as(self, value: Any) -> Any:
        """`return ctx.continue_as(input)` starts the function over with another input and an empty log."""
        return Continue(value)


class ScopedCtx(Ctx):
    """The Ctx of a scope that can be cancelled for itself."""

    def cancel(self, reason: str = "the scope was cancelled") -> None:
        self._run.cancel(self._scope, reason)


def function_status(world: Any, name: str, key: str) -> Any:
    """The newest status of an instance, by its function and its key: for queries and handlers of the same world."""
    return (world.get(head_key(f"{name}/{key}")) or {}).get("status")


def _keyed(kind: str, params: Any, options: tuple[Optional[str], int], key: Callable[[], str]) -> Any:
    """The params with a key that is the same for every attempt of an await. It is not part of what is compared with the record, because it
    names the world, which is another one in a fork."""
    key_in, retry = options
    if not isinstance(params, dict):
        return params
    given = {**params, key_in: key()} if key_in is not None and params.get(key_in) is None else params
    if kind != "http.request" or retry == 0:
        return given
    headers = given.get("headers") or {}
    if any(name.lower() == "idempotency-key" for name in headers):
        return given
    return {**given, "headers": {**headers, "idempotency-key": key()}}


def _check_cell(key: str) -> None:
    if key.startswith("$fn/"):
        message = f"cells under `$fn/` are those of durable functions: choose another key than `{key}`"
        raise FunctionError("FUNCTION_CELL_RESERVED", message)


Code = Callable[[Ctx, Any], Coroutine[Any, Any, Any]]


class Durable:
    """A durable function of a program."""

    def __init__(self, name: str, code: Code) -> None:
        if not is_name(name) or len(name) > 64:
            raise ValueError(f"`{name}` cannot be the name of a durable function")
        self.name = name
        self.code = code


def durable(code: Union[Code, str]) -> Any:
    """Makes a durable function of an `async def`. Its name is the name of the event that starts it; `@durable("an-other-name")` gives
    it another."""
    if isinstance(code, str):
        name = code
        return lambda function: Durable(name, function)
    return Durable(code.__name__, code)


def durable_program(*functions: Durable, handlers: Any = None) -> Any:
    """A program of durable functions, and perhaps of handlers beside them: an object with `handle`, which takes all that is not for a
    function, and `query`."""
    from .function_program import Functions

    return Functions({function.name: function.code for function in functions}, handlers)
