/** A todo agent: asks a service how long a todo takes, replies, tells another world, and reminds it later. */

import { type Cause, type Program, type World, event, receipt } from "mundi-sdk";
import type { Add, Effects, Setup } from "./types.ts";

const VERSION = 1;

type Agent = World<Effects>;
type Receipt = Cause & { is: "receipt" };

interface Todo {
  text: string;
  state: string;
  /** Where the answer to `add` goes. */
  call: string;
  minutes?: number;
}

const program: Program<Effects> = {
  handle(world, { seq, cause }) {
    if (cause.is === "event") taken(world, seq, cause.schema, cause.value);
    else if (cause.is === "timer") reminded(world, cause.label.slice("remind/".length));
    else if (cause.is === "receipt") {
      const [what, ...rest] = cause.label.split("/");
      if (what === "minutes") estimated(world, cause, rest.join("/"));
      else if (what === "notice") delivered(world, cause);
    }
  },

  query(world, name) {
    if (name === "version") return VERSION;
    const prefix = name === "todos" ? "todo/" : "notice/";
    return Object.fromEntries(world.scan(prefix, undefined, 1000).map(([key, value]) => [key.slice(prefix.length), value]));
  },
};

export default program;

function taken(world: Agent, seq: string, schema: string, value: any): void {
  if (schema === "setup") {
    world.put("setup", value);
    world.reply(seq, true);
  } else if (schema === "add") added(world, seq, value);
  else {
    const key = `notice/${value.id}/${value.what}`;
    world.put(key, (world.get<number>(key) ?? 0) + 1);
  }
}

function setup(world: Agent): Setup {
  const found = world.get<Setup>("setup");
  if (!found) throw new Error("send `setup` first");
  return found;
}

function added(world: Agent, call: string, { id, text }: Add): void {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ text });
  world.emit("http.request", { url: setup(world).service, method: "POST", headers, body }, `minutes/${id}`);
  world.put(`todo/${id}`, { text, state: "asked", call } satisfies Todo);
}

function estimated(world: Agent, cause: Receipt, id: string): void {
  const todo = world.get<Todo>(`todo/${id}`)!;
  const minutes = minutesOf(cause);
  const state = minutes === undefined ? "failed" : "planned";
  world.put(`todo/${id}`, { ...todo, state, minutes });
  world.reply(todo.call, { id, state, minutes: minutes ?? null });
  if (minutes === undefined) return;
  world.setTimerInMs(`remind/${id}`, setup(world).remind_ms);
  notify(world, id, "planned");
}

/** What the service said, if it did. */
function minutesOf(cause: Receipt): number | undefined {
  const answer = receipt(cause, "http.request");
  if (!answer.ok || !answer.value.ok) return undefined;
  try {
    return answer.value.json<{ minutes: number }>().minutes;
  } catch {
    return undefined;
  }
}

function reminded(world: Agent, id: string): void {
  world.put(`todo/${id}`, { ...world.get<Todo>(`todo/${id}`)!, state: "reminded" });
  notify(world, id, "reminded");
}

/** To a world by its name, or its id. */
function notify(world: Agent, id: string, what: string): void {
  world.send(setup(world).notify, event("notice", { id, what }), `notice/${id}/${what}`);
}

function delivered(world: Agent, cause: Receipt): void {
  const sent = receipt(cause, "fabric.send");
  if (!sent.ok) world.log("warn", `${cause.label} was not delivered: ${sent.error.code}: ${sent.error.reason}`);
}
