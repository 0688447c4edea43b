"""Refusals of the server as exceptions, and what handlers of effects raise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class MundiError(Exception):
    """A refusal of the server, or the absence of an answer."""

    def __init__(
        self, code: str, kind: str, hint: str, detail: str, status: int = 0, problem: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        """Stable: `WORLD_NOT_FOUND`. Each has a page in the documentation."""
        self.kind = kind
        """What a caller can do: `conflict`, `not_found`, `invalid`, `fenced`, `full`, `unavailable`, `corrupt` or `unreachable`."""
        self.hint = hint
        """What to do about it."""
        self.detail = detail
        self.status = status
        """Of the answer; 0 if there was none."""
        self.problem: Mapping[str, Any] = problem or {}
        """The whole refusal."""

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in ("full", "unavailable", "unreachable")


class UnreachableError(MundiError):
    """No server answered, or the connection broke off: what became of the request is not known."""

    def __init__(self, url: str, why: object) -> None:
        hint = "Check that the server runs and that the address is right."
        super().__init__("UNREACHABLE", "unreachable", hint, f"{url} does not answer: {why}")


class FinalError(Exception):
    """Raised by the handler of an effect: another attempt is useless, the world gets an `error` receipt."""


class RetryError(Exception):
    """Raised by the handler of an effect: try again, not before `after_ms` if it is given."""

    def __init__(self, message: str, after_ms: int | None = None) -> None:
        super().__init__(message)
        self.after_ms = after_ms


class WithdrawnError(Exception):
    """The claim of an effect was lost, or its world withdrew it: nobody waits for its result."""


def refusal(status: int, body: object) -> MundiError:
    """The error that an answer is."""
    problem: Mapping[str, Any] = body if isinstance(body, dict) else {}
    kind = problem.get("kind", "unavailable" if status >= 500 else "invalid")
    detail = problem.get("detail") or problem.get("title") or f"the server answered {status}"
    return MundiError(problem.get("code", f"HTTP_{status}"), kind, problem.get("hint", ""), detail, status, problem)
