"""The server as an MCP server, with the official SDK over both transports."""

import asyncio
import json
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mundi_client import Mundi
from server import BINARY, Server, until

RESULT_BYTES_MAX = 100_000
READ = {
    "find_worlds", "describe_world", "why", "sql", "journal", "state", "query", "diff", "lineage", "verify", "rehearse", "effects",
    "dead_letters", "programs", "docs_search", "docs_read",
}  # fmt: skip
SEND = {"create_world", "send_event", "call", "fork_and_try"}
ADMIN = {
    "pause_world", "resume_world", "retry_world", "skip_input", "retry_effect", "answer_effect", "replay_dead_letters",
}  # fmt: skip


@asynccontextmanager
async def over_stdio(server: Server, allow: str = "", token: str | None = None):  # type: ignore[no-untyped-def]
    arguments = ["mcp", "--url", server.url, *(["--allow", allow] if allow else [])]
    environment = {"MUNDI_TOKEN": token} if token else {}
    async with Client(stdio_client(StdioServerParameters(command=BINARY, args=arguments, env=environment))) as client:
        yield client


@asynccontextmanager
async def over_http(server: Server, allow: str = "", token: str | None = None):  # type: ignore[no-untyped-def]
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        url = f"{server.url}/mcp" + (f"?allow={allow}" if allow else "")
        async with Client(streamable_http_client(url, http_client=http)) as client:
            yield client


TRANSPORTS = pytest.mark.parametrize("connect", [over_stdio, over_http])


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    assert len(result.content[0].text) <= RESULT_BYTES_MAX  # type: ignore[union-attr]
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    assert result.structured_content and len(result.structured_content["hint"]) > 10
    return result.structured_content


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(bounded())


@pytest.fixture(scope="module")
def filled(mundi: Mundi) -> Mundi:
    alice = mundi.create("alice", program="counter")
    for _ in range(5):
        alice.call("add", 1)
    kv = mundi.create("kv", program="kv")
    kv.call("put", {"key": "a/b", "value": {"text": "hello"}})
    kv.call("ask", {"key": "answer", "kind": "external.task", "params": {"n": 1}})
    return mundi


@TRANSPORTS
def test_whoever_only_reads_finds_describes_and_explains(connect: Any, server: Server, filled: Mundi) -> None:
    async def work() -> None:
        async with connect(server) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == READ
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
            found = await ask(client, "find_worlds", program="counter")
            assert "alice" in [world.get("name") for world in found["items"]]
            first = await ask(client, "find_worlds", limit=1)
            assert first["next"] and len(first["items"]) == 1
            second = await ask(client, "find_worlds", limit=1, after=first["next"])
            assert second["items"] != first["items"]
            active = await ask(client, "find_worlds", sort="active", limit=1)
            assert active["items"][0]["active_at"], "a world that was never opened comes last"
            assert [it["name"] for it in (await ask(client, "find_worlds", name="ali"))["items"]] == ["alice"]
            assert (await ask(client, "sql", query="select count(*) from worlds where name = 'alice'"))["rows"] == [[1]]
            assert (await refused(client, "sql", query="delete from worlds"))["code"].startswith("SQL")
            assert (await ask(client, "why", world="kv"))["causes"][0]
            described = await ask(client, "describe_world", world="kv")
            assert described["open_effects"][0]["kind"] == "external.task"
            records = await ask(client, "journal", world="alice", **{"from": 0}, limit=3)
            assert [record["height"] for record in records["items"]] == [0, 1, 2] and records["next"] == 3
            newest = await ask(client, "journal", world="alice", limit=2, full=True)
            assert newest["items"][-1]["height"] == filled.world("alice").get()["head"] - 1
            assert (await ask(client, "query", world="alice", query="count"))["answer"] == 5
            past = await ask(client, "query", world="alice", query="count", at=records["next"])
            assert past["answer"] < 5
            state = await ask(client, "state", world="kv", prefix="a/")
            assert state["items"] == [{"key": "a/b", "value": {"text": "hello"}}]
            difference = await ask(client, "diff", world="alice", at=1)
            assert len(difference["differences"]) == 1
            assert (await ask(client, "lineage", world="alice"))["ancestors"] == []
            assert (await ask(client, "verify", world="alice"))["records"] > 0
            assert (await ask(client, "rehearse", world="alice", program="counter"))["divergence"] is None
            assert (await ask(client, "effects", world="kv"))["items"][0]["stage"] == "pending"
            assert (await ask(client, "dead_letters"))["items"] == []
            assert "counter" in json.dumps(await ask(client, "programs"))
            pages = await ask(client, "docs_search", query="WORLD_NOT_FOUND")
            assert any("WORLD_NOT_FOUND" in page["page"] for page in pages["found"])
            assert "#" in (await ask(client, "docs_read", page="concepts/fork"))["text"]

            denied = await refused(client, "call", world="alice", event="add", value=1)
            assert denied["code"] == "TOKEN_DENIED" and "--allow" in denied["hint"]
            assert (await refused(client, "describe_world", world="nobody"))["code"] == "WORLD_NOT_FOUND"
            assert (await refused(client, "journal", wrold="alice"))["code"] == "REQUEST_INVALID"
            assert (await refused(client, "query", world="alice", query="nonsense"))["code"] == "QUERY_INVALID"

    run(work)


