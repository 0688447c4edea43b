import json
import unittest
from typing import Any

from mundi import HttpResponse
from mundi.testing import Step
from mundi.testing_functions import DurableWorld, for_each_crash
from program import program


def says(content: str, *urls: str) -> dict[str, Any]:
    """The model says something, or wants pages."""
    calls = [{"id": url, "name": "fetch", "arguments": json.dumps({"url": url})} for url in urls]
    return {"model": "fake", "content": content, "finish_reason": None, "tool_calls": calls, "usage": None}


def asked(world: DurableWorld) -> Step:
    world.run("ask", "Where is it warmer?")
    world.answer("llm.chat", says("Let me see.", "http://a", "http://b"))
    world.answer("http.request", HttpResponse(200, {}, b"21 degrees"))
    return world.fail_effect("http.request", "EFFECT_FAILED", "no route")


class Agent(unittest.TestCase):
    def test_both_pages_are_fetched_and_the_model_hears_of_the_one_that_failed(self) -> None:
        world = DurableWorld(program)
        told = [message["content"] for message in asked(world).intents[0]["params"]["messages"]]
        self.assertEqual(told[:3], ["Where is it warmer?", "Let me see.", "21 degrees"])
        self.assertIn("no route", told[3])
        world.answer("llm.chat", says("At the first place."))
        instance = world.instance("ask")
        self.assertEqual(instance.result, "At the first place.")
        asks = ["effect llm.chat", "effect http.request", "effect http.request", "effect llm.chat"]
        self.assertEqual(instance.asks, asks)

    def test_the_model_is_not_asked_twice_whenever_the_process_dies(self) -> None:
        def talk(world: DurableWorld) -> None:
            asked(world)
            world.answer("llm.chat", says("At the first place."))

        self.assertEqual(for_each_crash(lambda: DurableWorld(program), talk), 5)


if __name__ == "__main__":
    unittest.main()
