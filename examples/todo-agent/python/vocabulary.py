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

# Events that the program accepts.
Event = Literal["add", "notice", "setup"]

# Queries that the program answers.
Query = Literal["notices", "todos", "version"]

# Effects that the program requests.
Effect = Literal["fabric.send", "http.request"]
