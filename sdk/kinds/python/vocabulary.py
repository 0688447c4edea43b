# Made by `mundi program build` from mundi.json. Changes here are lost.

from typing import Any, Literal, NotRequired, Optional, TypedDict

Ask = TypedDict("Ask", {
    "ask": NotRequired[str],
    "kind": str,
    "manifest": NotRequired[str],
    "to": NotRequired[str],
    "url": NotRequired[str],
})

# What the program takes in.
Event = Literal["ask", "note"]

# What it answers.
Query = Literal["note"]

# What it asks for.
Effect = Literal["blob.get", "blob.put", "fabric.send", "http.request", "llm.chat", "process.run", "world.call", "world.fork", "world.spawn"]
