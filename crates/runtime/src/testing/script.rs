//! A program whose events are scripts, one command per line.

use mundi_kernel::{
    Registry,
    intents::WORLD_CALL,
    manifest::{EffectRule, Manifest, OnFailure, Schema},
    program::{Cause, Event, Failure, Host, Level, Outgoing, Program, SendOptions, View},
    registry::native_descriptor,
};
use mundi_model::{Code, Hash, InboxSeq, Value, cbor};
use std::collections::BTreeMap;

/// The program. It counts what it takes in `taken`, keeps a running hash of it in `trail`, and answers queries by key.
pub struct Script;

/// The same, fixed: `break` does not break it, and `fail` does not fail.
pub struct MendedScript;

/// Registers both, and returns the descriptor of the first, which belongs into the content store.
pub fn register(registry: &mut Registry) -> String {
    registry.register_native("script", 1, Script);
    registry.register_native("script", MENDED_VERSION, MendedScript);
    native_descriptor("script", 1)
}

/// Of the fixed one.
pub const MENDED_VERSION: u32 = 3;

/// A manifest for the fixed one, and the descriptor that it names.
pub fn mended_manifest() -> (Manifest, String) {
    let descriptor = native_descriptor("script", MENDED_VERSION);
    (Manifest { program: Hash::of(descriptor.as_bytes()), ..manifest() }, descriptor)
}

/// Manifests that hold a world at an input whose step fails: for the program, and for the fixed one.
pub fn holding_manifests() -> [Manifest; 2] {
    [manifest(), mended_manifest().0].map(|manifest| Manifest { on_failure: OnFailure::Hold, ..manifest })
}

/// A manifest for it.
pub fn manifest() -> Manifest {
    let mut manifest = Manifest::new(Hash::of(native_descriptor("script", 1).as_bytes()));
    manifest.events.insert("script".into(), Schema::anything());
    manifest.queries.insert("cell".into(), Schema::anything());
    for kind in ["http", "fabric.send", "world.call", "world.spawn", "world.fork"] {
        manifest.effects.insert(kind.into(), EffectRule::default());
    }
    manifest
}

impl Program for MendedScript {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        handle(host, event, |line| !["break", "fail"].contains(&line))
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        Script.query(view, name, params)
    }
}

impl Program for Script {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        handle(host, event, |_| true)
    }

    fn query(&self, view: &mut dyn View, _: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        let Ok(Value::Text(key)) = cbor::decode(params) else { return Err(Failure::new("no key")) };
        Ok(view.get(&key)?.unwrap_or_default())
    }
}

fn handle(host: &mut dyn Host, event: &Event<'_>, takes: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let text = match event.cause {
        Cause::Event { value, .. } => match cbor::decode(value) {
            Ok(Value::Text(text)) => text,
            _ => return Err(Failure::new("no script")),
        },
        // One that the program cannot read.
        Cause::Receipt { label, .. } if label.starts_with("bad") => "fail".to_owned(),
        Cause::Receipt { label, kind: WORLD_CALL, status, payload } => {
            host.put(&format!("reply/{label}"), payload)?;
            format!("put receipt/{label} {status:?}\nanswer {label}")
        }
        Cause::Receipt { label, .. } => format!("put receipt/{label} got\nanswer {label}"),
        Cause::Timer { label, .. } => format!("put timer/{label} fired\nanswer {label}"),
        Cause::Message { payload, .. } => String::from_utf8_lossy(payload).into_owned(),
        Cause::Upgraded { .. } => "put upgraded yes".to_owned(),
    };
    let trail = host.get("trail")?.unwrap_or_default();
    let random = host.random()?.to_be_bytes();
    host.put("trail", Hash::of(&[&trail, text.as_bytes(), &random].concat()).as_bytes())?;
    add(host, "taken")?;
    text.lines().filter(|line| takes(line)).try_for_each(|line| run(host, event.seq, line))
}

fn add(host: &mut dyn Host, key: &str) -> Result<(), Failure> {
    let before = host.get(key)?.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
    Ok(host.put(key, &(before + 1).to_be_bytes())?)
}

fn emit(host: &mut dyn Host, label: &str, params: &str) -> Result<(), Failure> {
    Ok(host.emit("http", &cbor::encode(&Value::Text(params.into())), label)?)
}