@TRANSPORTS
def test_with_rights_worlds_are_created_called_forked_tried_and_repaired(connect: Any, server: Server, filled: Mundi) -> None:
    name = connect.__name__

    async def work() -> None:
        async with connect(server, "send,admin") as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == READ | SEND | ADMIN
            await ask(client, "create_world", world=name, program="kv")
            await ask(client, "call", world=name, event="put", value={"key": "x", "value": 1})
            sent = {"world": name, "event": "put", "value": {"key": "y", "value": 1}, "idempotency_key": "one"}
            assert (await ask(client, "send_event", **sent))["before"] is False
            assert (await ask(client, "send_event", **sent))["before"] is True

            change = {"key": "x", "value": 2}
            tried = await ask(client, "fork_and_try", world=name, name=f"{name}-try", event="put", value=change)
            assert tried["idle"] is True and tried["effects"] == "sandbox" and tried["reply"] == {"ok": 1}
            [difference] = tried["difference"]["differences"]
            assert difference["key"] == "x" and {difference["left"], difference["right"]} == {1, 2}
            assert filled.world(name).query("get", "x") == 1, "the parent is only read"
            effect = {"key": "e", "kind": "external.task", "params": {}}
            answers = [{"kind": "external.task", "payload": "scripted"}]
            tried = await ask(client, "fork_and_try", world=name, event="ask", value=effect, answers=answers)
            assert {"e"} == {it["key"] for it in tried["difference"]["differences"]}
            failed = await refused(client, "fork_and_try", world=name, event="put", value="nonsense")
            assert failed["code"] == "EVENT_INVALID"
            assert (await refused(client, "fork_and_try", world=name))["code"] == "REQUEST_INVALID"

            await ask(client, "pause_world", world=name)
            await asyncio.to_thread(until, lambda: filled.world(name).get()["state"] == "paused")
            late = await refused(client, "call", world=name, event="put", value=change, timeout_ms=200)
            assert late["code"] == "CALL_TIMEOUT" and late["call"]
            await ask(client, "resume_world", world=name)
            assert (await refused(client, "retry_world", world=name))["code"] == "WORLD_NOT_ON_HOLD"
            await ask(client, "call", world=name, event="ask", value=effect)
            [open_effect] = (await ask(client, "effects", world=name))["items"]
            answer = {"effect": open_effect["effect"], "status": "ok", "payload": "by hand"}
            assert (await ask(client, "answer_effect", **answer))["changed"] is True
            assert (await ask(client, "replay_dead_letters", queue="effects"))["done"] == 0

    run(work)


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[Server, dict[str, str]]]:
    """A server that requires tokens, and some of them."""
    server = Server().start()
    with Mundi(server.url) as mundi:
        mundi.create("secret", program="counter")
        mundi.http.json("POST", "/v1/universes", body={"name": "other"})

        def token(universe: str, *can: str) -> str:
            made = mundi.http.json("POST", "/v1/tokens", body={"universe": universe, "can": list(can)})
            return str(made["token"])

        tokens = {
            "read": token("default", "read"),
            "send": token("default", "read", "send"),
            "other": token("other", "read", "send", "admin"),
            "wrong": "mundi_0000000000000000_" + "00" * 32,
        }
    server.kill()
    server.environment["MUNDI_API__TOKENS_REQUIRED"] = "true"
    server.start()
    yield server, tokens
    server.end()


def test_a_token_decides_which_tools_there_are(guarded: tuple[Server, dict[str, str]]) -> None:
    server, tokens = guarded

    async def work() -> None:
        for name, tools in [("read", READ), ("send", READ | SEND)]:
            async with over_http(server, token=tokens[name]) as client:
                assert {tool.name for tool in (await client.list_tools()).tools} == tools
                assert (await ask(client, "find_worlds"))["items"][0]["name"] == "secret"
        async with over_http(server, token=tokens["other"]) as client:
            assert (await ask(client, "find_worlds"))["items"] == [], "its own universe, and not ours"
        # What is allowed on the command line is still refused by the server.
        async with over_stdio(server, "send", tokens["read"]) as client:
            denied = await refused(client, "call", world="secret", event="add", value=1)
            assert denied["code"] == "TOKEN_DENIED"

    run(work)


