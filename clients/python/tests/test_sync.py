"""The synchronous client against a real server, which is killed in between."""

import os
import threading
import time

import pytest
from mundi_client import FinalError, Mundi, MundiError, RetryError, UnreachableError
from server import Server, until


def test_creates_gets_lists_sends_calls_and_queries(mundi: Mundi) -> None:
    alice = mundi.create("alice", program="counter")
    mundi.create("alice", program="counter")
    assert alice.get()["state"] == "live"
    sent = alice.send("add", 5)
    assert alice.query("count", at_least=sent["seq"]) == 5
    assert alice.call("add", 7) == 12
    head = alice.get()["head"]
    alice.call("add", 1)
    assert alice.query("count", at=head) == 12
    for name in "abc":
        mundi.create(name, program="kv")
    assert len(list(mundi.list(program="kv", limit=1))) == 3, "pages are followed"
    assert list(mundi.list(state="archived")) == []
    assert list(mundi.list(on_hold=True)) == []
    assert mundi.whoami()["tokens_required"] is False
    assert mundi.summary()["worlds"]["total"] >= 4


def test_finds_by_label_and_name_asks_in_sql_and_says_why_a_world_does_not_move(mundi: Mundi) -> None:
    world = mundi.create("labelled-1", program="counter", labels={"customer": "17"})
    mundi.create("labelled-2", program="counter", labels={"customer": "18"})
    assert [found["name"] for found in mundi.list(label="customer=17")] == ["labelled-1"]
    assert len(list(mundi.list(name="labelled-"))) == 2
    answer = mundi.sql("select name from worlds where name like 'labelled-%' order by 1")
    assert answer == {"columns": ["name"], "rows": [["labelled-1"], ["labelled-2"]]}
    with pytest.raises(MundiError) as wrong:
        mundi.sql("select nonsense from worlds")
    assert wrong.value.kind == "invalid"
    world.pause()
    assert until(world.why, lambda why: why["state"] == "paused")["causes"]


def test_an_event_is_sent_once_under_one_key(mundi: Mundi) -> None:
    world = mundi.create("once", program="counter")
    assert [world.send("add", 1, idempotency_key="k")["before"] for _ in range(2)] == [False, True]
    assert [world.call("add", 10, idempotency_key="k") for _ in range(2)] == [11, 11]


def test_refusals_are_exceptions_with_code_kind_and_hint(mundi: Mundi) -> None:
    with pytest.raises(MundiError) as missing:
        mundi.world("nobody").get()
    assert (missing.value.code, missing.value.kind, missing.value.status) == ("WORLD_NOT_FOUND", "not_found", 404)
    assert len(missing.value.hint) > 10
    with pytest.raises(MundiError, match="EVENT_INVALID"):
        mundi.create("strict", program="counter").send("add", "five")
    with Mundi("http://127.0.0.1:9", retry_for_s=0) as nobody, pytest.raises(UnreachableError) as away:
        nobody.world("alice").get()
    assert away.value.is_transient and away.value.hint


def test_forks_compares_verifies_exports_and_imports(mundi: Mundi) -> None:
    parent = mundi.create("parent", program="counter")
    for _ in range(3):
        parent.call("add", 1)
    child = parent.fork("child", at=parent.get()["head"])
    child.call("add", 100)
    assert len(parent.diff("child")) == 1
    assert len(parent.lineage()["forks"]) == 1
    assert parent.verify()["records"] > 0
    assert parent.rehearse(program="counter").get("divergence") is None
    imported = mundi.import_bundle(parent.export(), world="imported")
    streamed = mundi.import_bundle(parent.export_chunks(), world="streamed")
    assert imported["world"] != streamed["world"]
    assert mundi.world("imported").query("count") == 3
    cells = list(child.cells())
    assert child.cell(cells[0]["key"]) == cells[0]


def test_blobs(mundi: Mundi) -> None:
    content = os.urandom(50_000)
    assert mundi.get_blob(mundi.put_blob(content)["hash"]) == content


