import json
import unittest
from pathlib import Path

import mundi
from mundi import EffectError, Failure, HttpRequest, HttpResponse, Named, Origin, Receipt, SendOptions, Timer, cbor
from mundi.testing import Refused, Sending, TestWorld

VECTORS = Path(__file__).resolve().parents[2] / "vectors.json"


OFFER = {
    "events": {"go": True},
    "effects": {"ask": {}, "http.request": {}, "fabric.send": {"message_ids": True}},
    "queries": {"any": True, "write": True, "draw": True},
}


def with_bytes(value):
    """Bytes are written as their hex digits in the shared file."""
    if isinstance(value, list):
        return [with_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$bytes" in value:
        return bytes.fromhex(value["$bytes"])
    return {name: with_bytes(item) for name, item in value.items()}


class Codec(unittest.TestCase):
    def test_the_shared_vectors_hold(self) -> None:
        for value, expected in json.loads(VECTORS.read_text()):
            value = with_bytes(value)
            self.assertEqual(cbor.encode(value).hex(), expected, value)
            self.assertEqual(cbor.decode(bytes.fromhex(expected)), value)

    def test_broken_bytes_are_refused(self) -> None:
        for bad in ["", "18", "9bffffffffffffffff", "61ff", "0000", "a10101", "81" * 1000 + "00"]:
            with self.assertRaises((ValueError, UnicodeDecodeError), msg=bad):
                cbor.decode(bytes.fromhex(bad))


class Asks:
    def handle(self, world, event):
        if isinstance(event.cause, Receipt):
            world.put("answer", event.cause.value)
        elif isinstance(event.cause, Timer):
            world.put("fired", event.cause.payload)
        elif event.cause.value == "fail":
            world.put("lost", 1)
            raise Failure("as it was told")
        else:
            world.emit("ask", event.cause.value, "label")
            world.set_timer("timer", world.now_ns + 5, {"n": 1})

    def query(self, world, name, params):
        if name == "write":
            world.put("lost", 1)
        if name == "draw":
            return world.random()
        return world.get("answer")


UNIVERSE, MESSAGE = "u_00000000000000000000000002", "h_" + "0" * 64


class Relays:
    def handle(self, world, event):
        options = SendOptions(UNIVERSE, event.origin.correlation_id, world.headers, MESSAGE)
        world.send_event("bob", "on", 7, "on", options)
        world.send_message("bob", "mail", b"hi", {"own": "b"}, "mail", options)


class Sends(unittest.TestCase):
    def test_a_program_sets_and_hears_correlation_headers_universe_and_message_id(self) -> None:
        origin, headers = Origin(correlation_id="order 7"), {"tenant": "a"}
        step = TestWorld(Relays(), OFFER).step(Named("go", None), origin, headers)
        said = (UNIVERSE, "order 7", MESSAGE)
        event = Sending("on", "bob", 7, "on", None, headers, *said)
        message = Sending("mail", "bob", b"hi", None, "mail", {"own": "b", "tenant": "a"}, *said)
        self.assertEqual(step.sent, [event, message])
        self.assertEqual(step.intents[0]["params"]["dest_world"], "bob")


class Fetches:
    def handle(self, world, event):
        if not isinstance(event.cause, Receipt):
            world.ask(HttpRequest("http://a", body="x"), "h")
            return
        try:
            answer = event.cause.answer
            world.put("read", [answer.status, answer.ok, answer.text(), answer.json(), answer.bytes()])
        except EffectError as error:
            world.put("failed", error.code)


class Kinds(unittest.TestCase):
    def test_the_answer_of_a_server_is_read_and_one_that_no_server_gives_is_refused(self) -> None:
        world = TestWorld(Fetches(), OFFER)
        world.send("go")
        with self.assertRaises(Refused) as refused:
            world.receipt("h", "ok", {"status": 200, "headers": {}, "body": "text"})
        self.assertEqual(refused.exception.code, "RECEIPT_INVALID")
        world.receipt("h", "ok", HttpResponse(200, {}, b'{"n":1}'))
        self.assertEqual(world.cell("read"), [200, True, '{"n":1}', {"n": 1}, b'{"n":1}'])
        world.send("go")
        world.fail("h", "EFFECT_DENIED", "no")
        self.assertEqual(world.cell("failed"), "EFFECT_DENIED")


class Errors(unittest.TestCase):
    def test_a_program_tells_apart_why_an_effect_was_not_carried_out(self) -> None:
        classes = {
            "EFFECT_CANCELLED": mundi.EffectCancelled,
            "EFFECT_SANDBOXED": mundi.EffectSandboxed,
            "EFFECT_NOT_RECORDED": mundi.EffectNotRecorded,
            "EFFECT_DENIED": mundi.EffectDenied,
            "UNIVERSE_DENIED": mundi.EffectDenied,
            "EFFECT_TIMEOUT": mundi.EffectTimedOut,
            "EFFECT_CLAIM_EXPIRED": mundi.EffectTimedOut,
            "CARD_DECLINED": EffectError,
        }
        for code, expected in classes.items():
            receipt = Receipt("h", "http.request", "error", cbor.encode({"code": code, "reason": "no", "attempts": 2}))
            with self.assertRaises(EffectError) as raised:
                receipt.answer
            self.assertIs(type(raised.exception), expected, code)
            self.assertEqual((raised.exception.code, raised.exception.attempts), (code, 2))


class Worlds(unittest.TestCase):
    def test_effects_and_timers_come_back_as_steps(self) -> None:
        world = TestWorld(Asks(), OFFER)
        step = world.send("go", {"x": 1})
        self.assertEqual(step.intents, [{"kind": "ask", "label": "label", "params": {"x": 1}}])
        world.receipt("label", "ok", [1, 2])
        world.fire("timer")
        self.assertEqual((world.cell("answer"), world.cell("fired")), ([1, 2], {"n": 1}))
        self.assertEqual((world.open, world.timers), ([], []))
        with self.assertRaises(Refused):
            world.receipt("label", "ok")

    def test_a_step_that_fails_leaves_nothing(self) -> None:
        world = TestWorld(Asks(), OFFER)
        with self.assertRaises(Failure):
            world.send("go", "fail")
        self.assertEqual(world.cells, {})

    def test_a_query_reads_and_is_refused_what_changes_the_world(self) -> None:
        world = TestWorld(Asks(), OFFER)
        world.send("go")
        world.receipt("label", "ok", 7)
        self.assertEqual(world.query("any"), 7)
        for name, call in [("write", "put"), ("draw", "random")]:
            with self.assertRaisesRegex(Refused, f"`{call}` was called in a query"):
                world.query(name)
        self.assertEqual(list(world.cells), ["answer"])


if __name__ == "__main__":
    unittest.main()
