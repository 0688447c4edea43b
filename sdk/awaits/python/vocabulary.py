# Made by `mundi program build` from mundi.json. Changes here are lost.

from typing import Any, Literal, NotRequired, Optional, TypedDict

Chain = TypedDict("Chain", {
    "n": int,
})

Hand = TypedDict("Hand", {
    "n": int,
})

Work = TypedDict("Work", {
    "note": str,
    "step": int,
})

WorkReceipt = TypedDict("WorkReceipt", {
    "by": str,
    "worth": int,
})

# Events that the program accepts.
Event = Literal["chain", "hand"]

# Effects that the program requests.
Effect = Literal["work"]