fn run(host: &mut dyn Host, seq: InboxSeq, line: &str) -> Result<(), Failure> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        [] | [""] => Ok(()),
        ["put", key, value] => Ok(host.put(key, value.as_bytes())?),
        ["fill", key, len] => Ok(host.put(key, &vec![b'x'; len.parse().unwrap_or(0)])?),
        ["add", key] => add(host, key),
        ["emit", label] => emit(host, label, "params"),
        ["emit", label, params] => emit(host, label, params),
        ["cancel", label] => Ok(host.cancel(label).map(drop)?),
        ["fork", label, policy] => {
            let params = Value::Map([("policy".to_owned(), Value::Text(policy.to_owned()))].into());
            Ok(host.emit("world.fork", &cbor::encode(&params), label)?)
        }
        ["spawn", label, first] => {
            let message = Outgoing::Message { inbox: "script", payload: first.as_bytes(), headers: &BTreeMap::new() };
            let world = host.spawn(&Hash::of(&manifest().to_bytes()).into(), Some(&message), label)?;
            Ok(host.put(&format!("spawned/{label}"), world.to_string().as_bytes())?)
        }
        ["spawn_of", manifest, label] => {
            let program = manifest.parse().map_err(|_| Failure::new("no program"))?;
            Ok(host.spawn(&program, None, label).map(drop)?)
        }
        ["send", to, label, text] => {
            let to = to.parse().map_err(|_| Failure::new("no world"))?;
            let message = Outgoing::Message { inbox: "script", payload: text.as_bytes(), headers: &BTreeMap::new() };
            Ok(host.send(to, &message, label)?)
        }
        // An event to another world, with all that can be said beside it; `-` for nothing.
        ["event", universe, to, label, ref rest @ ..] => {
            let to = to.parse().map_err(|_| Failure::new("no world"))?;
            let headers = [("label".to_owned(), (*label).to_owned())].into();
            let options = SendOptions {
                universe: universe.parse().ok(),
                correlation_id: Some(label),
                headers: Some(&headers),
                ..SendOptions::default()
            };
            let value = cbor::encode(&Value::Text(rest.join(" ")));
            Ok(host.send_with(to, &Outgoing::Event { schema: "script", value: &value }, &options, label)?)
        }
        // A name for people and checkers.
        ["#", _] => Ok(()),
        ["ask", kind, label] => Ok(host.emit(kind, &cbor::encode(&Value::Text((*label).into())), label)?),
        ["later", label, wait_ms] => {
            let wait_ns = wait_ms.parse::<u64>().unwrap_or(0).saturating_mul(1_000_000);
            Ok(host.set_timer(label, host.logical_now_ns().saturating_add(wait_ns), b"")?)
        }
        ["cancel_timer", label] => Ok(host.cancel_timer(label).map(drop)?),
        ["tell", to, label, text] => {
            let to = to.parse().map_err(|_| Failure::new("no such world"))?;
            let payload = format!("# {text}\nadd got");
            let (inbox, payload, headers) = ("script", payload.as_bytes(), &BTreeMap::new());
            Ok(host.send(to, &Outgoing::Message { inbox, payload, headers }, label)?)
        }
        // Not the program's failure, but the host's: no turn that takes this can be committed.
        ["break"] => Err(host.abandon(Code::StepAbandoned, "as it was told").into()),
        ["log", ref rest @ ..] => {
            host.log(Level::Info, &rest.join(" "));
            Ok(())
        }
        ["fail"] => Err(Failure::new("as it was told")),
        ["timer", label, due_ns] => Ok(host.set_timer(label, due_ns.parse().unwrap_or(0), b"")?),
        ["reply", text] => Ok(host.reply(seq, text.as_bytes())?),
        // Calls another world with a script, whose lines are divided by `|`.
        ["call", to, label, timeout_ms, ref rest @ ..] => {
            let script = Value::Text(rest.join(" ").replace('|', "\n"));
            let params = [
                ("world", Value::Text(to.to_owned())),
                ("event", Value::Text("script".to_owned())),
                ("value", script),
                ("correlation_id", Value::Text(label.to_owned())),
                ("timeout_ms", Value::Integer(timeout_ms.parse::<u64>().unwrap_or(0).into())),
            ];
            let params = Value::Map(params.map(|(name, value)| (name.to_owned(), value)).into());
            Ok(host.emit(WORLD_CALL, &cbor::encode(&params), label)?)
        }
        // Replies once the timer or the receipt of this label comes.
        ["keep", label] => Ok(host.put(&format!("caller/{label}"), seq.as_bytes())?),
        ["answer", label] => {
            let key = format!("caller/{label}");
            let Some(to) = host.get(&key)?.and_then(|bytes| bytes.try_into().ok()) else { return Ok(()) };
            host.reply(InboxSeq::from_bytes(to), label.as_bytes())?;
            Ok(host.delete(&key)?)
        }
        _ => Err(Failure::new(format!("no such line: {line}"))),
    }
}
