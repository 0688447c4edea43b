"""Client of Mundi: durable worlds, their journals, forks and effects.

`Mundi` is synchronous, `AsyncMundi` asynchronous; both have the same methods.
"""

from ._async.children import AsyncChildren
from ._async.client import AsyncMundi
from ._async.functions import AsyncFunctions
from ._async.pool import AsyncPool
from ._async.worker import AsyncWorker
from ._async.world import AsyncWorld
from ._sync.children import Children
from ._sync.client import Mundi
from ._sync.functions import Functions
from ._sync.pool import Pool
from ._sync.worker import Worker
from ._sync.world import World
from .errors import FinalError, MundiError, RetryError, UnreachableError, WithdrawnError

__all__ = [
    "AsyncChildren",
    "AsyncFunctions",
    "AsyncMundi",
    "AsyncPool",
    "AsyncWorker",
    "AsyncWorld",
    "Children",
    "FinalError",
    "Functions",
    "Mundi",
    "MundiError",
    "Pool",
    "RetryError",
    "UnreachableError",
    "WithdrawnError",
    "Worker",
    "World",
]
