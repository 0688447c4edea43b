//! Refusals of the kernel and their codes: the table of misuses that the test worlds of the SDKs must refuse, too.

use crate::rig::{UNIVERSE, WORLD};
use mundi_kernel::{
    MemoryObjects, Registry, World,
    manifest::Manifest,
    program::{Cause, Event, Failure, Host, Outgoing, Program, SendOptions, View, read_text},
    turn::{Arrival, Arrived, TurnBudget},
};
use mundi_model::{
    Coded, Hash, InboxSeq, IntentHash, ProgramAddress, Stamp, Value, WorldAddress, cbor, limits,
    record::{Body, Genesis, InboxItem, Input, Origin, Payload, Receipt, ReceiptStatus, Record},
};
use serde_json::Value as Json;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Makes the calls that the table says, as a component would: ids are texts.
struct Script(Arc<Mutex<Vec<Json>>>);

impl Program for Script {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Receipt { status, .. } => {
                Ok(host.put("heard", &cbor::encode(&Value::Text(format!("{status:?}").to_lowercase())))?)
            }
            Cause::Event { .. } => {
                let calls = std::mem::take(&mut *self.0.lock().unwrap());
                calls.iter().try_for_each(|call| make(host, event.seq, call))
            }
            _ => Ok(()),
        }
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        if name == "page" {
            return Ok(params.to_vec());
        }
        let calls = std::mem::take(&mut *self.0.lock().unwrap());
        if calls.iter().any(|call| call[0] == "fail") {
            return Err(Failure::new("as it was told"));
        }
        Ok(view.get("heard")?.unwrap_or_else(|| vec![0xf6]))
    }
}

fn make(host: &mut dyn Host, seq: InboxSeq, call: &Json) -> Result<(), Failure> {
    let text = |at: usize| made_text(&call[at]);
    let value = |at: usize| cbor::encode(&made(&call[at]));
    match &*text(0) {
        "ignore" => {
            let _refused = make(host, seq, &call[1]);
            Ok(())
        }
        "fail" => Err(Failure::new("as it was told")),
        "put" => Ok(host.put(&text(1), &value(2))?),
        "delete" => Ok(host.delete(&text(1))?),
        "get" => Ok(host.get(&text(1)).map(drop)?),
        "scan" => Ok(host.scan(&text(1), None, 10).map(drop)?),
        "emit" => Ok(host.emit(&text(1), &value(2), &text(3))?),
        "cancel" => Ok(host.cancel(&text(1)).map(drop)?),
        "timer" => Ok(host.set_timer(&text(1), call[2].as_u64().unwrap(), &value(3))?),
        "cancel_timer" => Ok(host.cancel_timer(&text(1)).map(drop)?),
        "send" => send(host, call),
        "spawn" => {
            let program: ProgramAddress = read_text(host, &text(1))?;
            Ok(host.spawn(&program, None, &text(2)).map(drop)?)
        }
        "reply" => {
            let to = if text(1) == "own" { seq } else { read_text(host, &text(1))? };
            Ok(host.reply(to, &value(2))?)
        }
        "random" => Ok(host.random().map(drop)?),
        other => panic!("{other}"),
    }
}

fn send(host: &mut dyn Host, call: &Json) -> Result<(), Failure> {
    let to: WorldAddress = read_text(host, &made_text(&call[1]))?;
    let said = |name: &str| call[5].get(name).map(made_text);
    let universe = said("universe").map(|id| read_text(host, &id)).transpose()?;
    let message_id = said("message_id").map(|id| read_text(host, &id)).transpose()?;
    let Value::Map(headers) = made(&call[5]["headers"]) else {
        return send_with(host, call, &to, (universe, message_id), &BTreeMap::new());
    };
    let headers = headers.into_keys().map(|name| (name, String::new())).collect();
    send_with(host, call, &to, (universe, message_id), &headers)
}

