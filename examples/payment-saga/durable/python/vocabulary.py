# Made by `mundi program build` from mundi.json. Changes here are lost.

from typing import Any, Literal, NotRequired, Optional, TypedDict

Begin = TypedDict("Begin", {
    "confirm_within_ms": int,
    "order": str,
    "shop": str,
})

# Events that the program accepts.
Event = Literal["begin", "confirm", "outcome"]

# Effects that the program requests.
Effect = Literal["http.request"]
