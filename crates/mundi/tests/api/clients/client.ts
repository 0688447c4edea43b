// A client of openapi-fetch, with the types that openapi-typescript made of the served document, at work.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const url = process.argv[2]!;
const client = createClient<paths>({ baseUrl: url });
const universe = "default";

function assert(holds: boolean, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

for (const name of ["alice", "bob", "carol"]) {
  const { data, error } = await client.POST("/v1/u/{universe}/worlds", {
    params: { path: { universe } },
    body: { world: name, program: "kv" },
  });
  assert(data !== undefined && data.world.startsWith("w_"), error);
}

const path = { universe, world: "alice", event: "put" };
const called = await client.POST("/v1/u/{universe}/worlds/{world}/call/{event}", {
  params: { path },
  body: { key: "n", value: 5 },
});
assert(called.response.status === 200, called.error);

// 2^53 + 1 is no number of JavaScript's: it travels as text, there and back.
const large = { $integer: "9007199254740993" };
const send = () =>
  client.POST("/v1/u/{universe}/worlds/{world}/send/{event}", {
    params: { path, header: { "Idempotency-Key": "once" } },
    body: { key: "big", value: large },
  });
const first = await send();
const second = await send();
assert(first.data?.before === false && second.data?.before === true, [first.data, second.data]);
assert(first.data.seq === second.data.seq, [first.data, second.data]);

const refused = await client.GET("/v1/u/{universe}/worlds/{world}", { params: { path: { universe, world: "nobody" } } });
const problem: components["schemas"]["Problem"] | undefined = refused.error;
assert(problem?.code === "WORLD_NOT_FOUND" && problem.detail.includes("`nobody`"), problem);

const found: components["schemas"]["World"][] = [];
let after: string | undefined;
do {
  const { data, error } = await client.GET("/v1/u/{universe}/worlds", {
    params: { path: { universe }, query: { limit: 2, after } },
  });
  assert(data !== undefined && data.items.length <= 2, error);
  found.push(...data.items);
  after = data.next ?? undefined;
} while (after);
assert(found.length === 3, found);
// The text is exact where the number is not.
for (const world of found) {
  const [, digits] = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.(\d{9})Z$/.exec(world.created_at) ?? [];
  assert(digits !== undefined, world.created_at);
  const seconds = BigInt(Math.floor(Date.parse(world.created_at) / 1000));
  const exact = seconds * 1_000_000_000n + BigInt(digits);
  assert(Number(exact) === world.created_at_ns, [world.created_at, world.created_at_ns]);
}

const { data: stream } = await client.GET("/v1/u/{universe}/worlds/{world}/journal", {
  params: { path: { universe, world: "alice" } },
  headers: { accept: "text/event-stream" },
  parseAs: "stream",
});
assert(stream !== null && stream !== undefined, "no stream");
const heights: number[] = [];
let text = "";
const decoder = new TextDecoder();
reading: for await (const piece of stream as unknown as AsyncIterable<Uint8Array>) {
  text += decoder.decode(piece, { stream: true });
  const lines = text.split("\n");
  text = lines.pop()!;
  for (const line of lines.filter((line) => line.startsWith("data:"))) {
    const record: components["schemas"]["JournalRecord"] & { input?: any } = JSON.parse(line.slice(5));
    heights.push(record.height);
    if (record.input?.value?.key === "big") {
      assert(record.input.value.value.$integer === large.$integer, record);
      break reading;
    }
  }
}
assert(heights.every((height, index) => height === index), heights);
console.log("all of it worked");