def test_a_journal_is_read_to_its_end_followed_and_resumed_after_kill_9(server: Server, mundi: Mundi) -> None:
    world = mundi.create("told", program="counter")
    world.call("add", 1)
    first = list(world.journal())
    assert [record["height"] for record in first] == list(range(len(first)))
    assert list(world.journal(start=len(first) - 1)) == first[-1:]
    long = mundi.create("long-journal", program="counter")
    for _ in range(120):
        long.send("add", 1)
    long.call("add", 1)
    heights = [record["height"] for record in long.journal()]
    assert heights == list(range(long.get()["head"] or 0)), "pages are followed"

    seen: list[int] = []

    def follow() -> None:
        for record in world.journal(follow=True):
            seen.append(record["height"])
            if record.get("input", {}).get("value") == 99:
                return

    following = threading.Thread(target=follow)
    following.start()
    until(lambda: len(seen) >= len(first))
    server.kill()
    server.start()
    world.call("add", 99)
    following.join(60)
    assert not following.is_alive()
    assert seen == list(range(len(seen))), "none is missing, none comes twice"


def test_a_call_waits_past_its_timeout_by_its_name_and_through_kill_9_and_is_made_once(server: Server, mundi: Mundi) -> None:
    world = mundi.create("slow", program="counter")
    world.pause()
    until(lambda: world.get()["state"] == "paused")
    with pytest.raises(MundiError) as short:
        world.call("add", 1, timeout_s=0.3)
    assert short.value.code == "CALL_TIMEOUT"
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(world.call("add", 10, timeout_s=120)))
    waiting.start()
    until(lambda: world.get()["inbox_items"] >= 2)
    server.kill()
    server.start()
    world.resume()
    waiting.join(120)
    assert answers == [11]
    assert world.reply(short.value.problem["call"]) == 1
    assert world.query("count") == 11, "each was added once"


def test_calls_go_on_while_the_server_is_killed_each_once(server: Server, mundi: Mundi) -> None:
    world = mundi.create("storm", program="counter")
    calling = [threading.Thread(target=lambda: [world.call("add", 1) for _ in range(25)]) for _ in range(4)]
    for thread in calling:
        thread.start()
    time.sleep(0.15)
    server.kill()
    server.start()
    for thread in calling:
        thread.join(120)
    assert world.query("count") == 100


def test_effects_are_listed_answered_and_cancelled(mundi: Mundi) -> None:
    world = mundi.create("asking", program="kv")
    for key in ("one", "two"):
        world.call("ask", {"key": key, "kind": "external.task", "params": {"key": key}})
    one, two = until(lambda: list(mundi.effects(world="asking")), lambda found: len(found) == 2)
    assert mundi.effect(one["effect"])["kind"] == "external.task"
    assert mundi.answer_effect(one["effect"], status="ok", payload="by hand")["changed"]
    mundi.cancel_effect(two["effect"], reason="not needed")
    until(lambda: not list(mundi.effects(world="asking")))
    assert until(lambda: world.query("get", one["params"]["key"])) == "by hand"
    ended = until(lambda: mundi.effect(two["effect"], world="asking"), lambda found: found["stage"] == "answered")
    assert ended["receipt"] and ended["receipt"]["status"] == "error"


