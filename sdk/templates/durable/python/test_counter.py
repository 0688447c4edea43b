import unittest

from mundi.testing_functions import DurableWorld
from program import program


class Counts(unittest.TestCase):
    def test_it_counts(self) -> None:
        world = DurableWorld(program)
        self.assertEqual(world.send("add", 2).reply, 2)
        self.assertEqual(world.send("add", 3).reply, 5)
        self.assertEqual(world.query("count"), 5)

    def test_it_counts_later(self) -> None:
        world = DurableWorld(program)
        begun = world.run("later", {"by": 3, "after": "1h"})
        self.assertEqual((begun.state, begun.status), ("running", "adds 3 after 1h"))
        world.skip("1h")
        self.assertEqual(world.instance("later").result, 3)


if __name__ == "__main__":
    unittest.main()
