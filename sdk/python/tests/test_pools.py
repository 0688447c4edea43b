"""A program that leases a resource of a pool."""

import unittest
from typing import Any

from mundi import EffectError, Event, Lease, Named, PoolResult, Receipt, Wish, World, resource_id, shard_of
from mundi.testing import TestWorld

FIRST = "l_00000000000000000000000007"
DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
# Of shard 3, at height 7.
THIRD = "l_" + "".join(DIGITS[(3 << 64 | 7) >> 5 * place & 31] for place in reversed(range(26)))


class Agent:
    """Reserves, activates what it got, and releases it when it is told to."""

    def handle(self, world: World, event: Event) -> None:
        cause = event.cause
        if isinstance(cause, Named) and cause.schema == "go":
            world.pool_reserve("gpus", Wish(count=2, label="h100"), 60, "reserve")
        elif isinstance(cause, Named) and cause.schema == "shard":
            world.pool_reserve("gpus", Wish([resource_id("gpu-2")]), 60, "two", shard=shard_of("gpu-2", 3))
        elif isinstance(cause, Named):
            world.pool_release(Lease(**world.get("lease")), "release")
        elif isinstance(cause, Receipt):
            try:
                result = PoolResult.of(cause.answer)
            except EffectError as error:
                return world.put("refused", error.code)
            lease = result.lease("gpus")
            if not result.ok or lease is None:
                return world.put("refused", result.result)
            world.put("lease", vars(lease))
            if cause.label == "reserve":
                world.pool_activate(lease, "activate")

    def query(self, world: World, name: str, params: Any) -> Any:
        return None


class Pools(unittest.TestCase):
    def test_a_lease_is_reserved_activated_and_released_by_calls_to_its_pool(self) -> None:
        agent = TestWorld(Agent(), {"events": {"go": True, "stop": True}, "effects": {"world.call": {}}})
        command = {"reserve_any": {"label": "h100", "count": 2, "ttl_slots": 60}}
        asked = {"world": "gpus", "event": "pool.command", "value": {"command": command}}
        self.assertEqual(agent.send("go").intents[0]["params"], asked, "no holder: the host says who calls")
        step = agent.receipt("reserve", "ok", {"result": "ok", "lsn": 7, "lease_id": FIRST, "lease_epoch": 1})
        activate = {"activate": {"lease_id": FIRST, "lease_epoch": 1}}
        self.assertEqual(step.intents[0]["params"]["value"]["command"], activate)
        agent.receipt("activate", "ok", {"result": "noop", "lease_id": THIRD, "lease_epoch": 4})
        released = agent.send("stop").intents[0]["params"]
        self.assertEqual(released["world"], "gpus.shard-3", "the lease says in which shard it lies")
        agent.receipt("release", "ok", {"result": "stale_epoch", "lsn": 9, "slot": 2})
        self.assertEqual(agent.cell("refused"), "stale_epoch")

    def test_all_wishes_are_commands_of_the_pool(self) -> None:
        queued = {"label": "a", "count": 2, "ttl_slots": 5, "wait": True}
        self.assertEqual(Wish(count=2, label="a", queued=True).command(5), {"enqueue_reserve": queued})
        self.assertEqual(Wish(["r_1"]).command(5), {"reserve": {"resource_id": "r_1", "ttl_slots": 5}})
        bundle = {"resource_ids": ["r_1", "r_2"], "ttl_slots": 5}
        self.assertEqual(Wish(["r_1", "r_2"]).command(5), {"reserve_bundle": bundle})
        with self.assertRaises(ValueError):
            Lease("gpus", "l_7", 1).world()

    def test_a_resource_is_reserved_in_its_shard(self) -> None:
        agent = TestWorld(Agent(), {"events": {"shard": True}, "effects": {"world.call": {}}})
        asked = agent.send("shard").intents[0]["params"]
        self.assertEqual(asked["world"], "gpus.shard-2")
        reserve = {"resource_id": "r_3q03r0001mm6xktzqq8s556bb1", "ttl_slots": 60}
        self.assertEqual(asked["value"]["command"], {"reserve": reserve})

    def test_the_shard_of_a_resource_follows_from_its_id(self) -> None:
        for resource, shards in {
            "gpu-0": [0, 0, 1, 6, 62],
            "gpu-1": [0, 1, 1, 7, 31],
            "r_2jhsdyqc76ep8z59gbmgcbwpad": [0, 0, 1, 6, 62],
            "r_00000000000000000000000000": [0, 1, 2, 1, 57],
            "r_7zzzzzzzzzzzzzzzzzzzzzzzzz": [0, 1, 0, 5, 13],
        }.items():
            self.assertEqual([shard_of(resource, count) for count in (1, 2, 3, 8, 64)], shards, resource)
        self.assertEqual((resource_id("gpu-0"), shard_of("gpu-0", 0)), ("r_2jhsdyqc76ep8z59gbmgcbwpad", 0))


if __name__ == "__main__":
    unittest.main()
