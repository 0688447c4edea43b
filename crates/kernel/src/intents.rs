//! Intents: their hash, the reserved kinds, and the register of those that are open.

use crate::{
    objects::Object,
    program::{Outgoing, SendOptions},
    undo::{Mark, UndoMap},
};
use minicbor::{Decode, Encode};
use mundi_model::{
    Hash, Height, IntentHash, ProgramAddress, Value, WorldAddress, WorldId, cbor, limits,
    record::{Intent, Payload},
};
use std::collections::BTreeMap;

/// The kind of the intent that a timer is.
pub const TIMER_SET: &str = "timer.set";
/// The kind of the intent that a message to another world is.
pub const FABRIC_SEND: &str = "fabric.send";
/// The kind of the intent that calls another world: its receipt is the reply.
pub const WORLD_CALL: &str = "world.call";
/// The kind of the intent that asks for a new world.
pub const WORLD_SPAWN: &str = "world.spawn";

/// Where an intent was emitted: the height of the record whose step did, and its place among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct EmittedAt {
    #[n(0)]
    pub height: Height,
    #[n(1)]
    pub index: u32,
}

/// The name of an intent. It covers the world, so that a fork's effect is never taken for its parent's.
pub fn intent_hash(world: WorldId, place: EmittedAt, kind: &str, params: &Payload) -> IntentHash {
    IntentHash::of(&cbor::encode(&("mundi.intent.1", world, place, kind, params)))
}

/// The id of a spawned world: known before the world exists, and never given twice.
pub(crate) fn spawned_world(parent: WorldId, place: EmittedAt) -> WorldId {
    let hash = Hash::of(&cbor::encode(&("mundi.world.1", parent, place)));
    let mut id = [0; WorldId::LEN];
    id.copy_from_slice(&hash.as_bytes()[..WorldId::LEN]);
    WorldId::from_bytes(id)
}

/// The parameters of [`TIMER_SET`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TimerSet {
    #[n(0)]
    pub due_ns: u64,
    #[n(1)]
    pub payload: Payload,
}

/// The parameters of [`FABRIC_SEND`], and of [`WORLD_SPAWN`] with a manifest or the name of a program. What is not said is not written: an intent's hash
/// covers these bytes.
pub(crate) fn message_params(
    to: &WorldAddress,
    program: Option<&ProgramAddress>,
    message: Option<&Outgoing<'_>>,
    options: &SendOptions<'_>,
) -> Vec<u8> {
    let text = |text: &str| Value::Text(text.to_owned());
    let mut params = BTreeMap::from([("dest_world".to_owned(), text(&to.to_string()))]);
    let mut set = |name: &str, value: Value| params.insert(name.to_owned(), value);
    if let Some(program) = program {
        set("manifest", text(&program.to_string()));
    }
    match message {
        None => {}
        Some(Outgoing::Event { schema, value }) => {
            if let Some(headers) = options.headers.filter(|headers| !headers.is_empty()) {
                set("headers", texts(headers.iter()));
            }
            set("mode", text("typed_event"));
            set("schema", text(schema));
            set("value_cbor", Value::Bytes(value.to_vec()));
        }
        Some(Outgoing::Message { inbox, payload, headers }) => {
            set("mode", text("inbox"));
            set("inbox", text(inbox));
            set("payload_cbor", Value::Bytes(payload.to_vec()));
            set("headers", texts(headers.iter().chain(options.headers.into_iter().flatten())));
        }
    }
    if let Some(universe) = options.universe {
        set("dest_universe", text(&universe.to_string()));
    }
    if let Some(correlation_id) = options.correlation_id {
        set("correlation_id", text(correlation_id));
    }
    if let Some(message_id) = options.message_id {
        set("message_id", text(&message_id.to_string()));
    }
    cbor::encode(&Value::Map(params))
}

/// A map of texts; of two with the same key the later one holds.
fn texts<'t>(pairs: impl Iterator<Item = (&'t String, &'t String)>) -> Value {
    Value::Map(pairs.map(|(name, value)| (name.clone(), Value::Text(value.clone()))).collect())
}

