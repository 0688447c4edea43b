import json
import unittest
from pathlib import Path

from mundi import Failure, Named, Origin, Receipt, SendOptions, Timer, cbor
from mundi.testing import TestWorld

VECTORS = Path(__file__).resolve().parents[2] / "vectors.json"


class Codec(unittest.TestCase):
    def test_the_shared_vectors_hold(self) -> None:
        for value, expected in json.loads(VECTORS.read_text()):
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


class Relays:
    def handle(self, world, event):
        options = SendOptions("u_2", event.origin.correlation_id, world.headers, "h_1")
        world.send_event("w_9", "on", 7, "on", options)
        world.send_message("w_9", "mail", b"", {"own": "b"}, "mail", options)


class Sends(unittest.TestCase):
    def test_a_program_sets_and_hears_correlation_headers_universe_and_message_id(self) -> None:
        origin, headers = Origin(correlation_id="order 7"), {"tenant": "a"}
        step = TestWorld(Relays()).step(Named("go", None), origin, headers)
        said = {"universe": "u_2", "correlation_id": "order 7", "headers": headers, "message_id": "h_1"}
        event = {"to": "w_9", "schema": "on", "value": 7} | said
        message = {"to": "w_9", "inbox": "mail"} | said | {"headers": {"own": "b", "tenant": "a"}}
        self.assertEqual([intent["params"] for intent in step.intents], [event, message])


class Worlds(unittest.TestCase):
    def test_effects_and_timers_come_back_as_steps(self) -> None:
        world = TestWorld(Asks())
        step = world.send("go", {"x": 1})
        self.assertEqual(step.intents, [{"kind": "ask", "label": "label", "params": {"x": 1}}])
        world.receipt("label", "ok", [1, 2])
        world.fire("timer")
        self.assertEqual((world.cell("answer"), world.cell("fired")), ([1, 2], {"n": 1}))
        self.assertEqual((world.open, world.timers), ([], []))
        with self.assertRaises(Failure):
            world.receipt("label", "ok")

    def test_a_step_that_fails_leaves_nothing(self) -> None:
        world = TestWorld(Asks())
        with self.assertRaises(Failure):
            world.send("go", "fail")
        self.assertEqual(world.cells, {})

    def test_a_query_reads_and_is_refused_what_changes_the_world(self) -> None:
        world = TestWorld(Asks())
        world.send("go")
        world.receipt("label", "ok", 7)
        self.assertEqual(world.query("any"), 7)
        for name, call in [("write", "put"), ("draw", "random")]:
            with self.assertRaisesRegex(AssertionError, f"`{call}` was called in a query"):
                world.query(name)
        self.assertEqual(list(world.cells), ["answer"])


if __name__ == "__main__":
    unittest.main()
