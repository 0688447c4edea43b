"""The asynchronous client against a real server, which is killed in between."""

import asyncio

import pytest
from mundi_client import AsyncMundi, FinalError, MundiError, RetryError
from server import Server


async def until(ask, is_wanted=bool):  # type: ignore[no-untyped-def]
    async with asyncio.timeout(60):
        while not is_wanted(found := await ask()):
            await asyncio.sleep(0.05)
        return found


def test_the_same_shape_with_await(server: Server) -> None:
    async def work() -> None:
        async with AsyncMundi(server.url) as mundi:
            alice = await mundi.create("async-alice", program="counter")
            assert await alice.call("add", 2) == 2
            assert [world["name"] async for world in mundi.list(program="counter")] == ["async-alice"]
            with pytest.raises(MundiError, match="WORLD_NOT_FOUND"):
                await mundi.world("nobody").get()
            bob = await alice.fork("async-bob")
            await bob.call("add", 1)
            assert len(await alice.diff("async-bob")) == 1
            chunks = [chunk async for chunk in alice.export_chunks()]
            imported = await mundi.import_bundle(b"".join(chunks), world="async-copy")
            assert imported["proof"]["records"] > 0

    asyncio.run(work())


def test_calls_and_a_followed_journal_survive_kill_9(server: Server) -> None:
    async def work() -> None:
        async with AsyncMundi(server.url) as mundi:
            world = await mundi.create("async-storm", program="counter")
            seen: list[int] = []

            async def follow() -> None:
                async for record in world.journal(follow=True):
                    seen.append(record["height"])
                    if record.get("input", {}).get("value") == 99:
                        return

            async def calls() -> None:
                for _ in range(25):
                    await world.call("add", 1)

            following = asyncio.create_task(follow())
            calling = [asyncio.create_task(calls()) for _ in range(4)]
            await asyncio.sleep(0.15)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await asyncio.gather(*calling)
            assert await world.call("add", 99) == 199
            await asyncio.wait_for(following, 60)
            assert seen == list(range(len(seen))), "none is missing, none comes twice"

    asyncio.run(work())


def test_a_worker(server: Server) -> None:
    async def work() -> None:
        async with AsyncMundi(server.url) as mundi:
            world = await mundi.create("async-works", program="kv")
            cancelled: list[int] = []

            async def carry_out(task):  # type: ignore[no-untyped-def]
                params = task["params"]
                if params.get("forever"):
                    try:
                        await asyncio.sleep(3600)
                    except asyncio.CancelledError:
                        cancelled.append(params["n"])
                        raise
                if params.get("final"):
                    raise FinalError("never")
                if task["attempt"] < params.get("after", 1):
                    raise RetryError("not yet", 10)
                await asyncio.sleep(params.get("sleep", 0))
                return {"doubled": params["n"] * 2}

            async def ask(n: int, **more: object) -> None:
                await world.call("ask", {"key": f"k{n}", "kind": "external.task", "params": {"n": n, **more}})

            async def got(n: int) -> object:
                return await until(lambda: world.query("get", f"k{n}"))

            worker = mundi.worker({"external.task": carry_out}, concurrency=4, ttl_s=1.5, wait_s=1)
            running = asyncio.create_task(worker.run())
            await ask(1), await ask(2, after=2), await ask(3, final=True)
            assert [await got(1), await got(2)] == [{"doubled": 2}, {"doubled": 4}]
            await got(3)

            # Longer than its ttl, and the server is killed meanwhile.
            await ask(4, sleep=2.5)
            await until(lambda: stages(mundi), lambda found: found == ["claimed"])
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            assert await got(4) == {"doubled": 8}

            # An operator answers meanwhile: the handler is cancelled.
            await ask(5, forever=True)
            await until(lambda: stages(mundi), lambda found: found == ["claimed"])
            [effect] = [effect async for effect in mundi.effects(world="async-works")]
            await mundi.answer_effect(effect["effect"], status="ok", payload="by hand")
            await until(lambda: asyncio.sleep(0, cancelled))
            assert await got(5) == "by hand"

            worker.stop()
            await asyncio.wait_for(running, 60)

    async def stages(mundi: AsyncMundi) -> list[str]:
        return [effect["stage"] async for effect in mundi.effects(world="async-works")]

    asyncio.run(work())