fn send_with(
    host: &mut dyn Host,
    call: &Json,
    to: &WorldAddress,
    (universe, message_id): (Option<mundi_model::UniverseId>, Option<Hash>),
    headers: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let correlation_id = call[5].get("correlation_id").map(made_text);
    let correlation_id = correlation_id.as_deref();
    let options = SendOptions { universe, correlation_id, headers: Some(headers), message_id };
    let value = cbor::encode(&made(&call[3]));
    let event = Outgoing::Event { schema: &made_text(&call[2]), value: &value };
    Ok(host.send_to(to, &event, &options, &made_text(&call[4]))?)
}

fn made_text(entry: &Json) -> String {
    match made(entry) {
        Value::Text(text) => text,
        _ => String::new(),
    }
}

/// The value that an entry of the table stands for.
fn made(entry: &Json) -> Value {
    let count = |name: &str| entry[name].as_u64().map(|count| usize::try_from(count).unwrap());
    match entry {
        Json::Array(items) => Value::Array(items.iter().map(made).collect()),
        Json::Object(_) if entry["$text"].is_array() => {
            let times = usize::try_from(entry["$text"][1].as_u64().unwrap()).unwrap();
            Value::Text(entry["$text"][0].as_str().unwrap().repeat(times))
        }
        Json::Object(entries) => {
            if let Some(count) = count("$bytes") {
                return Value::Bytes(vec![0; count]);
            }
            if let Some(count) = count("$names") {
                return Value::Map((0..count).map(|n| (format!("{n:03}"), Value::Text(String::new()))).collect());
            }
            if let Some(count) = count("$deep") {
                return (0..count).fold(Value::Null, |deep, _| Value::Array(vec![deep]));
            }
            Value::Map(entries.iter().map(|(name, part)| (name.clone(), made(part))).collect())
        }
        other => Value::from(other.clone()),
    }
}

struct Rig {
    objects: MemoryObjects,
    world: World,
    calls: Arc<Mutex<Vec<Json>>>,
    /// The newest intent or timer of each label, and its kind.
    asked: BTreeMap<String, (IntentHash, String)>,
    next: u64,
}

impl Rig {
    fn new(offer: &Json) -> Result<Self, String> {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (mut registry, mut objects) = (Registry::new(), MemoryObjects::new());
        registry.register_native("misuses", 1, Script(calls.clone()));
        let descriptor = mundi_kernel::registry::native_descriptor("misuses", 1).into_bytes();
        let mut manifest = offer.clone();
        manifest["program"] = objects.put(descriptor).to_string().into();
        // An upload adds the engine. It is for components, so that a native program runs without it.
        if let Some(wasm) = manifest["wasm"].as_object_mut() {
            wasm.insert("engine".to_owned(), "test".into());
        }
        let described = mundi_model::json::to_canonical(&manifest);
        Manifest::from_bytes(described.as_bytes()).map_err(|refused| refused.code().to_string())?;
        manifest.as_object_mut().unwrap().remove("wasm");
        let manifest = mundi_model::json::to_canonical(&manifest);
        let manifest = objects.put(manifest.into_bytes());
        let genesis = Genesis { universe: UNIVERSE, world: WORLD, manifest, now_ns: 0 };
        let (world, _) =
            World::create(&objects, Arc::new(registry), genesis).map_err(|refused| refused.code().to_string())?;
        Ok(Self { objects, world, calls, asked: BTreeMap::new(), next: 1 })
    }

    fn payload(&mut self, entry: &Json) -> Payload {
        let bytes = cbor::encode(&made(entry));
        if bytes.len() <= limits::PAYLOAD_INLINE_BYTES_MAX {
            return Payload::Inline(bytes);
        }
        let len = bytes.len() as u64;
        Payload::Blob(self.objects.put(bytes), len)
    }