/// Headers are few and small.
pub fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), String> {
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
    let (count, max, bytes_max) = (headers.len(), limits::HEADERS_MAX, limits::HEADERS_BYTES_MAX);
    if count > max || bytes > bytes_max {
        return Err(format!("{count} headers with {bytes} bytes; at most {max} with {bytes_max} bytes are allowed"));
    }
    Ok(())
}

/// A payload as records carry it: inline, or the hash of an object that is then in `objects`.
pub(crate) fn payload(bytes: &[u8], objects: &mut Vec<Object>) -> Payload {
    if bytes.len() <= limits::PAYLOAD_INLINE_BYTES_MAX {
        return Payload::Inline(bytes.to_vec());
    }
    let hash = Hash::of(bytes);
    objects.push((hash, bytes.into()));
    Payload::Blob(hash, bytes.len() as u64)
}

/// An intent that waits for its receipt, or a timer that has not fired.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct OpenIntent {
    #[n(0)]
    pub hash: IntentHash,
    #[n(1)]
    pub kind: String,
    #[n(2)]
    pub params: Payload,
    #[n(3)]
    pub label: String,
    #[n(4)]
    pub place: EmittedAt,
}

impl OpenIntent {
    pub(crate) fn record(&self) -> Intent {
        let Self { hash, kind, params, label, .. } = self.clone();
        Intent { hash, kind, params, label }
    }

    /// The timer, when it is one.
    pub(crate) fn timer(&self) -> Option<TimerSet> {
        match &self.params {
            Payload::Inline(bytes) if self.kind == TIMER_SET => cbor::decode(bytes).ok(),
            _ => None,
        }
    }

    /// The objects that it refers to.
    pub(crate) fn blob(&self) -> Option<Hash> {
        let payload = self.timer().map_or_else(|| self.params.clone(), |timer| timer.payload);
        match payload {
            Payload::Blob(hash, _) => Some(hash),
            Payload::Inline(_) => None,
        }
    }
}

/// Open intents by hash, and by the label that the program knows them by.
#[derive(Debug, Clone)]
pub(crate) struct Register {
    by_hash: UndoMap<IntentHash, OpenIntent>,
    by_label: UndoMap<String, IntentHash>,
}

impl Register {
    pub(crate) fn new(intents: impl IntoIterator<Item = OpenIntent>) -> Self {
        let by_hash: BTreeMap<_, _> = intents.into_iter().map(|intent| (intent.hash, intent)).collect();
        let by_label = by_hash.values().map(|intent| (intent.label.clone(), intent.hash)).collect();
        Self { by_hash: UndoMap::new(by_hash), by_label: UndoMap::new(by_label) }
    }

    pub(crate) fn len(&self) -> u64 {
        self.by_hash.map().len() as u64
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpenIntent> {
        self.by_hash.map().values()
    }

    pub(crate) fn get(&self, hash: &IntentHash) -> Option<&OpenIntent> {
        self.by_hash.map().get(hash)
    }

    pub(crate) fn has_label(&self, label: &str) -> bool {
        self.by_label.map().contains_key(label)
    }

    pub(crate) fn open(&mut self, intent: OpenIntent) {
        self.by_label.insert(intent.label.clone(), intent.hash);
        self.by_hash.insert(intent.hash, intent);
    }

    pub(crate) fn close(&mut self, hash: &IntentHash) -> Option<OpenIntent> {
        let intent = self.by_hash.remove(hash)?;
        self.by_label.remove(&intent.label);
        Some(intent)
    }

    pub(crate) fn close_labelled(&mut self, label: &str) -> Option<OpenIntent> {
        let hash = self.by_label.map().get(label).copied()?;
        self.close(&hash)
    }

    pub(crate) fn mark(&self) -> (Mark, Mark) {
        (self.by_hash.mark(), self.by_label.mark())
    }

    pub(crate) fn undo_to(&mut self, (by_hash, by_label): (Mark, Mark)) {
        self.by_hash.undo_to(by_hash);
        self.by_label.undo_to(by_label);
    }

    pub(crate) fn keep(&mut self) {
        self.by_hash.keep();
        self.by_label.keep();
    }
}
