//! A world with a journal in memory, and a program whose events say what it is to do.

use mundi_kernel::{
    MemoryObjects, Note, Registry, World,
    manifest::{EffectRule, Manifest, OnFailure, Schema},
    program::{Cause, EmitError, Event, Failure, Host, Level, Outgoing, Program, SendOptions, View},
    replay::Replay,
    snapshot::TakenSnapshot,
    turn::{Arrival, Arrived, TurnBudget, TurnError, TurnOutput},
};
use mundi_model::{
    Hash, Height, InboxSeq, IntentHash, Stamp, UniverseId, Value, WorldId, cbor,
    record::{Body, Genesis, InboxItem, Input, Origin, Payload, Receipt, ReceiptStatus, Record, Sealed, SnapshotNote},
};
use std::{collections::BTreeMap, sync::Arc};

pub(crate) const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);
pub(crate) const WORLD: WorldId = WorldId::from_bytes([2; 16]);
pub(crate) const CHILD: WorldId = WorldId::from_bytes([3; 16]);

/// Does what its events say, one line each. Version 2 writes one cell more.
pub(crate) struct Script {
    pub(crate) version: u32,
}

impl Program for Script {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Event { schema: "script", value, .. } => {
                let Ok(Value::Text(script)) = cbor::decode(value) else { return Err(Failure::new("no script")) };
                script.lines().try_for_each(|line| self.line(host, event.seq, line))
            }
            Cause::Receipt { label: "unreadable", .. } => Err(Failure::new("cannot read it")),
            Cause::Receipt { label, status, payload, .. } => {
                let answer = [format!("{status:?} ").as_bytes(), payload].concat();
                Ok(host.put(&format!("receipt/{label}"), &answer)?)
            }
            Cause::Timer { label, payload } => {
                let fired = [&host.logical_now_ns().to_be_bytes()[..], payload].concat();
                Ok(host.put(&format!("timer/{label}"), &fired)?)
            }
            Cause::Message { inbox: "script", payload, .. } => {
                let script = String::from_utf8_lossy(payload).into_owned();
                script.lines().try_for_each(|line| self.line(host, event.seq, line))
            }
            Cause::Message { inbox, payload, .. } => Ok(host.put(&format!("message/{inbox}"), payload)?),
            Cause::Upgraded { .. } if self.version == 666 => Err(Failure::new("cannot take over")),
            Cause::Upgraded { from } => Ok(host.put("upgraded", from.as_bytes())?),
            Cause::Event { schema, .. } => Ok(host.put("event", schema.as_bytes())?),
        }
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        match name {
            "cell" => {
                let Ok(Value::Text(key)) = cbor::decode(params) else { return Err(Failure::new("no key")) };
                Ok(view.get(&key)?.unwrap_or_default())
            }
            "panic" => panic!("a query panics"),
            _ => {
                let found = view.scan("", None, 1000)?;
                Ok(found.into_iter().flat_map(|(key, _)| [key.into_bytes(), b" ".to_vec()].concat()).collect())
            }
        }
    }
}

impl Script {
    fn line(&self, host: &mut dyn Host, seq: InboxSeq, line: &str) -> Result<(), Failure> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["put", key, value] => host.put(key, value.as_bytes())?,
            ["fill", key, len] => host.put(key, &vec![b'x'; len.parse().unwrap()])?,
            ["many", prefix, count] => {
                for n in 0..count.parse().unwrap() {
                    host.put(&format!("{prefix}/{n:05}"), b"")?;
                }
            }
            ["wipe", prefix, count] => {
                for n in 0..count.parse().unwrap() {
                    host.delete(&format!("{prefix}/{n:05}"))?;
                }
            }
            ["delete", key] => host.delete(key)?,
            ["add", key] => {
                let before = host.get(key)?.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
                host.put(key, &(before + 1).to_be_bytes())?;
            }
            ["copy", from, to] => {
                let found = host.scan(from, None, 100)?;
                let keys: Vec<_> = found.into_iter().map(|(key, _)| key).collect();
                host.put(to, keys.join(",").as_bytes())?;
            }
            ["random", key] => {
                let number = host.random()?;
                host.put(key, &number.to_be_bytes())?;
            }
            ["now", key] => host.put(key, &host.logical_now_ns().to_be_bytes())?,
            ["emit", kind, label] => host.emit(kind, &cbor::encode(&Value::Text("params".into())), label)?,
            ["emit-large", kind, label] => {
                host.emit(kind, &cbor::encode(&Value::Text("x".repeat(50_000))), label)?;
            }
            ["try-emit", kind, label] => match host.emit(kind, &cbor::encode(&Value::Null), label) {
                Err(EmitError::OpenIntentsFull) => host.put("refused", label.as_bytes())?,
                other => other?,
            },
            ["cancel", label] => {
                host.cancel(label)?;
            }
            ["timer", label, due_ns] => host.set_timer(label, due_ns.parse().unwrap(), label.as_bytes())?,
            ["cancel-timer", label] => {
                host.cancel_timer(label)?;
            }
            ["send", label] => {
                host.send(CHILD, &Outgoing::Event { schema: "script", value: b"\x60" }, label)?;
            }
            ["send-correlated", correlation_id, label] => {
                let options = SendOptions { correlation_id: Some(correlation_id), ..SendOptions::default() };
                host.send_with(CHILD, &Outgoing::Event { schema: "script", value: b"\x60" }, &options, label)?;
            }
            ["send-headers", count, len, label] => {
                let header = |n: usize| (format!("{n:03}"), "x".repeat(len.parse().unwrap()));
                let headers = (0..count.parse().unwrap()).map(header).collect();
                let options =
                    SendOptions { universe: Some(UNIVERSE), headers: Some(&headers), ..SendOptions::default() };
                host.send_with(CHILD, &Outgoing::Event { schema: "script", value: b"\x60" }, &options, label)?;
            }
            ["send-as", name, label] => {
                let options = SendOptions { message_id: Some(Hash::of(name.as_bytes())), ..SendOptions::default() };
                host.send_with(CHILD, &Outgoing::Event { schema: "script", value: b"\x60" }, &options, label)?;
            }
            ["spawn", label] => {
                let child = host.spawn(&Hash::of(b"manifest").into(), None, label)?;
                host.put("spawned", child.as_bytes())?;
            }
            ["reply", text] => host.reply(seq, text.as_bytes())?,
            ["log", text] => host.log(Level::Info, text),
            ["fail", reason] => return Err(Failure::new(reason)),
            ["panic", text] => panic!("{text}"),
            ["v2"] if self.version == 2 => host.put("v2", b"")?,
            ["v2"] => {}
            _ => return Err(Failure::new(format!("no such line: {line}"))),
        }
        Ok(())
    }
}

