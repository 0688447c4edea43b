import unittest

from mundi.testing import TestWorld
from program import program


class Counts(unittest.TestCase):
    def test_it_counts(self) -> None:
        world = TestWorld(program)
        self.assertEqual(world.send("add", 2).reply, 2)
        self.assertEqual(world.send("add", 3).reply, 5)
        self.assertEqual(world.query("count"), 5)


if __name__ == "__main__":
    unittest.main()
