"""A program that calls another one, and hears its reply."""

import unittest
from typing import Any

from mundi import EffectError, EffectTimedOut, Event, Failure, Named, Receipt, World, WorldCall, cbor
from mundi.testing import Refused, TestWorld


class Shop:
    """Asks `till` what an order costs, with all that can be said beside it."""

    def handle(self, world: World, event: Event) -> None:
        cause = event.cause
        if isinstance(cause, Named) and cause.schema == "wrong":
            world.call("till", "gift", None, "price")
        elif isinstance(cause, Named):
            said: dict[str, Any] = {"headers": {"tenant": "a"}, "correlation_id": "order 7", "timeout_ms": 5000}
            world.ask(WorldCall("till", "price", cause.value, **said), "price")
        elif isinstance(cause, Receipt):
            try:
                world.put("cents", cause.answer)
            except EffectError as error:
                world.put("failed", [error.code, error.failed_code, error.failed_at])

    def query(self, world: World, name: str, params: Any) -> Any:
        return None


class Till:
    """Knows one price, and who asks for it."""

    def handle(self, world: World, event: Event) -> None:
        assert isinstance(event.cause, Named) and event.origin.sender is not None
        world.put("asked", [event.origin.sender[0], event.origin.correlation_id, world.headers])
        if event.cause.value == "tea":
            world.reply(event.seq, 350)
        elif event.cause.value != "later":
            raise Failure(f"no `{event.cause.value}`")

    def query(self, world: World, name: str, params: Any) -> Any:
        return None


def worlds(order: str) -> tuple[TestWorld, TestWorld]:
    shop = TestWorld(Shop(), {"events": {"order": True, "wrong": True}, "effects": {"world.call": {}}})
    shop.send("order", order)
    return shop, TestWorld(Till(), {"events": {"price": {"type": "string"}}})


class Calls(unittest.TestCase):
    def test_the_reply_of_another_world_is_the_receipt_of_a_call(self) -> None:
        shop, till = worlds("tea")
        shop.answer_call("price", till)
        self.assertEqual(shop.cell("cents"), 350)
        self.assertEqual(till.cell("asked"), ["w_00000000000000000000000001", "order 7", {"tenant": "a"}])
        with self.assertRaises(Refused) as refused:
            shop.answer_call("price", till)
        self.assertEqual(refused.exception.code, "RECEIPT_UNKNOWN")

    def test_a_failed_step_at_the_other_world_and_an_event_that_it_does_not_take_are_errors(self) -> None:
        shop, till = worlds("coffee")
        shop.answer_call("price", till)
        self.assertEqual(shop.cell("failed"), ["CALL_FAILED", "PROGRAM_FAILED", 1])
        self.assertIsNone(till.cell("asked"), "a failed step leaves nothing")
        shop.send("wrong")
        shop.answer_call("price", till)
        self.assertEqual(shop.cell("failed"), ["EVENT_INVALID", None, None])

    def test_a_program_that_replies_later_is_answered_for(self) -> None:
        shop, till = worlds("later")
        with self.assertRaisesRegex(Failure, "did not reply"):
            shop.answer_call("price", till)
        shop.receipt("price", "ok", 7)
        self.assertEqual(shop.cell("cents"), 7)

    def test_a_reply_that_does_not_come_in_time_is_a_timeout(self) -> None:
        shop, _ = worlds("tea")
        shop.receipt("price", "timeout", {"code": "CALL_TIMEOUT", "reason": "no reply", "attempts": 1})
        self.assertEqual(shop.cell("failed")[0], "CALL_TIMEOUT")
        payload = {"code": "CALL_TIMEOUT", "reason": "no reply"}
        with self.assertRaises(EffectTimedOut):
            _ = Receipt("price", "world.call", "timeout", cbor.encode(payload)).answer


if __name__ == "__main__":
    unittest.main()
