"""A program that dispatches children, and one that is run as a child."""

import unittest
from typing import Any

from mundi import Budget, ChildEvent, Event, Named, World
from mundi.testing import Refused, TestWorld


class Planner:
    """Spawns a child per name, cancels the second one when the first has passed, and keeps what became of each."""

    def handle(self, world: World, event: Event) -> None:
        child = ChildEvent.of(event.cause)
        if child is not None:
            ended = {
                "started": "started",
                "passed": [child.result, child.spent.tokens],
                "failed": [child.code, child.reason],
                "cancelled": ["cancelled", child.cancel_request_id],
            }
            world.put(child.label, ended[child.lifecycle])
            if child.lifecycle == "passed":
                world.cancel_child("b", "enough")
        elif isinstance(event.cause, Named):
            for name in event.cause.value:
                world.spawn_child("agent", {"topic": name}, Budget(tokens=100), name)

    def query(self, world: World, name: str, params: Any) -> Any:
        return None


class Doubler(Planner):
    """Says that it is done, or that it cannot be."""

    def handle(self, world: World, event: Event) -> None:
        if isinstance(event.cause, Named) and isinstance(event.cause.value, int):
            world.child_done(2 * event.cause.value, Budget(tokens=1), "done")
        elif isinstance(event.cause, Named):
            world.child_failed("it is no number", "done")


class Children(unittest.TestCase):
    def test_a_program_spawns_children_and_hears_what_becomes_of_each(self) -> None:
        planner = TestWorld(Planner(), {"events": {"plan": True}, "effects": {"child.spawn": {}, "child.cancel": {}}})
        asked = planner.send("plan", ["a", "b", "c"]).intents[0]
        self.assertEqual(asked["params"], {"kind": "agent", "params": {"topic": "a"}, "budget": {"tokens": 100}})
        planner.child_started("a")
        self.assertEqual(planner.cell("a"), "started")
        cancel = planner.child_passed("a", "done", Budget(tokens=7)).intents[0]
        self.assertEqual(planner.cell("a"), ["done", 7])
        self.assertEqual((cancel["kind"], cancel["params"]), ("child.cancel", {"label": "b"}))
        planner.child_cancelled("b")
        self.assertEqual(planner.cell("b"), ["cancelled", "test"])
        planner.child_failed("c", "URM_CHILD_BUDGET_EXCEEDED", "budget_exceeded:tokens")
        self.assertEqual(planner.cell("c"), ["URM_CHILD_BUDGET_EXCEEDED", "budget_exceeded:tokens"])
        with self.assertRaises(Refused) as refused:
            planner.child_failed("c", "X", "x")
        self.assertEqual(refused.exception.code, "RECEIPT_UNKNOWN")

    def test_a_program_that_is_a_child_says_that_it_is_done(self) -> None:
        def done(value: Any) -> Any:
            world = TestWorld(Doubler(), {"events": {"double": True}, "effects": {"child.done": {}}})
            return world.send("double", value).intents[0]["params"]

        self.assertEqual(done(4), {"result": 8, "spent": {"tokens": 1}})
        self.assertEqual(done("x"), {"reason": "it is no number"})


if __name__ == "__main__":
    unittest.main()
