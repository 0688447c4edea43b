import unittest

from mundi.testing_functions import DurableWorld, for_each_crash
from program import program

ORDER = {"sku": "tea", "quantity": 2, "cents": 800}


def charged() -> DurableWorld:
    world = DurableWorld(program)
    world.run("order", ORDER)
    world.answer("payment.charge", {"charge": "c-1"})
    return world


class Order(unittest.TestCase):
    def test_an_order_is_placed_and_counted(self) -> None:
        world = charged()
        world.answer("stock.reserve", True)
        self.assertEqual(world.instance("order").result, {"state": "placed"})
        self.assertEqual(world.query("totals"), {"placed": 1, "cents": 800})

    def test_what_was_paid_is_given_back_when_there_is_none_and_when_it_is_cancelled(self) -> None:
        late = charged()
        cancelled = late.fork()
        late.skip("1h")
        cancelled.cancel("order")
        for world in (late, cancelled):
            world.answer("payment.refund", True)
        self.assertEqual(late.instance("order").result, {"state": "refunded", "why": "out of stock"})
        self.assertEqual(cancelled.instance("order").state, "cancelled")

    def test_a_payment_is_tried_three_times_also_if_the_process_dies(self) -> None:
        def refused(world: DurableWorld) -> None:
            world.run("order", ORDER)
            for _ in range(3):
                world.fail_effect("payment.charge", "CARD", "refused")
                world.skip("1m")
            self.assertEqual(world.instance("order").result, {"state": "failed", "why": "the payment was refused"})

        self.assertEqual(for_each_crash(lambda: DurableWorld(program), refused), 6)


if __name__ == "__main__":
    unittest.main()