def test_a_worker_carries_effects_out_retries_fails_for_good_and_stops_gracefully(server: Server, mundi: Mundi) -> None:
    world = mundi.create("works", program="kv")
    attempts: dict[int, int] = {}
    now: list[int] = []

    def carry_out(task):  # type: ignore[no-untyped-def]
        params = task["params"]
        now.append(params["n"])
        time.sleep(0.1)
        attempts[params["n"]] = task["attempt"]
        now.remove(params["n"])
        if params.get("final"):
            raise FinalError("never")
        if params.get("type"):
            raise LookupError("a class that is final here")
        if task["attempt"] < params.get("after", 1):
            raise RetryError("not yet", 10)
        return {"doubled": params["n"] * 2}

    worker = mundi.worker({"external.task": carry_out}, concurrency=3, ttl_s=3, final=[LookupError], adapter="python")
    running = threading.Thread(target=worker.run)
    running.start()

    def ask(n: int, **more: object) -> None:
        world.call("ask", {"key": f"k{n}", "kind": "external.task", "params": {"n": n, **more}})

    def got(n: int) -> object:
        return until(lambda: world.query("get", f"k{n}"))

    ask(1), ask(2), ask(3), ask(4, after=2), ask(5, final=True), ask(6, type=True)
    assert [got(n) for n in (1, 2, 3, 4)] == [{"doubled": n * 2} for n in (1, 2, 3, 4)]
    got(5), got(6)
    assert (attempts[4], attempts[5], attempts[6]) == (2, 1, 1)

    # The server is killed while an effect is carried out: the claim is kept, and the answer arrives.
    ask(7)
    until(lambda: all(effect["stage"] == "claimed" for effect in mundi.effects(world="works")))
    server.kill()
    server.start()
    assert got(7) == {"doubled": 14}

    ask(8)
    until(lambda: now)
    worker.stop()
    running.join(60)
    assert not running.is_alive()
    assert got(8) == {"doubled": 16}, "what was begun is answered"


def test_a_worker_keeps_a_claim_by_heartbeats_and_learns_that_an_operator_answered(mundi: Mundi) -> None:
    world = mundi.create("long", program="kv")
    started: list[int] = []
    withdrawn = threading.Event()

    def carry_out(task):  # type: ignore[no-untyped-def]
        started.append(task["attempt"])
        if task["params"]["n"] == 2:
            until(lambda: worker.is_withdrawn(task))
            withdrawn.set()
            return "too late"
        time.sleep(3.5)
        return "kept"

    worker = mundi.worker({"external.task": carry_out}, ttl_s=1.5, wait_s=0.5)
    running = threading.Thread(target=worker.run)
    running.start()
    world.call("ask", {"key": "k", "kind": "external.task", "params": {"n": 1}})
    assert until(lambda: world.query("get", "k")) == "kept"
    assert started == [1], "nobody else got it meanwhile"
    world.call("ask", {"key": "k2", "kind": "external.task", "params": {"n": 2}})
    until(lambda: len(started) == 2)
    [open_effect] = mundi.effects(world="long")
    mundi.answer_effect(open_effect["effect"], status="ok", payload="by hand")
    assert withdrawn.wait(60)
    worker.stop()
    running.join(60)
    assert world.query("get", "k2") == "by hand"


def test_dead_letters_are_listed_replayed_and_dropped(mundi: Mundi) -> None:
    world = mundi.create("gone", program="counter")
    for key in ("one", "two"):
        world.send("add", 1, delay="2s", key=key)
    world.delete()
    letters = until(lambda: list(mundi.dead_letters()), lambda found: len(found) >= 2)
    name = letters[0]["letter"]
    assert mundi.dead_letter(name)["letter"] == name
    replayed = mundi.replay_dead_letters(letters=[name])
    assert replayed["done"] + len(replayed["refused"]) == 1
    found = [letter["letter"] for letter in mundi.dead_letters()]
    assert mundi.drop_dead_letters(letters=found)["done"] == len(found)


def test_pools(mundi: Mundi) -> None:
    pool = mundi.create_pool("browsers")
    pool.create_resources([{"resource": "chrome-1", "labels": ["chrome"]}])
    lease = pool.reserve(label="chrome", holder="me", ttl_slots=100)
    with pytest.raises(MundiError) as busy:
        pool.reserve(label="chrome", holder="you", ttl_slots=100)
    assert busy.value.problem["result"] == "resource_busy"
    token = {"lease_id": lease["lease_id"], "lease_epoch": lease["lease_epoch"], "holder": "me"}
    assert pool.activate(**token)["result"] == "ok"
    assert pool.release(**token)["result"] == "ok"
    assert mundi.pools()[0]["pool"] == "browsers"
