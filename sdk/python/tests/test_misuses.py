"""A test world refuses everything that a server refuses, with the same code. The table is shared with the kernel and the other SDKs."""

import json
import unittest
from pathlib import Path
from typing import Any

from mundi import Failure, Full, Named, Receipt, SendOptions
from mundi.testing import Refused, TestWorld

TABLE = json.loads((Path(__file__).resolve().parents[2] / "misuses.json").read_text())


def made(value: Any) -> Any:
    """The value that an entry of the table stands for."""
    if isinstance(value, list):
        return [made(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$text" in value:
        return value["$text"][0] * value["$text"][1]
    if "$bytes" in value:
        return bytes(value["$bytes"])
    if "$names" in value:
        return {f"{number:03}": "" for number in range(value["$names"])}
    if "$deep" in value:
        deep: Any = 0
        for _ in range(value["$deep"]):
            deep = [deep]
        return deep
    return {name: made(item) for name, item in value.items()}


class Script:
    """Makes the calls that the table says."""

    calls: list[Any] = []

    def handle(self, world, event):
        if isinstance(event.cause, Receipt):
            world.put("heard", event.cause.status)
        elif isinstance(event.cause, Named):
            for call in self.calls:
                self.make(world, event.seq, *call)

    def query(self, world, name, params):
        for call in self.calls:
            self.make(world, "", *call)

    def make(self, world, seq, call, *given):
        if call == "ignore":
            try:
                self.make(world, seq, *given[0])
            except Refused:
                pass
        elif call == "fail":
            raise Failure("as it was told")
        elif call == "timer":
            world.set_timer(*given)
        elif call == "send":
            to, schema, value, label, options = (*given, {})[:5]
            world.send_event(to, schema, value, label, SendOptions(**options))
        elif call == "spawn":
            world.spawn(given[0], None, given[1])
        elif call == "reply":
            world.reply(seq if given[0] == "own" else given[0], given[1])
        elif call == "scan":
            world.scan(given[0], None, given[1])
        else:
            getattr(world, call)(*given)


def outcome(run) -> str:
    try:
        run()
    except Refused as error:
        return error.code
    except (Failure, Full):
        return "PROGRAM_FAILED"
    return "ok"


class Misuses(unittest.TestCase):
    def test_every_misuse_gets_the_answer_of_the_server(self) -> None:
        for case in TABLE["cases"]:
            with self.subTest(case["name"]):
                self.run_case(case)

    def run_case(self, case: dict[str, Any]) -> None:
        offer, script = TABLE["offer"] | case.get("offer", {}), Script()
        if "offer_is" in case:
            self.assertEqual(outcome(lambda: TestWorld(script, offer)), case["offer_is"])
            return
        world = TestWorld(script, offer)
        for action in case["do"]:
            script.calls = made(action.get("calls", []))
            # Of a receipt that no adapter could give, a test hears; a server delivers it.
            expected = action.get("in_a_test", action["is"])
            self.assertEqual(outcome(lambda: self.act(world, action)), expected, action)
            if "heard" in action:
                self.assertEqual(world.cell("heard"), action["heard"])
        self.assertIsNone(world.cell("lost"))

    def act(self, world: TestWorld, action: dict[str, Any]) -> None:
        if "event" in action:
            world.send(action["event"][0], made(action["event"][1]))
        elif "receipt" in action:
            world.receipt(*made(action["receipt"]))
        elif "fire" in action:
            world.fire(action["fire"])
        elif "query" in action:
            world.query(*made(action["query"]))
        else:
            world.send("go")


if __name__ == "__main__":
    unittest.main()
