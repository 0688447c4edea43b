# Made by `mundi program build` from mundi.json. Changes here are lost.

from typing import Any, Literal, NotRequired, Optional, TypedDict

# Events that the program accepts.
Event = Literal["ask"]

# Effects that the program requests.
Effect = Literal["http.request", "llm.chat"]
