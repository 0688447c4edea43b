"""Durable functions: what they may do, what is on record, and what is refused."""

import random
import time
import unittest
from datetime import date, datetime, timedelta, timezone
from typing import Any

from mundi import Budget, Ctx, Durable, EffectError, FunctionCancelled, FunctionError, Message, Named, Timer, cbor, durable, durable_program, function_status
from mundi.testing import Refused
from mundi.testing_functions import DurableWorld, for_each_crash

KINDS = ["payment.refund", "stock.reserve", "fraud.check", "world.call", "fabric.send", "world.spawn", "http.request", "child.spawn"]
OFFER: dict[str, Any] = {
    "events": {"order": True, "approve": True, "note": True, "other": True},
    "effects": {"payment.charge": {"params": {"type": "object", "required": ["cents"]}}, **{kind: {} for kind in KINDS}},
    "queries": {"any": True},
}


def made(code: Any, handlers: Any = None) -> DurableWorld:
    return DurableWorld(durable_program(Durable("order", code), handlers=handlers), OFFER)


@durable
async def order(ctx: Ctx, order: Any) -> Any:
    charge = await ctx.effect("payment.charge", {"cents": order["cents"]}, retry=2, timeout="30s")
    stock, fraud = await ctx.all([ctx.effect("stock.reserve", order), ctx.effect("fraud.check", order)])
    approval = await ctx.race([ctx.event("approve"), ctx.sleep("1h")])
    if approval is None:
        await ctx.effect("payment.refund", charge)
        return {"state": "expired"}
    await ctx.call("warehouse", "ship", order)
    return {"state": "placed", "stock": stock, "fraud": fraud, "by": approval}


def placed(world: DurableWorld) -> None:
    world.run("order", {"cents": 800})
    world.answer("payment.charge", "c-1")
    world.answer("fraud.check", "fine")
    world.answer("stock.reserve", 2)
    world.event("approve", {"by": "ann"})
    world.answer("world.call", "shipped")