pub(crate) struct Rig {
    pub(crate) objects: MemoryObjects,
    pub(crate) registry: Arc<Registry>,
    pub(crate) world: World,
    pub(crate) journal: Vec<Vec<u8>>,
    pub(crate) now_ns: u64,
    pub(crate) next_seq: u64,
}

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    for version in [1, 2, 666] {
        registry.register_native("script", version, Script { version });
    }
    registry
}

pub(crate) fn manifest(version: u32) -> Manifest {
    let program = Hash::of(mundi_kernel::registry::native_descriptor("script", version).as_bytes());
    let mut manifest = Manifest::new(program);
    manifest.events.insert("script".into(), Schema::anything());
    for kind in ["http", "mail", "fabric.send", "world.spawn"] {
        manifest.effects.insert(kind.into(), EffectRule::default());
    }
    for name in ["cell", "panic", "keys"] {
        manifest.queries.insert(name.into(), Schema::anything());
    }
    manifest
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(&manifest(1))
    }

    pub(crate) fn pausing_after(failures: u32) -> Self {
        Self::with(&Manifest { on_failure: OnFailure::PauseAfter(failures), ..manifest(1) })
    }

    pub(crate) fn with(manifest: &Manifest) -> Self {
        Self::beside(manifest, registry())
    }

    /// With other programs in the process.
    pub(crate) fn beside(manifest: &Manifest, registry: Registry) -> Self {
        let mut objects = MemoryObjects::new();
        for version in [1, 2, 666] {
            objects.put(mundi_kernel::registry::native_descriptor("script", version).into_bytes());
        }
        let manifest = objects.put(manifest.to_bytes());
        let registry = Arc::new(registry);
        let genesis = Genesis { universe: UNIVERSE, world: WORLD, manifest, now_ns: 1_000 };
        let (world, first) = World::create(&objects, registry.clone(), genesis).unwrap();
        Self { objects, registry, world, journal: vec![first], now_ns: 1_000, next_seq: 1 }
    }

    pub(crate) fn store_manifest(&mut self, manifest: &Manifest) -> Hash {
        self.objects.put(manifest.to_bytes())
    }

    /// The next place of the inbox, with the clock a little later.
    pub(crate) fn arrival(&mut self, input: Input) -> Arrival {
        let origin = Origin { wants_reply: true, ..Origin::new(0) };
        self.now_ns += 10;
        let seq = InboxSeq::new(Stamp::new(self.next_seq, 0), 0);
        self.next_seq += 1;
        let mut entropy = [0; 16];
        entropy[8..].copy_from_slice(&self.next_seq.to_be_bytes());
        Arrival { seq, item: Arrived::Item(Arc::new(InboxItem { input, origin })), now_ns: self.now_ns, entropy }
    }

    pub(crate) fn try_turn(&mut self, arrivals: &[Arrival]) -> Result<TurnOutput, TurnError> {
        let output = self.world.turn(&self.objects, arrivals, TurnBudget::default())?.keep();
        self.objects.extend(output.objects.iter().cloned());
        self.journal.extend(output.records.iter().map(|record| record.to_vec()));
        Ok(output)
    }

    pub(crate) fn turn(&mut self, arrivals: &[Arrival]) -> TurnOutput {
        self.try_turn(arrivals).unwrap()
    }

    pub(crate) fn take(&mut self, input: Input) -> TurnOutput {
        let arrival = self.arrival(input);
        self.turn(&[arrival])
    }

    pub(crate) fn run(&mut self, script: &str) -> TurnOutput {
        self.take(event(script))
    }

    /// Runs a script whose first intent the parent did not ask for.
    pub(crate) fn end_recording(&mut self, script: &str) -> TurnOutput {
        let arrival = self.arrival(event(script));
        let mut turn = self.world.turn(&self.objects, &[arrival], TurnBudget::default()).unwrap();
        turn.end_recording(turn.output().publish[0].intent.hash);
        let output = turn.keep();
        self.journal.extend(output.records.iter().map(|record| record.to_vec()));
        output
    }

    pub(crate) fn cell(&self, key: &str) -> Option<Vec<u8>> {
        let found = self.world.query(&self.objects, "cell", &cbor::encode(&Value::Text(key.into()))).unwrap();
        (!found.is_empty()).then_some(found)
    }

    pub(crate) fn text(&self, key: &str) -> String {
        String::from_utf8_lossy(&self.cell(key).unwrap_or_default()).into_owned()
    }

    /// Takes a snapshot and stores it, without noting it.
    pub(crate) fn snapshot(&mut self) -> TakenSnapshot {
        let taken = self.world.snapshot(&self.objects).unwrap();
        self.objects.extend(taken.objects.iter().cloned());
        self.world.saved(&taken);
        taken
    }

    pub(crate) fn note(&mut self, note: Note) -> Result<(), TurnError> {
        let output = self.world.note(&self.objects, note)?.keep();
        self.journal.extend(output.records.iter().map(|record| record.to_vec()));
        Ok(())
    }

    pub(crate) fn restore(&self, note: &SnapshotNote) -> World {
        World::restore(&self.objects, self.registry.clone(), note).unwrap()
    }

    pub(crate) fn replayed(&self) -> World {
        let mut replay = Replay::from_genesis(&self.objects, self.registry.clone(), &self.journal[0]).unwrap();
        replay.run(&self.objects, &self.journal[1..], None).unwrap();
        replay.finish().unwrap()
    }

    /// The kind of each record, in one word.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.journal.iter().map(|bytes| kind(&body(bytes))).collect()
    }
}