    /// Says how it ended: `ok`, or the code that is journaled.
    fn take(&mut self, input: Input) -> String {
        let seq = InboxSeq::new(Stamp::new(self.next, 0), 0);
        let origin = Origin { wants_reply: true, ..Origin::new(0) };
        let item = Arrived::Item(Arc::new(InboxItem { input, origin }));
        let arrival = Arrival { seq, item, now_ns: self.next, entropy: [1; 16] };
        self.next += 1;
        let output = self.world.turn(&self.objects, &[arrival], TurnBudget::default()).unwrap().keep();
        self.objects.extend(output.objects.iter().cloned());
        let mut outcome = "ok".to_owned();
        for record in &output.records {
            match cbor::decode::<Record>(record).unwrap().body {
                Body::StepFailed(failed) => outcome = failed.code,
                Body::Rejected(rejected) => outcome = rejected.code.to_string(),
                Body::Intent(intent) => drop(self.asked.insert(intent.label, (intent.hash, intent.kind))),
                _ => {}
            }
        }
        outcome
    }

    fn act(&mut self, action: &Json) -> String {
        let text = |entry: &Json| entry.as_str().unwrap().to_owned();
        if let Some(event) = action.get("event") {
            let value = self.payload(&event[1]);
            return self.take(Input::Event { schema: text(&event[0]), value, key: None });
        }
        let unknown = || (IntentHash::of(b"unknown"), "free".to_owned());
        if let Some(receipt) = action.get("receipt") {
            let (intent, kind) = self.asked.get(&text(&receipt[0])).cloned().unwrap_or_else(unknown);
            let status = if receipt[1] == "ok" { ReceiptStatus::Ok } else { ReceiptStatus::Error };
            let payload = self.payload(&receipt[2]);
            let adapter = "test".to_owned();
            return self.take(Input::Receipt(Receipt {
                intent,
                kind,
                status,
                payload,
                adapter,
                signature: None,
                operator: None,
            }));
        }
        if let Some(label) = action.get("fire") {
            let (timer, _) = self.asked.get(&text(label)).cloned().unwrap_or_else(unknown);
            return self.take(Input::TimerFired { timer, payload: Payload::Inline(Vec::new()) });
        }
        let Some(query) = action.get("query") else {
            return self.take(Input::Event { schema: "go".to_owned(), value: Payload::Inline(vec![0xf6]), key: None });
        };
        let answer = self.world.query(&self.objects, &text(&query[0]), &cbor::encode(&made(&query[1])));
        answer.map_or_else(|refused| refused.code().to_string(), |_| "ok".to_owned())
    }

    fn cell(&self, key: &str) -> Option<Value> {
        let found = self.world.cells().get(&self.objects, key).unwrap();
        found.map(|bytes| cbor::decode(&bytes).unwrap())
    }
}

#[test]
fn every_misuse_gets_the_answer_that_the_table_says() {
    let table: Json = serde_json::from_str(include_str!("../../../../sdk/misuses.json")).unwrap();
    let (mut run, mut wrong) = (0, Vec::new());
    for case in table["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut offer = table["offer"].clone();
        for (field, said) in case["offer"].as_object().into_iter().flatten() {
            offer[field] = said.clone();
        }
        let mut rig = match (Rig::new(&offer), case["offer_is"].as_str()) {
            (Ok(rig), None) => rig,
            (Err(code), Some(expected)) if code == expected => continue,
            (other, expected) => panic!("{name}: {:?} and not {expected:?}", other.err()),
        };
        for action in case["do"].as_array().unwrap() {
            // A native program cannot even write it down; components are asked in the tests of `mundi-wasm`.
            if action["is"] == "PROGRAM_TRAPPED" {
                continue;
            }
            *rig.calls.lock().unwrap() = action["calls"].as_array().cloned().unwrap_or_default();
            let outcome = rig.act(action);
            if outcome != action["is"] {
                wrong.push(format!("{name}: {outcome} after {action}"));
            }
            if let Some(heard) = action["heard"].as_str() {
                assert_eq!(rig.cell("heard"), Some(Value::Text(heard.to_owned())), "{name}");
            }
            run += 1;
        }
        assert_eq!(rig.cell("lost"), None, "{name}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(run > 80, "{run}");
}