class Functions(unittest.TestCase):
    def refused(self, code: str, run: Any) -> None:
        with self.assertRaises((FunctionError, Refused)) as raised:
            run()
        self.assertEqual(raised.exception.code, code)

    def test_answers_in_any_order_an_approval_and_a_call(self) -> None:
        world = DurableWorld(durable_program(order), OFFER)
        placed(world)
        instance = world.instance("order")
        self.assertEqual(instance.result, {"state": "placed", "stock": 2, "fraud": "fine", "by": {"by": "ann"}})
        asks = ["effect payment.charge", "effect stock.reserve", "effect fraud.check", "event approve", "timer sleep"]
        self.assertEqual(instance.asks, [*asks, "effect world.call"])
        self.assertEqual((world.open, world.timers), ([], []), "the sleep that lost is withdrawn")

    def test_an_await_ends_with_a_result_that_is_given_in_place_of_what_it_waits_for(self) -> None:
        world = DurableWorld(durable_program(order), OFFER)
        placed(world)
        fork = world.fork_at_await(3, "order")
        fork.resolve(3, "a thief", "order")
        self.assertEqual(fork.instance("order").waits, [(2, "effect", "stock.reserve")])
        self.assertEqual(fork.open, ["$fn/order/test/0.2"], "what it waited for is withdrawn")
        self.refused("FUNCTION_NOT_FOUND", lambda: fork.resolve(3, 1, "order"))
        fork.answer("stock.reserve", 2)
        slept = fork.fork()
        slept.resolve(5, None, "order")
        self.assertEqual((slept.instance("order").waits, slept.timers), ([(6, "effect", "payment.refund")], []))
        slept.reject(6, "CARD", "refused", "order")
        self.assertEqual(slept.instance("order").error["code"], "CARD")
        self.refused("FUNCTION_NOT_FOUND", lambda: slept.resolve(6, 1, "order"))
        fork.resolve(4, {"by": "bob"}, "order")
        self.assertEqual(fork.event("approve", 1).reply, {"taken_by": []})
        fork.answer("world.call", "shipped")
        expected = {"state": "placed", "stock": 2, "fraud": "a thief", "by": {"by": "bob"}}
        self.assertEqual(fork.instance("order").result, expected)

    def test_a_child_gives_its_result_and_ends_with_the_wait_for_it(self) -> None:
        async def parent(ctx: Ctx, topic: str) -> Any:
            first = await ctx.child("agent", {"prompt": topic}, budget=Budget(tokens=50))
            scope = ctx.scope()
            second = scope.child("external", first["result"])
            if await ctx.signal("approve"):
                scope.cancel()
            try:
                return (await second)["result"]
            except FunctionCancelled:
                return first["spent"]

        world = made(parent)
        world.run("order", "tea")
        passed = {"outcome": "passed", "result": "leaves", "spent": {"tokens": 7}, "child_id": "c_1"}
        asked = world.answer("child.spawn", passed).intents[0]
        self.assertEqual(asked["params"], {"kind": "external", "params": "leaves"})
        world.step(Message("child.started", cbor.encode({}), {"label": asked["label"]}))
        failed = world.fork()
        failed.event("approve", False, "test")
        failed.fail_effect("child.spawn", "URM_CHILD_FAILED", "no such page")
        self.assertEqual(failed.instance("order").error["code"], "URM_CHILD_FAILED")
        step = world.event("approve", True, "test")
        self.assertIn(asked["label"], step.cancelled, "the end of the scope cancels the child")
        self.assertEqual(world.instance("order").result, {"tokens": 7})

    def test_what_an_instance_keeps_is_bounded(self) -> None:
        async def large(ctx: Ctx, size: int) -> Any:
            await ctx.signal("approve")
            if size > 1000:
                return ctx.continue_as("x" * size)
            ctx.status("x" * (size << 10))
            return await ctx.signal("note")

        for size, code in ((600 << 10, "FUNCTION_INPUT_TOO_LARGE"), (65, "FUNCTION_RESULT_TOO_LARGE")):
            world = made(large)
            world.run("order", size)
            for _ in range(2):
                world.event("note", "x" * (100 << 10), "test")
            self.refused("FUNCTION_SIGNALS_FULL", lambda world=world: world.event("note", "x" * (100 << 10), "test"))
            world.event("approve", 1, "test")
            self.assertEqual(world.instance("order").error["code"], code)

        async def crowd(ctx: Ctx, _: Any) -> Any:
            return await ctx.all([ctx.event("approve") for _ in range(501)])

        world = made(crowd)
        for key in ("a", "b"):
            world.run("order", None, key=key)
        self.refused("FUNCTIONS_FULL", lambda: world.event("approve"))

    def test_an_hour_passes_without_approval(self) -> None:
        world = DurableWorld(durable_program(order), OFFER)
        world.run("order", {"cents": 800})
        world.answer("payment.charge", "c-1")
        world.answer("stock.reserve", 2)
        world.answer("fraud.check")
        self.assertEqual(world.instance("order").waits, [(4, "event", "approve"), (5, "timer", "sleep")])
        world.skip("59m")
        self.assertEqual(world.instance("order").state, "running")
        world.skip("1m")
        self.assertEqual(world.event("approve", 1).reply, {"taken_by": []}, "nobody waits for it any more")
        world.answer("payment.refund")
        self.assertEqual(world.instance("order").result, {"state": "expired"})

    def test_two_branches_see_their_results_in_the_order_in_which_those_came(self) -> None:
        async def branch(ctx: Ctx, first: str, then: str) -> Any:
            return [await ctx.effect(first, 1), await ctx.effect(then, 2), await ctx.sleep("1s")]

        async def code(ctx: Ctx, _: Any) -> Any:
            both = [branch(ctx, "stock.reserve", "payment.refund"), branch(ctx, "fraud.check", "world.call")]
            return await ctx.all(both)

        world = made(code)
        world.run("order")
        world.answer("fraud.check", "f")
        world.answer("stock.reserve", "s")
        self.assertEqual(world.instance("order").asks[2:], ["effect world.call", "effect payment.refund"])
        world.answer("payment.refund", "r")
        world.answer("world.call", "c")
        world.skip("1s")
        self.assertEqual(world.instance("order").result, [["s", "r", None], ["f", "c", None]])

    def test_a_crash_in_every_step_changes_nothing(self) -> None:
        self.assertEqual(for_each_crash(lambda: DurableWorld(durable_program(order), OFFER), placed), 6)

    def test_a_fork_at_every_await_goes_another_way(self) -> None:
        world = DurableWorld(durable_program(order), OFFER)
        placed(world)
        for number in (1, 2, 3, 4, 6):
            fork = world.fork_at_await(number, "order")
            self.assertEqual(fork.instance("order").state, "running", number)
            fork.cancel("order")
            self.assertEqual(fork.instance("order").state, "cancelled")
        late = world.fork_at_await(4, "order")
        late.skip("1h")
        self.assertEqual(late.instance("order").waits, [(6, "effect", "payment.refund")])
        again = world.fork_at_await(6, "order")
        again.fail_effect("world.call", "CALL_TIMEOUT", "nobody is there")
        self.assertEqual(again.instance("order").error["code"], "CALL_TIMEOUT")
        self.assertEqual(world.instance("order").state, "done")

    def test_a_call_is_answered_when_the_function_ends_and_its_key_finds_it_again(self) -> None:
        async def code(ctx: Ctx, cents: int) -> Any:
            return await ctx.effect("payment.charge", {"cents": cents}) + 1

        world = made(code)
        self.assertFalse(world.step(Named("order", 1, "a")).replied)
        self.assertEqual(world.step(Named("order", 1, "a")).intents, [], "the same call begins nothing new")
        self.assertEqual(list(world.answer("payment.charge", 41).replies.values()), [42, 42])
        self.assertEqual(world.step(Named("order", 1, "a")).reply, 42)
        self.refused("FUNCTION_KEY_REUSED", lambda: world.step(Named("order", 2, "a")))
        self.refused("FUNCTION_KEY_INVALID", lambda: world.step(Named("order", 2, "a/b")))

    def test_an_effect_is_tried_again_and_its_attempts_are_counted(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            try:
                await ctx.effect("payment.charge", {"cents": 1}, retry=2)
            except EffectError as error:
                return [error.code, error.attempts]

        world = made(code)
        world.run("order")
        for wait in ("1s", "2s"):
            world.fail_effect("payment.charge", "CARD", "refused")
            self.assertEqual(world.open, [])
            world.skip(wait)
        world.fail_effect("payment.charge", "CARD", "refused")
        self.assertEqual(world.instance("order").result, ["CARD", 3])

    def test_an_error_that_another_attempt_does_not_mend_ends_the_retries(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            return await ctx.effect("payment.charge", {"cents": 1}, retry=5)

        world = made(code)
        world.run("order")
        world.fail_effect("payment.charge", "EFFECT_DENIED", "no")
        error = {"code": "EFFECT_DENIED", "message": "payment.charge: EFFECT_DENIED: no", "await": 1}
        self.assertEqual(world.instance("order").error, error)

    def test_a_timeout_withdraws_the_effect(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            return await ctx.effect("payment.charge", {"cents": 1}, timeout="30s")

        world = made(code)
        world.run("order")
        world.skip("30s")
        self.assertEqual((world.open, world.instance("order").error["code"]), ([], "EFFECT_TIMEOUT"))

    def test_an_uncaught_error_ends_the_instance_with_its_message_and_await(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            await ctx.effect("payment.charge", {"cents": 1})
            raise ValueError("no luck")

        world = made(code)
        world.run("order")
        step = world.answer("payment.charge")
        error = {"code": "FUNCTION_FAILED", "message": "no luck", "await": 1}
        self.assertEqual(world.instance("order").error, error)
        heard = {"$function_failed": {"instance": "order/test", "state": "failed", **error}}
        self.assertEqual(list(step.replies.values()), [heard])

    def test_cancellation_reaches_what_waits_and_shielded_cleanup_is_carried_out(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            charge = await ctx.effect("payment.charge", {"cents": 1})
            try:
                await ctx.sleep("1d")
            except FunctionCancelled:
                with self.assertRaises(FunctionCancelled):
                    await ctx.sleep(1)

                async def cleanup(ctx: Ctx) -> None:
                    await ctx.effect("payment.refund", charge)
                    await ctx.sleep("1s")

                await ctx.shield(cleanup)
                raise

        world = made(code)
        world.run("order")
        world.answer("payment.charge", 7)
        world.cancel("order", reason="the customer said so")
        self.assertEqual(world.timers, [])
        world.answer("payment.refund")
        world.skip("1s")
        instance = world.instance("order")
        self.assertEqual((instance.state, instance.error["message"]), ("cancelled", "the customer said so"))
        self.assertEqual(world.cancel("order").reply["state"], "cancelled", "a second time does no harm")

    def test_a_scope_is_cancelled_for_itself(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            inner = ctx.scope()
            work = inner.effect("stock.reserve")
            await ctx.effect("payment.charge", {"cents": 1})
            inner.cancel()
            try:
                await work
            except FunctionCancelled as error:
                return [error.code, await ctx.effect("fraud.check")]

        world = made(code)
        world.run("order")
        self.assertEqual(world.answer("payment.charge").cancelled, ["$fn/order/test/0.1"])
        world.answer("fraud.check", "fine")
        self.assertEqual(world.instance("order").result, ["FUNCTION_CANCELLED", "fine"])

    def test_a_paused_instance_keeps_its_results_and_goes_on_with_them_later(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            return [await ctx.effect("payment.charge", {"cents": 1}), await ctx.effect("fraud.check", 2)]

        world = made(code)
        world.run("order")
        world.pause("order")
        world.answer("payment.charge", "c")
        self.assertEqual(world.open, [])
        world.resume("order")
        world.answer("fraud.check", "f")
        self.assertEqual(world.instance("order").result, ["c", "f"])

    def test_at_most_so_many_at_a_time(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            limit = ctx.limit(2)
            return await ctx.all(limit(lambda n=n: ctx.effect("stock.reserve", n)) for n in range(5))

        world = made(code)
        world.run("order")
        for value in "abcde":
            self.assertIn(len(world.open), (1, 2))
            world.answer("stock.reserve", value)
        self.assertEqual(world.instance("order").result, list("abcde"))

    def test_events_with_a_key_wait_for_the_instance_that_has_it(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            await ctx.sleep("1m")
            return [await ctx.signal("note"), await ctx.event("approve", {"order": ctx.key}), ctx.now]

        world = made(code)
        world.run("order", key="a")
        world.run("order", key="b")
        self.assertEqual(world.event("note", "early", "a").reply, {"taken_by": ["order/a"]})
        world.skip("1m")
        self.assertEqual(world.instance("order", "a").waits, [(3, "event", "approve")])
        self.assertEqual(world.instance("order", "b").waits, [(2, "signal", "note")])
        self.assertEqual(world.event("approve", {"order": "z"}).reply, {"taken_by": []})
        world.event("approve", {"order": "a", "by": "x"})
        self.assertEqual(world.instance("order", "a").result, ["early", {"order": "a", "by": "x"}, 61_000])

    def test_handlers_and_functions_share_a_program_and_its_cells(self) -> None:
        class Handlers:
            def handle(self, world: Any, event: Any) -> None:
                if isinstance(event.cause, Named):
                    world.put("count", world.get("count", 0) + 1)
                    world.reply(event.seq, world.get("count"))

            def query(self, world: Any, name: str, params: Any) -> Any:
                return world.get("count")

        async def code(ctx: Ctx, _: Any) -> Any:
            seen = ctx.get("count", 0)
            ctx.put("count", seen + 10)
            await ctx.sleep("1s")
            return [seen, ctx.get("count")]

        world = made(code, Handlers())
        world.event("note")
        world.run("order")
        self.assertEqual(world.event("note").reply, 12)
        world.skip("1s")
        self.assertEqual(world.instance("order").result, [1, 12], "what was read stays read, and nothing is written twice")
        self.assertEqual(world.query("any"), 12)

    def test_an_event_that_an_instance_takes_is_not_for_handlers_and_its_status_is_read_by_queries(self) -> None:
        class Handlers:
            def handle(self, world: Any, event: Any) -> None:
                world.put("handled", True)

            def query(self, world: Any, name: str, params: Any) -> Any:
                return function_status(world, "order", params)

        async def code(ctx: Ctx, _: Any) -> Any:
            ctx.status("waits")
            return await ctx.event("approve")

        world = made(code, Handlers())
        world.run("order")
        self.assertEqual([world.query("any", "test"), world.query("any", "other")], ["waits", None])
        world.event("approve")
        self.assertIsNone(world.cell("handled"))
        world.event("approve")
        self.assertTrue(world.cell("handled"), "nobody waits for it any more")

    def test_every_attempt_of_an_await_has_the_same_key(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            await ctx.effect("payment.charge", {"cents": 8}, retry=2, key_in="once")
            await ctx.effect("stock.reserve", {"once": "mine"}, key_in="once")
            return await ctx.effect("http.request", {"url": "http://a"}, retry=1)

        world = made(code)
        params = world.event("order", None, "test").intents[0]["params"]
        self.assertEqual(params["once"].split("/")[1:4], ["order", "test", "0.1"])
        world.fail_effect("payment.charge", "BUSY", "the answer was lost")
        retried = world.fire("$fn/order/test/0.1/retry").intents[0]["params"]
        self.assertEqual(retried, params, "those of the first attempt")
        self.assertEqual(world.answer("payment.charge").intents[0]["params"]["once"], "mine")
        third = world.answer("stock.reserve").intents[0]["params"]
        self.assertIn("/order/test/0.3/", third["headers"]["idempotency-key"])

    def test_a_branch_that_loses_a_race_is_withdrawn(self) -> None:
        async def slow(ctx: Ctx) -> Any:
            await ctx.effect("stock.reserve", 1)
            return await ctx.effect("fraud.check", 2)

        async def code(ctx: Ctx, _: Any) -> Any:
            first = await ctx.race([slow, ctx.sleep("1h")])
            return [first or "late", await ctx.effect("payment.refund")]

        world = made(code)
        world.run("order")
        world.answer("stock.reserve")
        quick = world.fork()
        quick.answer("fraud.check", "fine")
        self.assertEqual((quick.instance("order").waits, quick.timers), ([(4, "effect", "payment.refund")], []))
        world.skip("1h")
        self.assertEqual((world.instance("order").waits, world.open), ([(4, "effect", "payment.refund")], ["$fn/order/test/0.4"]))
        world.answer("payment.refund", 7)
        self.assertEqual(world.instance("order").result, ["late", 7])

    def test_the_clock_of_datetime_is_the_instances(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            first = [datetime.now().timestamp(), datetime.now(timezone.utc).timestamp(), date.today().isoformat()]
            await ctx.sleep("1s")
            is_one = isinstance(datetime.now() + timedelta(1), datetime) and isinstance(datetime.now(), date)
            return [first, ctx.now, datetime.now(timezone.utc).timestamp() - first[1], is_one]

        real = datetime
        world = made(code)
        world.run("order")
        world.skip("1s")
        first, now, passed, is_one = world.instance("order").result
        self.assertEqual((first[1:], now, passed, is_one), ([1.0, "1970-01-01"], 2000, 1.0, True))
        self.assertIs(datetime, real, "the module is as it was")

    def test_time_and_randomness_are_the_instances(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            first = [ctx.now, time.time(), random.random(), ctx.random()]
            await ctx.sleep("1s")
            return [first, ctx.now - first[0], time.time() - first[1], random.random()]

        world = made(code)
        world.run("order")
        fork = world.fork()
        world.skip("1s")
        random.random()
        fork.skip("1s")
        result = world.instance("order").result
        self.assertEqual(fork.instance("order").result, result)
        self.assertEqual((result[0][:2], result[1:3]), ([1000, 1.0], [1000, 1.0]))

    def test_a_function_starts_over_with_a_short_log(self) -> None:
        async def code(ctx: Ctx, n: int) -> Any:
            await ctx.sleep("1s")
            return "done" if n == 0 else ctx.continue_as(n - 1)

        world = made(code)
        world.run("order", 3)
        world.skip("10s")
        instance = world.instance("order")
        self.assertEqual((instance.result, instance.asks), ("done", ["timer sleep"]))

    def test_what_is_let_go_is_not_withdrawn_at_the_end(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            ctx.detach(ctx.send("audit", "note", 1))
            return "sent"

        world = made(code)
        world.run("order")
        self.assertEqual((world.instance("order").result, len(world.open)), ("sent", 1))
        world.answer("fabric.send", {"status": "ok", "message_id": "h", "dest_world": "audit", "enqueued_seq": None})

    def test_a_spawned_worlds_id_is_known_when_it_is_there(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            return (await ctx.spawn("todo", ("add", 1))).world

        world = made(code)
        world.run("order")
        world.answer("world.spawn", {"status": "ok", "world": "w_00000000000000000000000007"})
        self.assertEqual(world.instance("order").result, "w_00000000000000000000000007")

    def test_a_status_and_log_lines(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            ctx.log("began")
            ctx.status({"step": 1})
            await ctx.sleep("1s")
            ctx.log("slept")
            await ctx.sleep("1s")

        world = made(code)
        step = world.step(Named("order", None, "test"))
        self.assertEqual((step.logs, world.instance("order").status), (["order/test: began"], {"step": 1}))
        self.assertEqual(world.step(Timer("$fn/order/test/0.1", None)).logs, ["order/test: slept"])

    def test_other_code_diverges_says_how_and_goes_on_when_it_is_mended(self) -> None:
        async def first(ctx: Ctx, _: Any) -> Any:
            return [await ctx.effect("payment.charge", {"cents": 1}), await ctx.effect("fraud.check", 1)]

        async def other(ctx: Ctx, _: Any) -> Any:
            return [await ctx.effect("payment.charge", {"cents": 2})]

        async def another(ctx: Ctx, _: Any) -> Any:
            return [await ctx.effect("fraud.check", 1)]

        mended = durable_program(Durable("order", first))
        refused = durable_program(Durable("order", other))
        world = DurableWorld(mended, OFFER)
        world.run("order")
        with self.assertRaisesRegex(FunctionError, "order/test: await 1: on record is effect `payment.charge` .* asks for effect"):
            world.upgrade(refused)
        # A host that lets a program take over without asking it: kind and name are compared in every step.
        world._program = durable_program(Durable("order", another))
        world.answer("payment.charge", "c")
        instance = world.instance("order")
        self.assertEqual((instance.state, instance.error["code"], instance.error["await"]), ("diverged", "FUNCTION_DIVERGED", 1))
        world.upgrade(mended)
        self.assertEqual(world.instance("order").waits, [(2, "effect", "fraud.check")])
        world.answer("fraud.check", "f")
        self.assertEqual(world.instance("order").result, ["c", "f"])

    def test_code_that_asks_for_more_or_less_or_in_another_order_diverges(self) -> None:
        async def recorded(ctx: Ctx, _: Any) -> Any:
            await ctx.effect("payment.charge", {"cents": 1})
            return await ctx.effect("fraud.check", 1)

        async def nothing(ctx: Ctx, _: Any) -> Any:
            return 1

        async def less(ctx: Ctx, _: Any) -> Any:
            return await ctx.effect("payment.charge", {"cents": 1})

        async def swapped(ctx: Ctx, _: Any) -> Any:
            return [await ctx.effect("fraud.check", 1), await ctx.effect("payment.charge", {"cents": 1})]

        async def more(ctx: Ctx, _: Any) -> Any:
            await ctx.effect("payment.charge", {"cents": 1})
            return await ctx.all([ctx.effect("fraud.check", 1), ctx.effect("stock.reserve", 1)])

        ways = {nothing: "await 1: .*ends", less: "await 2: .*ends", swapped: "await 1: .*fraud", more: "await 3: on record is nothing"}
        for way, message in ways.items():
            world = made(recorded)
            world.run("order")
            world.answer("payment.charge")
            with self.assertRaisesRegex(FunctionError, message):
                world.upgrade(durable_program(Durable("order", way)))
            world.answer("fraud.check", "f")
            self.assertEqual(world.instance("order").result, "f", "the refused program left nothing behind")

    def test_both_ways_of_a_version_stay_in_the_code(self) -> None:
        async def old(ctx: Ctx, _: Any) -> Any:
            await ctx.sleep("1s")
            return await ctx.effect("fraud.check", 1)

        async def both(ctx: Ctx, _: Any) -> Any:
            await ctx.sleep("1s")
            if ctx.version("check", 1, 2) == 2:
                await ctx.effect("stock.reserve", 1)
            return await ctx.effect("fraud.check", 1)

        world = made(old)
        world.run("order", key="passed")
        world.skip("1s")
        world.run("order", key="before")
        world.upgrade(durable_program(Durable("order", both)))
        world.skip("1s")
        self.assertEqual(world.instance("order", "before").waits, [(3, "effect", "stock.reserve")])
        world.answer("fraud.check", "f")
        self.assertEqual(world.instance("order", "passed").result, "f")
        world.answer("stock.reserve")
        world.answer("fraud.check", "g")
        self.assertEqual(world.instance("order", "before").result, "g")

    def test_wrong_uses_have_a_code_and_say_what_to_write_instead(self) -> None:
        kept: list[Ctx] = []

        class Foreign:
            def __await__(self) -> Any:
                yield "something else"

        async def forgotten(ctx: Ctx, _: Any) -> None:
            ctx.effect("payment.charge", {"cents": 1})

        async def undeclared(ctx: Ctx, _: Any) -> None:
            await ctx.effect("mail", {})

        async def invalid(ctx: Ctx, _: Any) -> None:
            await ctx.effect("payment.charge", {})

        async def stuck(ctx: Ctx, _: Any) -> None:
            await Foreign()

        async def reserved(ctx: Ctx, _: Any) -> None:
            ctx.put("$fn/x", 1)

        async def soon(ctx: Ctx, _: Any) -> None:
            await ctx.sleep("soon")

        async def large(ctx: Ctx, _: Any) -> str:
            return "x" * 600_000

        async def long(ctx: Ctx, _: Any) -> None:
            for n in range(1001):
                ctx.put("n", n)

        cases = {
            forgotten: ("FUNCTION_AWAIT_MISSING", "await 1 .*write `await`"),
            undeclared: ("FUNCTION_EFFECT_UNDECLARED", "does not declare the effect `mail`"),
            invalid: ("OUTPUT_REFUSED", "does not satisfy its schema"),
            stuck: ("FUNCTION_STUCK", "never comes"),
            reserved: ("FUNCTION_CELL_RESERVED", "choose another key"),
            soon: ("FUNCTION_FAILED", "no duration"),
            large: ("FUNCTION_RESULT_TOO_LARGE", "bytes"),
            long: ("FUNCTION_LOG_FULL", "continue_as"),
        }
        for code, (expected, message) in cases.items():
            world = made(code)
            world.run("order")
            instance = world.instance("order")
            self.assertEqual((instance.state, instance.error["code"]), ("failed", expected))
            self.assertRegex(instance.error["message"], message)

        async def keeps(ctx: Ctx, _: Any) -> None:
            kept.append(ctx)

        made(keeps).run("order")
        self.refused("FUNCTION_CONTEXT_OVER", lambda: kept[0].sleep("1s"))

    def test_there_are_bounds_on_instances_and_signals(self) -> None:
        async def code(ctx: Ctx, _: Any) -> Any:
            return await ctx.signal("note")

        world = made(code)
        world.fork = lambda: world  # type: ignore[method-assign]  # copies of a thousand worlds are not needed here
        world._host.cells["$fn/m"] = b"\xa3\x64next\x00\x65ended\x00\x67running\x19\x03\xe7"
        world.run("order", 1, "a")
        self.refused("FUNCTIONS_FULL", lambda: world.run("order", 1, "more"))
        for n in range(100):
            world.event("approve", n, "a")
        self.refused("FUNCTION_SIGNALS_FULL", lambda: world.event("approve", 1, "a"))
        world.event("note", "x", "a")
        world.run("order", 1, "more")
        self.assertEqual(world.instance("order", "a").result, "x")


if __name__ == "__main__":
    unittest.main()