def test_a_wrong_token_is_refused(guarded: tuple[Server, dict[str, str]]) -> None:
    server, tokens = guarded
    for token in (None, tokens["wrong"]):
        headers = {"authorization": f"Bearer {token}"} if token else {}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        answer = httpx2.post(f"{server.url}/mcp", json=message, headers=headers, trust_env=False)
        assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_MISSING")

    async def work() -> None:
        for token in (None, tokens["wrong"]):
            with pytest.raises(BaseException):  # noqa: B017: the SDK wraps it in groups of its own
                async with over_http(server, token=token) as client:
                    await client.list_tools()
            async with over_stdio(server, token=token) as client:
                denied = await refused(client, "find_worlds")
                assert denied["code"] == "TOKEN_MISSING" and "token" in denied["hint"]

    run(work)


def test_a_page_of_another_site_is_refused(server: Server) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = httpx2.post(f"{server.url}/mcp", json=message, headers={"origin": "http://evil.example"}, trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (403, "ORIGIN_DENIED")


@TRANSPORTS
def test_results_of_a_large_world_are_small(connect: Any, server: Server, mundi: Mundi) -> None:
    large = mundi.create("large", program="kv")
    if large.get()["head"] < 1_000:
        for at in range(1_500):
            large.send("put", {"key": f"k{at:05}", "value": "x" * 2_000})
        large.call("put", {"key": "huge", "value": ["y" * 1_000] * 60})

    async def work() -> None:
        async with connect(server, "send") as client:
            records = await ask(client, "journal", world="large", **{"from": 0}, limit=1_000)
            assert len(records["items"]) == 100 and records["next"] == 100, "a page has a bound"
            await ask(client, "journal", world="large", **{"from": 0}, limit=100, full=True)
            keys: list[str] = []
            after: dict[str, str] = {}
            while len(keys) < 300:
                page = await ask(client, "state", world="large", limit=100, **after)
                keys += [cell["key"] for cell in page["items"]]
                after = {"after": page["next"]}
            assert keys == sorted(set(keys)), "none is missing, none comes twice"
            await ask(client, "query", world="large", query="get", params="huge")
            difference = await ask(client, "diff", world="large", at=1)
            assert difference["next"] == difference["differences"][-1]["key"]
            behind = await ask(client, "diff", world="large", at=1, after=difference["next"])
            assert behind["differences"][0]["key"] > difference["next"]
            tried = await ask(client, "fork_and_try", world="large", event="delete", value={"key": "k00000"})
            assert [it["key"] for it in tried["difference"]["differences"]] == ["k00000"]

    run(work)


def test_what_was_asked_before_the_end_of_the_input_is_answered(server: Server) -> None:
    lines = [{"jsonrpc": "2.0", "id": at, "method": "tools/list"} for at in range(3)]
    given = "".join(json.dumps(line) + "\n" for line in lines) + "nonsense\n"
    done = subprocess.run([BINARY, "mcp", "--url", server.url], input=given, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {answer["id"] for answer in answers if "result" in answer} == {0, 1, 2}
    assert [answer["error"]["code"] for answer in answers if "error" in answer] == [-32700]


def test_a_client_that_hangs_up_leaves_nothing_behind(server: Server, mundi: Mundi) -> None:
    world = mundi.create("paused", program="counter")
    world.pause()
    until(lambda: world.get()["state"] == "paused")
    call = {"name": "call", "arguments": {"world": "paused", "event": "add", "value": 1, "timeout_ms": 30_000}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})

    # Over stdio the process ends with its input.
    process = subprocess.Popen([BINARY, "mcp", "--url", server.url, "--allow", "send"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    process.stdin.write(message.encode() + b"\n")
    process.stdin.close()
    assert process.wait(20) == 0

    # Over HTTP the request ends with its connection.
    host, port = server.bind.split(":")
    for _ in range(20):
        with socket.create_connection((host, int(port))) as connection:
            head = f"POST /mcp?allow=send HTTP/1.1\r\nhost: {server.bind}\r\ncontent-length: {len(message)}\r\n\r\n"
            connection.sendall((head + message).encode())

    def under_way() -> float:
        metrics = httpx2.get(f"{server.url}/metrics", trust_env=False).text
        [line] = [line for line in metrics.splitlines() if line.startswith("mundi_http_requests_in_flight")]
        return float(line.split()[-1])

    until(under_way, lambda count: count <= 1)  # the one that asks
    world.resume()
    assert isinstance(world.call("add", 1), int)
