"""Durable functions, children, labels and bulk verbs by both clients, against a real server that is killed in between."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mundi_client import AsyncMundi, Mundi, MundiError
from server import Server, until

ORDER = {"sku": "lamp", "quantity": 2, "cents": 4900}


@pytest.fixture(scope="module", autouse=True)
def shop(server: Server) -> None:
    server.upload_shop()


@contextmanager
def worker(mundi: Mundi, *kinds: str) -> Iterator[None]:
    """Carries out effects of the shop, of these kinds only."""
    results: dict[str, Any] = {"payment.charge": {"charge": "ch_1"}, "stock.reserve": {}, "payment.refund": {}}
    working = mundi.worker({kind: lambda _, kind=kind: results[kind] for kind in kinds}, wait_s=0.5)
    thread = threading.Thread(target=working.run)
    thread.start()
    try:
        yield
    finally:
        working.stop()
        thread.join()


def test_a_function_is_run_once_under_a_key_and_cancelled(server: Server, mundi: Mundi) -> None:
    functions = mundi.create("lamps", program="shop").functions
    with pytest.raises(MundiError, match="CALL_TIMEOUT"):
        functions.run("order", "never", ORDER, timeout_s=0.05)
    results: list[Any] = []
    with worker(mundi, "payment.charge"):
        until(lambda: [it["name"] for it in functions.describe("order/never")["waits"]], lambda names: "stock.reserve" in names)
        waiting = threading.Thread(target=lambda: results.append(functions.run("order", "17", ORDER)))
        waiting.start()
        until(lambda: [it["awaits"] for it in functions.list(state="running")], lambda awaits: awaits == [2, 2])
    server.kill()
    server.start()
    assert functions.cancel("order/never", reason="not wanted")["state"] == "running", "it gives back what was paid first"
    with worker(mundi, "stock.reserve", "payment.refund"):
        waiting.join()
        assert results == [{"state": "placed"}]
        assert functions.run("order", "17", ORDER) == {"state": "placed"}, "the same instance"
        with pytest.raises(MundiError, match="FUNCTION_KEY_REUSED"):
            functions.run("order", "17", {**ORDER, "quantity": 3})
        ended = until(lambda: functions.describe("order/never"), lambda it: it["state"] != "running")
    assert ended["state"] == "cancelled"
    asked = [it["name"] for it in ended["log"] if it["kind"] == "effect"]
    assert asked == ["payment.charge", "stock.reserve", "payment.refund"]
    assert [it["instance"] for it in functions.list(limit=1)] == ["order/17", "order/never"], "pages are followed"


def test_a_function_is_paused_and_goes_on(mundi: Mundi) -> None:
    functions = mundi.create("paused-lamps", program="shop").functions
    with pytest.raises(MundiError, match="CALL_TIMEOUT"):
        functions.run("order", "a.b", ORDER, timeout_s=0.05)
    functions.pause("order/a.b")
    assert functions.describe("order/a.b")["paused"] is True
    functions.resume("order/a.b")
    with worker(mundi, "payment.charge", "stock.reserve"):
        assert functions.run("order", "a.b", ORDER) == {"state": "placed"}


def manifest(mundi: Mundi) -> str:
    """A program that may have children."""
    programs = mundi.http.json("GET", mundi.http.path("programs"))
    [kv] = [it for it in programs if it["name"] == "kv"]
    body = {"program": kv["program"], "effects": {"child.spawn": {}}}
    return str(mundi.http.json("POST", mundi.http.path("manifests"), body=body)["hash"])


def test_children_are_spawned_once_followed_past_kill_9_and_cancelled(server: Server, mundi: Mundi) -> None:
    children = mundi.create("parent", manifest=manifest(mundi)).children
    children.set_budget({"tokens": 100})
    first = children.spawn("external", {"page": 7}, budget={"tokens": 60}, idempotency_key="a")
    assert children.spawn("external", {"page": 7}, budget={"tokens": 60}, idempotency_key="a")["child_id"] == first["child_id"]
    second = children.spawn("external")
    ids = [first["child_id"], second["child_id"]]
    assert [child["child_id"] for child in children.list(limit=1)] == ids, "pages are followed"

    def task(verb: str, **body: Any) -> Any:
        return mundi.http.json("POST", mundi.http.path("tasks", "children", verb), body=body)

    [claimed] = task("claim", kinds=["external"], limit=1, wait="10s", ttl="1h")
    task("start", claim=claimed["claim"])
    events: list[str] = []
    following = threading.Thread(target=lambda: events.extend(it["event"] for it in children.events(ids[0], follow=True)))
    following.start()
    assert children.cancel(ids[1], idempotency_key="stop") == {"outcome": "cancelled", "cancel_request_id": "stop"}
    server.kill()
    server.start()
    task("complete", claim=claimed["claim"], result={"found": 3}, spent={"tokens": 40})
    following.join()
    assert events == ["WORKER_START", "WORKER_PASS"]
    assert children.cancel(ids[0])["outcome"] == "already_terminal"
    assert children.get(ids[0])["outcome"] == "passed"
    assert [lane["total"] for lane in children.budget()["lanes"] if lane["lane"] == "tokens"] == [40]


def test_labels_change_and_worlds_are_commanded_in_bulk(mundi: Mundi) -> None:
    for n in range(3):
        mundi.create(f"bulk-{n}", program="counter", labels={"fleet": "red", "n": str(n)})
    first = mundi.world("bulk-0")
    assert first.label({"fleet": "blue", "tier": "gold", "n": None}) == {"fleet": "blue", "tier": "gold"}
    assert mundi.count(label="fleet=red")["count"] == 2
    red = {"label": "fleet=red"}
    would = [world["result"] for page in mundi.bulk("pause", red, dry_run=True) for world in page["items"]]
    assert would == ["would", "would"]
    # Interrupted after the first page; the second iteration goes on behind it.
    page = next(mundi.bulk("pause", red, limit=1))
    done = page["items"] + [world for rest in mundi.bulk("pause", red, limit=1, after=page["next"]) for world in rest["items"]]
    assert sorted((world["name"], world["result"]) for world in done) == [("bulk-1", "done"), ("bulk-2", "done")]
    until(lambda: mundi.count(**red, state="paused")["count"], lambda count: count == 2)
    with pytest.raises(MundiError) as refused:
        list(mundi.bulk("delete", {}))
    assert refused.value.kind == "invalid"


def test_the_same_shape_with_await(server: Server, mundi: Mundi) -> None:
    async def work() -> None:
        async with AsyncMundi(server.url) as mundi_:
            world = await mundi_.create("async-lamps", program="shop")
            with worker(mundi, "payment.charge", "stock.reserve"):
                assert await world.functions.run("order", "1", ORDER) == {"state": "placed"}
            assert [it["state"] async for it in world.functions.list()] == ["done"]
            parent = await mundi_.create("async-parent", manifest=manifest(mundi))
            child = await parent.children.spawn("external", {"page": 1})
            await parent.children.cancel(child["child_id"])
            assert [it["event"] async for it in parent.children.events(child["child_id"], follow=True)][0] == "WORKER_CANCEL"
            assert await parent.label({"tier": "silver"}) == {"tier": "silver"}
            pages = [page async for page in mundi_.bulk("archive", {"label": "tier=silver"}, dry_run=True)]
            assert [it["name"] for page in pages for it in page["items"]] == ["async-parent"]

    asyncio.run(work())
