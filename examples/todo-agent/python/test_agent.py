import unittest

from mundi import HttpResponse
from mundi.testing import Refused, TestWorld
from program import program


def agent() -> TestWorld:
    world = TestWorld(program)
    world.send("setup", {"service": "http://service/minutes", "notify": "boss", "remind_ms": 1000})
    return world


class Agent(unittest.TestCase):
    def test_a_todo_is_estimated_answered_announced_and_reminded(self) -> None:
        world = agent()
        asked = world.send("add", {"id": "tea", "text": "make tea"}).intents[0]["params"]
        self.assertEqual((asked["url"], asked["body"]), ("http://service/minutes", '{"text":"make tea"}'))
        step = world.receipt("minutes/tea", "ok", HttpResponse(200, {}, b'{"minutes":5}'))
        self.assertEqual(list(step.replies.values()), [{"id": "tea", "state": "planned", "minutes": 5}])
        self.assertEqual((step.sent[0].to, step.sent[0].value), ("boss", {"id": "tea", "what": "planned"}))
        self.assertEqual(world.fire("remind/tea").sent[0].value, {"id": "tea", "what": "reminded"})
        self.assertEqual(world.query("todos")["tea"]["state"], "reminded")

    def test_a_service_that_fails_is_told_to_the_caller(self) -> None:
        world = agent()
        for id, answered in [("a", HttpResponse(500, {}, b"")), ("b", HttpResponse(200, {}, b"no json"))]:
            world.send("add", {"id": id, "text": "x"})
            step = world.receipt(f"minutes/{id}", "ok", answered)
            self.assertEqual(list(step.replies.values())[0]["state"], "failed")
            self.assertEqual((step.sent, step.timers), ([], []))
        world.send("add", {"id": "c", "text": "x"})
        world.fail("minutes/c", "EFFECT_DENIED", "10.0.0.1 is not a public address")
        self.assertEqual(world.query("todos")["c"]["state"], "failed")
        with self.assertRaises(Refused) as refused:
            world.send("add", {"id": "Not an id", "text": "x"})
        self.assertEqual(refused.exception.code, "EVENT_INVALID")


if __name__ == "__main__":
    unittest.main()
