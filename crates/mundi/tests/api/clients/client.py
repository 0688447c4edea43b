"""A client that openapi-python-client made of the served document, at work."""

import datetime
import json
import sys

from mundi_client import Client
from mundi_client.api.events import events_call, events_send
from mundi_client.api.journal import journal_journal
from mundi_client.api.worlds import worlds_create, worlds_describe, worlds_list
from mundi_client.models import NewWorld, Problem

client = Client(base_url=sys.argv[1])

for name in ["alice", "bob", "carol"]:
    created = worlds_create.sync(universe="default", client=client, body=NewWorld(world=name, program="kv"))
    assert created.world.startswith("w_") and created.before is False, created
again = worlds_create.sync(universe="default", client=client, body=NewWorld(world="alice", program="kv"))
assert again.before is True, again

put = dict(universe="default", world="alice", event="put", client=client)
called = events_call.sync_detailed(**put, body={"key": "n", "value": 5})
assert called.status_code == 200, called
sent = events_send.sync(**put, body={"key": "big", "value": 2**63}, idempotency_key="once")
assert sent.seq.startswith("s_") and sent.before is False, sent
repeated = events_send.sync(**put, body={"key": "big", "value": 2**63}, idempotency_key="once")
assert repeated.seq == sent.seq and repeated.before is True, repeated

refused = worlds_describe.sync(universe="default", world="nobody", client=client)
assert isinstance(refused, Problem) and refused.code == "WORLD_NOT_FOUND" and "`nobody`" in refused.detail, refused

found, after = [], None
while True:
    page = worlds_list.sync(universe="default", client=client, limit=2, **({"after": after} if after else {}))
    assert len(page.items) <= 2
    found += page.items
    after = page.next_
    if not after:
        break
assert sorted(world.world for world in found) == [world.world for world in found] and len(found) == 3, found
moment = found[0].created_at
assert isinstance(moment, datetime.datetime)
assert abs(moment.timestamp() * 1e9 - found[0].created_at_ns) < 1e6, (moment, found[0].created_at_ns)

pages = journal_journal.sync(universe="default", world="alice", client=client, limit=2)
assert [record.type_ for record in pages.items][0] == "genesis", pages

# The tail is a stream, which the generator has no form for: the client's own connection reads it.
with client.get_httpx_client().stream(
    "GET", "/v1/u/default/worlds/alice/journal", headers={"accept": "text/event-stream"}
) as stream:
    heights = []
    for line in stream.iter_lines():
        if not line.startswith("data:"):
            continue
        record = json.loads(line[len("data:"):])
        heights.append(record["height"])
        if record["type"] == "ingress" and record["input"].get("value", {}).get("key") == "big":
            assert record["input"]["value"]["value"] == {"$integer": str(2**63)}, record
            break
assert heights == list(range(len(heights))), heights
print("all of it worked")
