from collections.abc import Iterator

import pytest
from mundi_client import Mundi
from server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server().start()
    yield server
    server.end()


@pytest.fixture(scope="module")
def mundi(server: Server) -> Iterator[Mundi]:
    with Mundi(server.url) as mundi:
        yield mundi
