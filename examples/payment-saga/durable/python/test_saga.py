import unittest

from mundi import HttpResponse
from mundi.testing_functions import DurableWorld, for_each_crash
from program import program

ORDER = {"order": "good", "shop": "http://shop", "confirm_within_ms": 60_000}


def begun() -> DurableWorld:
    world = DurableWorld(program)
    world.run("begin", ORDER)
    return world


def answer(world: DurableWorld, *statuses: int) -> None:
    """The shop answers the oldest requests."""
    for status in statuses:
        world.answer("http.request", HttpResponse(status, {}, b""))


class Saga(unittest.TestCase):
    def test_an_order_that_is_confirmed_early_is_shipped(self) -> None:
        world = begun()
        world.event("confirm", True)
        answer(world, 200, 200, 200)
        self.assertEqual(world.instance("begin").result, "shipped")
        self.assertEqual(world.event("outcome").reply, "shipped")

    def test_what_was_done_is_undone_in_reverse_order(self) -> None:
        world = begun()
        answer(world, 200, 200)
        world.event("confirm", True)
        answer(world, 409)
        self.assertEqual(world.instance("begin").state, "running")
        answer(world, 200, 200)
        self.assertEqual(world.instance("begin").result, {"undone": "ship was refused"})

        closed = begun()
        closed.fail_effect("http.request", "EFFECT_FAILED", "the shop is closed")
        self.assertEqual(closed.instance("begin").result, {"undone": "reserve was refused"})

    def test_an_order_that_nobody_confirms_or_that_is_cancelled_is_undone(self) -> None:
        late = begun()
        answer(late, 200, 200)
        cancelled = late.fork()
        late.skip("1m")
        cancelled.cancel("begin")
        answer(late, 200, 200)
        answer(cancelled, 200, 200)
        self.assertEqual(late.instance("begin").result, {"undone": "it was not confirmed in time"})
        self.assertEqual(cancelled.instance("begin").state, "cancelled")
        self.assertEqual(cancelled.cell("outcome"), {"undone": "it was cancelled"})

    def test_a_crash_in_any_step_changes_nothing(self) -> None:
        def broken(world: DurableWorld) -> None:
            world.run("begin", ORDER)
            world.event("confirm", True)
            answer(world, 200, 409, 200)

        self.assertEqual(for_each_crash(lambda: DurableWorld(program), broken), 5)


if __name__ == "__main__":
    unittest.main()
