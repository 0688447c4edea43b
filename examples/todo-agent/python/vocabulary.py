# Made by `mundi program build` from mundi.json. Changes here are lost.

from typing import Any, Literal, NotRequired, Optional, TypedDict

Add = TypedDict("Add", {
    "id": str,
    "text": str,
})

Notice = TypedDict("Notice", {
    "id": str,
    "what": Literal["planned", "reminded"],
})

Setup = TypedDict("Setup", {
    "notify": str,
    "remind_ms": int,
    "service": str,
})

# What the program takes in.
Event = Literal["add", "notice", "setup"]

# What it answers.
Query = Literal["notices", "todos", "version"]

# What it asks for.
Effect = Literal["fabric.send", "http.request"]
