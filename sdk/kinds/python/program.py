"""Asks for each kind of effect by its type, and replies with what its receipt carries."""

import json
from dataclasses import asdict
from typing import Any

from mundi import (
    BlobGet,
    BlobPut,
    EffectError,
    Event,
    HttpRequest,
    LlmChat,
    Named,
    ProcessRun,
    Receipt,
    Timer,
    World,
    WorldFork,
)


class Kinds:
    def handle(self, world: World, event: Event) -> None:
        cause = event.cause
        if isinstance(cause, Named) and cause.schema == "ask":
            ask(world, cause.value, event.seq)
        elif isinstance(cause, Named):
            world.put("note", cause.value)
        elif isinstance(cause, Timer):
            world.reply(cause.label, cause.payload)
        elif isinstance(cause, Receipt):
            call = cause.label.split("/", 1)[1]
            try:
                answer = answered(world, cause, call)
            except EffectError as error:
                of_call = {"failed_code": error.failed_code} if cause.kind == "world.call" else {}
                answer = {"code": error.code} | of_call
            if answer is not None:
                world.reply(call, answer)

    def query(self, world: World, name: str, params: Any) -> Any:
        return world.get("note")


program = Kinds()


def ask(world: World, asked: dict[str, Any], call: str) -> None:
    kind = asked["kind"]
    label = f"{kind}/{call}"
    if kind == "timer":
        world.set_timer_in_ms(call, 20, {"fired": True})
    elif kind == "echo":
        world.reply(call, {"echo": True})
    elif kind == "http.request":
        body = json.dumps({"hello": "wörld"}, ensure_ascii=False, separators=(",", ":"))
        world.ask(HttpRequest(asked["url"], "POST", {"content-type": "application/json"}, body), label)
    elif kind == "llm.chat":
        world.ask(LlmChat([{"role": "user", "content": "6 x 7?"}], options={"temperature": 0}), label)
    elif kind == "blob.put":
        world.ask(BlobPut(bytes([0, 128, 255])), label)
    elif kind == "process.run":
        world.ask(ProcessRun("echo", stdin="in and out"), label)
    elif kind == "fabric.send":
        world.send_event(asked["to"], "note", "hello", label)
    elif kind == "world.call":
        world.call(asked["to"], "ask", {"kind": asked["ask"]}, label)
    elif kind == "world.spawn":
        world.spawn(asked["manifest"], ("note", "born"), label)
    elif kind == "world.fork":
        world.ask(WorldFork(policy="suppress"), label)
    else:
        raise ValueError(f"no kind `{kind}`")


def answered(world: World, receipt: Receipt, call: str) -> Any:
    """What is replied, if that is known already."""
    answer = receipt.answer
    if receipt.kind == "http.request":
        content_type = answer.headers.get("content-type")
        read = {"json": answer.json(), "text": answer.text(), "bytes": len(answer.bytes())}
        return {"status": answer.status, "type": content_type} | read
    if receipt.kind == "blob.put":
        world.put("blob", asdict(answer))
        world.ask(BlobGet(answer.hash), f"got/{call}")
        return None
    if receipt.kind == "blob.get":
        return {"bytes": list(answer.bytes), "of": world.get("blob")["bytes"]}
    if receipt.kind == "process.run":
        return {"status": answer.status, "stdout": answer.stdout.decode(), "stderr": answer.stderr.decode()}
    if receipt.kind == "world.call":
        return {"reply": answer}
    if receipt.kind == "fabric.send":
        return {"status": answer.status, "to": answer.dest_world, "seq": answer.enqueued_seq is not None}
    return asdict(answer)
