"""What coroutines of a durable function wait for, and which of them goes on next.

There is no event loop: a step runs everything that can go on, in a fixed order, until all of it waits.
"""

from collections import deque
from typing import Any, Callable, Coroutine, Generator, Iterable, Optional

from .function_errors import FunctionError


class Wait:
    """Something that ends once, with a value or an exception."""

    def __init__(self) -> None:
        self.is_awaited = False
        self.is_settled = False
        self._value: Any = None
        self._error: Optional[BaseException] = None
        self._after: list[Callable[[], None]] = []

    def settle(self, value: Any = None, error: Optional[BaseException] = None) -> None:
        """Only the first time counts."""
        if self.is_settled:
            return
        self.is_settled, self._value, self._error = True, value, error
        after, self._after = self._after, []
        for run in after:
            run()

    def after(self, run: Callable[[], None]) -> None:
        """Runs something when this has ended, or now if it has."""
        self.is_awaited = True
        if self.is_settled:
            run()
        else:
            self._after.append(run)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value

    @property
    def error(self) -> Optional[BaseException]:
        return self._error

    def __await__(self) -> Generator["Wait", None, Any]:
        self.is_awaited = True
        if not self.is_settled:
            yield self
        return self.result()


class Tasks:
    """Coroutines that go on by themselves."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Coroutine[Any, Any, Any], Wait]] = deque()

    def wait_for(self, what: Any) -> Wait:
        """What is waited for: a coroutine begins at once."""
        if isinstance(what, Wait):
            return what
        if not hasattr(what, "send"):
            raise TypeError(f"a {type(what).__name__} cannot be waited for: give what `ctx` returns, or a coroutine")
        done = Wait()
        self._go_on(what, done)
        return done

    def _go_on(self, coroutine: Coroutine[Any, Any, Any], done: Wait) -> None:
        try:
            waits_for = coroutine.send(None)
        except StopIteration as ended:
            done.settle(ended.value)
        except Exception as error:
            done.settle(error=error)
        else:
            if not isinstance(waits_for, Wait):
                coroutine.close()
                message = "the function waits for something that never comes: wait for what `ctx` gives, or for coroutines made of that"
                done.settle(error=FunctionError("FUNCTION_STUCK", message))
                return
            waits_for.after(lambda: self._ready.append((coroutine, done)))

    def run(self) -> None:
        """Until everything waits."""
        while self._ready:
            self._go_on(*self._ready.popleft())

    def all(self, waits: Iterable[Any]) -> Wait:
        """Ends with the values of all, or with the first error."""
        given = [self.wait_for(what) for what in waits]
        done = Wait()

        def check() -> None:
            failed = next((wait for wait in given if wait.is_settled and wait.error is not None), None)
            if failed is not None:
                done.settle(error=failed.error)
            elif all(wait.is_settled for wait in given):
                done.settle([wait.result() for wait in given])

        for wait in given:
            wait.after(check)
        check()
        return done

    def first(self, waits: list[Wait]) -> Wait:
        """Ends as the first of them ends."""
        done = Wait()
        for wait in waits:
            wait.after(lambda wait=wait: done.settle(None if wait.error else wait.result(), wait.error))
        return done
