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

# What the program takes in.
Event = Literal["chain", "hand"]

# What it asks for.
Effect = Literal["work"]
