# Made by `mundi program build` from mundi.json. Changes here are lost.

from typing import Any, Literal, NotRequired, Optional, TypedDict

Ask = TypedDict("Ask", {
    "ask": NotRequired[str],
    "kind": str,
    "manifest": NotRequired[str],
    "to": NotRequired[str],
    "url": NotRequired[str],
})

# Events that the program accepts.
Event = Literal["ask", "note"]

# Queries that the program answers.
Query = Literal["note"]

# Effects that the program requests.
Effect = Literal["blob.get", "blob.put", "fabric.send", "http.request", "llm.chat", "process.run", "world.call", "world.fork", "world.spawn"]
