//! Asks for each kind of effect by its type, and replies with what its receipt carries.

pub mod types;

use mundi_sdk::{
    Cause, Event, Failure, Outgoing, Program, Value, World,
    kinds::{
        Blob, BlobGet, BlobPut, ChatMessage, EffectError, FabricSend, HttpRequest, LlmChat, ProcessRun, WorldFork,
        WorldSpawn,
    },
};
use serde::Serialize;
use serde_json::json;
use types::{Ask, Events};

pub struct Kinds;

impl Program for Kinds {
    const OFFER: &'static str = include_str!("../mundi.json");

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        match &event.cause {
            Cause::Event { schema, .. } => match Events::read(schema, event.value()?)? {
                Events::Ask(asked) => ask(world, &asked, &event.seq),
                Events::Note(text) => world.put("note", &text),
            },
            Cause::Timer { label, .. } => world.reply(label, &event.value::<Value>()?),
            Cause::Receipt { label, kind, .. } => {
                let call = label.split_once('/').map_or("", |(_, call)| call);
                let answer = answered(world, event, kind, call)?;
                answer.map_or(Ok(()), |answer| world.reply(call, &answer))
            }
            _ => Ok(()),
        }
    }

    fn query(world: &World, _: &str, _: Value) -> Result<Value, Failure> {
        Ok(world.get("note")?.unwrap_or(Value::Null))
    }
}

mundi_sdk::export!(Kinds);

fn ask(world: &mut World, asked: &Ask, call: &str) -> Result<(), Failure> {
    let label = &format!("{}/{call}", asked.kind);
    let text = |given: &Option<String>| given.clone().unwrap_or_default();
    match &*asked.kind {
        "timer" => world.set_timer_in_ms(call, 20, &json!({ "fired": true })),
        "echo" => world.reply(call, &json!({ "echo": true })),
        "http.request" => world.ask(&HttpRequest::post_json(text(&asked.url), &json!({ "hello": "wörld" }))?, label),
        "llm.chat" => {
            let messages = vec![ChatMessage::new("user", "6 x 7?")];
            world.ask(&LlmChat { messages, options: Some(json!({ "temperature": 0 })), ..LlmChat::default() }, label)
        }
        "blob.put" => world.ask(&BlobPut { bytes: vec![0, 128, 255].into() }, label),
        "process.run" => {
            let (command, stdin) = ("echo".to_owned(), Some("in and out".into()));
            world.ask(&ProcessRun { command, stdin, ..ProcessRun::default() }, label)
        }
        "fabric.send" => world.send(&text(&asked.to), &Outgoing::event("note", &"hello")?, label),
        "world.call" => world.call(&text(&asked.to), "ask", &json!({ "kind": text(&asked.ask) }), label),
        "world.spawn" => {
            let first = Outgoing::event("note", &"born")?;
            world.spawn(&text(&asked.manifest), Some(&first), label).map(drop)
        }
        "world.fork" => world.ask(&WorldFork { policy: Some("suppress".to_owned()), ..WorldFork::default() }, label),
        other => Err(Failure::new(format!("no kind `{other}`"))),
    }
}

/// The reply, if it is known already.
fn answered(world: &mut World, event: &Event, kind: &str, call: &str) -> Result<Option<Value>, Failure> {
    Ok(Some(match kind {
        "http.request" => match event.receipt::<HttpRequest>()? {
            Ok(answer) => json!({
                "status": answer.status, "type": answer.headers.get("content-type"), "json": answer.json::<Value>()?,
                "text": answer.text()?, "bytes": answer.bytes().len(),
            }),
            Err(EffectError { code, .. }) => json!({ "code": code }),
        },
        "llm.chat" => or_code(event.receipt::<LlmChat>()?)?,
        "blob.put" => {
            let Ok(blob) = event.receipt::<BlobPut>()? else { return Ok(Some("no blob".into())) };
            world.put("blob", &blob)?;
            world.ask(&BlobGet::from(&blob), &format!("got/{call}"))?;
            return Ok(None);
        }
        "blob.get" => {
            let Ok(content) = event.receipt::<BlobGet>()? else { return Ok(Some("no blob".into())) };
            let blob: Option<Blob> = world.get("blob")?;
            json!({ "bytes": content.bytes.to_vec(), "of": blob.map(|blob| blob.bytes) })
        }
        "process.run" => match event.receipt::<ProcessRun>()? {
            Ok(done) => json!({ "status": done.status, "stdout": done.stdout.text()?, "stderr": done.stderr.text()? }),
            Err(EffectError { code, .. }) => json!({ "code": code }),
        },
        "fabric.send" => match event.receipt::<FabricSend>()? {
            Ok(sent) => json!({ "status": sent.status, "to": sent.dest_world, "seq": sent.enqueued_seq.is_some() }),
            Err(EffectError { code, .. }) => json!({ "code": code }),
        },
        "world.call" => match event.reply::<Value>()? {
            Ok(reply) => json!({ "reply": reply }),
            Err(EffectError { code, failed_code, .. }) => json!({ "code": code, "failed_code": failed_code }),
        },
        "world.spawn" => or_code(event.receipt::<WorldSpawn>()?)?,
        "world.fork" => or_code(event.receipt::<WorldFork>()?)?,
        other => return Err(Failure::new(format!("no kind `{other}`"))),
    }))
}

fn or_code<T: Serialize>(answer: Result<T, EffectError>) -> Result<Value, Failure> {
    Ok(match answer {
        Ok(answer) => serde_json::to_value(answer)?,
        Err(EffectError { code, .. }) => json!({ "code": code }),
    })
}
