"""What goes wrong with durable functions, by codes that are the same in every language."""


class FunctionError(Exception):
    """A wrong use of durable functions, or a bound of theirs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class FunctionDiverged(FunctionError):
    """The code asks for something else than is on record."""

    def __init__(self, number: int, recorded: str, asked: str) -> None:
        super().__init__("FUNCTION_DIVERGED", f"await {number}: on record is {recorded}, and the code asks for {asked}")
        self.number = number


class FunctionCancelled(FunctionError):
    """The instance, or the scope that was waited in, was cancelled. Catch it to clean up, and wait in ctx.shield there."""

    def __init__(self, reason: str) -> None:
        super().__init__("FUNCTION_CANCELLED", reason)
