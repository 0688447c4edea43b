/** Asks for each kind of effect by its type, and replies with what its receipt carries. */

import { type Answer, type Cause, type Program, type World, event as outgoing, receipt } from "mundi-sdk";
import type { Ask, Effects } from "./types.ts";

const utf8 = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

const program: Program<Effects> = {
  handle(world, { seq, cause }) {
    if (cause.is === "event" && cause.schema === "ask") ask(world, cause.value, seq);
    else if (cause.is === "event") world.put("note", cause.value);
    else if (cause.is === "timer") world.reply(cause.label, cause.payload);
    else if (cause.is === "receipt") {
      const call = cause.label.slice(cause.label.indexOf("/") + 1);
      const answer = answered(world, cause, call);
      if (answer !== undefined) world.reply(call, answer);
    }
  },

  query: (world) => world.get("note") ?? null,
};

export default program;

function ask(world: World<Effects>, asked: Ask, call: string): void {
  const label = `${asked.kind}/${call}`;
  switch (asked.kind) {
    case "timer":
      return world.setTimerInMs(call, 20, { fired: true });
    case "echo":
      return world.reply(call, { echo: true });
    case "http.request": {
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify({ hello: "wörld" });
      return world.emit("http.request", { url: asked.url ?? "", method: "POST", headers, body }, label);
    }
    case "llm.chat": {
      const messages = [{ role: "user", content: "6 x 7?" }];
      return world.emit("llm.chat", { messages, options: { temperature: 0 } }, label);
    }
    case "blob.put":
      return world.emit("blob.put", { bytes: Uint8Array.of(0, 128, 255) }, label);
    case "process.run":
      return world.emit("process.run", { command: "echo", stdin: "in and out" }, label);
    case "fabric.send":
      return world.send(asked.to ?? "", outgoing("note", "hello"), label);
    case "world.call":
      return world.call(asked.to ?? "", "ask", { kind: asked.ask ?? "" }, label);
    case "world.spawn":
      return void world.spawn(asked.manifest ?? "", outgoing("note", "born"), label);
    case "world.fork":
      return world.emit("world.fork", { policy: "suppress" }, label);
  }
  throw new Error(`no kind \`${asked.kind}\``);
}

/** What is replied, if that is known already. */
function answered(world: World<Effects>, cause: Cause & { is: "receipt" }, call: string): unknown {
  switch (cause.kind) {
    case "http.request":
      return orCode(receipt(cause, "http.request"), (answer) => ({
        status: answer.status,
        type: answer.headers["content-type"],
        json: answer.json(),
        text: answer.text(),
        bytes: answer.bytes().length,
      }));
    case "llm.chat":
      return orCode(receipt(cause, "llm.chat"), (answer) => answer);
    case "blob.put": {
      const put = receipt(cause, "blob.put");
      if (!put.ok) return "no blob";
      world.put("blob", put.value);
      return world.emit("blob.get", { hash: put.value.hash }, `got/${call}`);
    }
    case "blob.get":
      return orCode(receipt(cause, "blob.get"), ({ bytes }) => ({
        bytes: [...bytes],
        of: world.get<{ bytes: number }>("blob")?.bytes,
      }));
    case "process.run":
      return orCode(receipt(cause, "process.run"), ({ status, stdout, stderr }) => ({
        status,
        stdout: utf8(stdout),
        stderr: utf8(stderr),
      }));
    case "fabric.send":
      return orCode(receipt(cause, "fabric.send"), ({ status, dest_world, enqueued_seq }) => ({
        status,
        to: dest_world,
        seq: enqueued_seq !== null,
      }));
    case "world.call": {
      const called = receipt(cause, "world.call");
      if (called.ok) return { reply: called.value };
      return { code: called.error.code, failed_code: called.error.failedCode ?? null };
    }
    case "world.spawn":
      return orCode(receipt(cause, "world.spawn"), (answer) => answer);
    case "world.fork":
      return orCode(receipt(cause, "world.fork"), (answer) => answer);
  }
  throw new Error(`no kind \`${cause.kind}\``);
}

function orCode<T>(answer: Answer<T>, read: (value: T) => unknown): unknown {
  return answer.ok ? read(answer.value) : { code: answer.error.code };
}