pub(crate) fn body(bytes: &[u8]) -> Body {
    cbor::decode::<Record>(bytes).unwrap().body
}

pub(crate) fn kind(body: &Body) -> &'static str {
    match body {
        Body::Genesis(_) => "genesis",
        Body::ForkGenesis(_) => "fork",
        Body::Ingress(_) => "ingress",
        Body::Intent(_) => "intent",
        Body::Cancel(_) => "cancel",
        Body::Reply(_) => "reply",
        Body::ManifestChange(_) => "manifest",
        Body::Snapshot(_) => "snapshot",
        Body::BaselineSnapshot(_) => "baseline",
        Body::Rejected(_) => "rejected",
        Body::OutcomeDigest(_) => "digest",
        Body::Custom(_) => "custom",
        Body::StepFailed(_) => "failed",
        Body::RecordingEnded(_) => "recording ended",
        Body::Held(_) => "held",
    }
}

/// The code of the first record that rejects or fails.
pub(crate) fn refusal(output: &TurnOutput) -> String {
    let code = |record: &Sealed| match body(record) {
        Body::Rejected(rejected) => Some(rejected.code),
        Body::StepFailed(failed) => Some(failed.code),
        _ => None,
    };
    output.records.iter().find_map(code).unwrap_or_default()
}

pub(crate) fn event(script: &str) -> Input {
    let value = cbor::encode(&Value::Text(script.into()));
    let value = if value.len() > 10_000 { panic!("a long script") } else { Payload::Inline(value) };
    Input::Event { schema: "script".into(), value, key: None }
}

pub(crate) fn message(inbox: &str, text: &str) -> Input {
    Input::Message { inbox: inbox.into(), payload: Payload::Inline(text.into()), headers: BTreeMap::new() }
}

pub(crate) fn receipt(intent: IntentHash, kind: &str, status: ReceiptStatus, payload: &[u8]) -> Input {
    Input::Receipt(Receipt {
        intent,
        kind: kind.into(),
        status,
        payload: Payload::Inline(payload.to_vec()),
        adapter: "test".into(),
        signature: None,
        operator: None,
    })
}

pub(crate) fn fired(timer: IntentHash) -> Input {
    Input::TimerFired { timer, payload: Payload::Inline(Vec::new()) }
}

pub(crate) fn control(command: &str, payload: Vec<u8>) -> Input {
    Input::Control { command: command.into(), payload: Payload::Inline(payload) }
}

pub(crate) fn upgrade(manifest: Hash) -> Input {
    control("upgrade", cbor::encode(&mundi_kernel::Upgrade { manifest, forced: false }))
}

/// The whole of a world as one hash: what a snapshot of it would be.
pub(crate) fn identity(world: &mut World, objects: &MemoryObjects) -> (Height, Hash) {
    let taken = world.snapshot(objects).unwrap();
    (taken.note.height, taken.note.snapshot)
}
