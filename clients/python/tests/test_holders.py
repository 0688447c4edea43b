"""Calls and events go to the process that holds their world, once an answer has named it."""

import httpx
from mundi_client import Mundi

SERVER = "http://server:1"
HOLDER = "http://holder:2"


class Fleet:
    """A fleet in which one process holds every world, and some cannot be reached."""

    def __init__(self, url: str = SERVER, *, follow_holders: bool = True) -> None:
        self.url = url
        self.asked: list[str] = []
        self.gone: list[str] = []
        client = httpx.Client(transport=httpx.MockTransport(self.answer))
        self.mundi = Mundi(url, follow_holders=follow_holders, client=client)

    def answer(self, request: httpx.Request) -> httpx.Response:
        origin = f"{request.url.scheme}://{request.url.host}:{request.url.port}"
        self.asked.append(origin)
        if origin in self.gone:
            raise httpx.ConnectError("refused", request=request)
        headers = {"mundi-holder": f"{HOLDER}/"} if origin == self.url else {}
        return httpx.Response(200, json=1, headers=headers)


def test_calls_and_events_follow_and_other_requests_and_other_worlds_do_not() -> None:
    fleet = Fleet()
    world = fleet.mundi.world("alice")
    world.call("add", 1)
    world.call("add", 1)
    world.send("add", 1)
    world.query("count")
    fleet.mundi.universe("default").world("bob").call("add", 1)
    assert fleet.asked == [SERVER, HOLDER, HOLDER, SERVER, SERVER]


def test_an_address_that_cannot_be_reached_is_forgotten() -> None:
    fleet = Fleet()
    world = fleet.mundi.world("alice")
    world.call("add", 1)
    fleet.gone.append(HOLDER)
    assert world.call("add", 1) == 1
    assert fleet.asked == [SERVER, HOLDER, SERVER]


def test_a_token_never_goes_from_an_encrypted_address_to_one_in_the_clear() -> None:
    fleet = Fleet("https://server:1")
    world = fleet.mundi.world("alice")
    world.call("add", 1)
    world.call("add", 1)
    assert fleet.asked == ["https://server:1"] * 2


def test_without_the_option_nothing_follows() -> None:
    fleet = Fleet(follow_holders=False)
    world = fleet.mundi.world("alice")
    world.call("add", 1)
    world.call("add", 1)
    assert fleet.asked == [SERVER] * 2
