//! Stored values as JSON.

use super::{Problem, moment::Moment};
use minicbor::data::Int;
use mundi_kernel::{
    Repair,
    intents::{TIMER_SET, TimerSet},
};
use mundi_model::{
    Height, LabelChange, Value, WorldId, cbor, hex, parse_hex_bytes,
    record::{Body, InboxItem, Input, Operator, Payload, Receipt, ReceiptStatus, ReplyOutcome, SnapshotNote},
};
use mundi_store::journal::StoredRecord;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use utoipa::ToSchema;

/// A value, always: what JSON has no form for is shown as an object with one `$` key.
pub(crate) fn value(value: &Value) -> Json {
    match value {
        Value::Bytes(bytes) => json!({ "$bytes": hex(bytes) }),
        Value::Array(items) => items.iter().map(self::value).collect(),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|(key, entry)| (key.clone(), self::value(entry))).collect::<Map<_, _>>())
        }
        Value::Integer(integer) if !fits_javascript(*integer) => json!({ "$integer": integer.to_string() }),
        plain => plain.to_json().unwrap_or_else(|_| json!({ "$number": format!("{plain:?}") })),
    }
}

/// Whether a reader that takes every number for a double, as JavaScript does, keeps the integer (RFC 7493).
fn fits_javascript(integer: Int) -> bool {
    const MAX: i64 = (1 << 53) - 1;
    i64::try_from(integer).is_ok_and(|integer| (-MAX..=MAX).contains(&integer))
}

/// A value as clients write it: what [`value`] shows as an object with one `$` key is taken in that form, too.
pub(crate) fn given(json: Json) -> Result<Value, Problem> {
    unmarked(Value::from(json))
}

/// The same for what was read already.
pub(crate) fn unmarked(value: Value) -> Result<Value, Problem> {
    Ok(match value {
        Value::Array(items) => Value::Array(items.into_iter().map(unmarked).collect::<Result<_, _>>()?),
        Value::Map(entries) => {
            if let (1, Some((key, Value::Text(text)))) = (entries.len(), entries.first_key_value())
                && let Some(marked) = marked(key, text)
            {
                return marked;
            }
            let entry = |(key, value)| Ok((key, unmarked(value)?));
            Value::Map(entries.into_iter().map(entry).collect::<Result<_, Problem>>()?)
        }
        plain => plain,
    })
}

/// The value that an object with one key stands for, if the key is one of ours.
fn marked(key: &str, text: &str) -> Option<Result<Value, Problem>> {
    let refused = |expected| Problem::invalid(format!("`{{\"{key}\": …}}`: expected {expected}"));
    match key {
        "$integer" => {
            let signed = text.parse::<i64>().map(Int::from);
            let integer = signed.or_else(|_| text.parse::<u64>().map(Int::from)).ok();
            let integer = integer.filter(|integer| integer.to_string() == text);
            Some(integer.map(Value::Integer).ok_or_else(|| refused("the decimal digits of an integer of 64 bits")))
        }
        "$bytes" => {
            let bytes = parse_hex_bytes(text).map(Value::Bytes);
            Some(bytes.ok_or_else(|| refused("pairs of hex digits in lower case")))
        }
        _ => None,
    }
}

/// Bytes that are usually CBOR.
pub(crate) fn bytes(bytes: &[u8]) -> Json {
    match cbor::decode::<Value>(bytes) {
        Ok(found) => value(&found),
        Err(_) => json!({ "$bytes": hex(bytes) }),
    }
}

pub(crate) fn payload(payload: &Payload) -> Json {
    match payload {
        Payload::Inline(inline) => bytes(inline),
        Payload::Blob(hash, len) => json!({ "$blob": hash, "bytes": len }),
    }
}

pub(crate) fn status(status: ReceiptStatus) -> &'static str {
    match status {
        ReceiptStatus::Ok => "ok",
        ReceiptStatus::Error => "error",
        ReceiptStatus::Timeout => "timeout",
    }
}

pub(crate) fn record(record: &StoredRecord) -> JournalRecord {
    let json = match record.decode() {
        Ok(decoded) => body(&decoded.body),
        Err(error) => json!({ "type": "unreadable", "reason": error.to_string() }),
    };
    let mut rest = match json {
        Json::Object(rest) => rest,
        _ => Map::new(),
    };
    let record_type = rest.remove("type").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    JournalRecord { height: record.height.get(), hash: record.hash.to_string(), record_type, rest }
}

pub(crate) fn body(body: &Body) -> Json {
    match body {
        Body::Genesis(genesis) => {
            json!({ "type": "genesis", "manifest": genesis.manifest, "now_ns": genesis.now_ns, "now": Moment::of(genesis.now_ns) })
        }
        Body::ForkGenesis(fork) => {
            let mut json = json!({
                "type": "fork_genesis", "parent": fork.parent, "forked_at": fork.forked_at,
                "policy": fork.policy.as_str(), "answers": fork.answers, "now_ns": fork.now_ns,
                "now": Moment::of(fork.now_ns),
            });
            if let Some(manifest) = fork.manifest {
                json["manifest"] = json!(manifest);
            }
            json
        }
        Body::Ingress(ingress) => {
            let mut json = item(&ingress.item);
            json["type"] = json!("ingress");
            if let Some(event_hash) = ingress.event_hash {
                json["event_hash"] = json!(event_hash);
            }
            json["seq"] = json!(ingress.seq);
            json["now_ns"] = json!(ingress.stamps.now_ns);
            json["now"] = json!(Moment::of(ingress.stamps.now_ns));
            json["logical_now_ns"] = json!(ingress.stamps.logical_now_ns);
            json["logical_now"] = json!(Moment::of(ingress.stamps.logical_now_ns));
            json["manifest"] = json!(ingress.stamps.manifest);
            json
        }
        Body::Intent(intent) => json!({
            "type": "intent", "intent": intent.hash, "kind": intent.kind, "params": params(&intent.kind, &intent.params),
            "label": intent.label,
        }),
        Body::Cancel(intent) => json!({ "type": "cancel", "intent": intent }),
        Body::Reply(reply) => {
            let outcome = match &reply.outcome {
                ReplyOutcome::Ok(found) => json!({ "ok": payload(found) }),
                ReplyOutcome::Failed(code, reason, None) => json!({ "code": code, "reason": reason }),
                ReplyOutcome::Failed(code, reason, Some(height)) => {
                    json!({ "code": code, "reason": reason, "height": height })
                }
            };
            json!({ "type": "reply", "to": reply.to, "outcome": outcome })
        }
        Body::ManifestChange(change) => {
            json!({ "type": "manifest_change", "from": change.from, "to": change.to, "forced": change.forced })
        }
        Body::Snapshot(note) => json!({ "type": "snapshot", "snapshot": Snapshot::from(note) }),
        Body::BaselineSnapshot(note) => json!({ "type": "baseline_snapshot", "snapshot": Snapshot::from(note) }),
        Body::Rejected(rejected) => json!({
            "type": "rejected", "seq": rejected.seq, "code": rejected.code, "reason": rejected.reason,
            "item": rejected.item,
        }),
        Body::OutcomeDigest(digest) => json!({ "type": "outcome_digest", "digest": digest }),
        Body::Custom(custom) => json!({ "type": "custom", "kind": custom.kind, "payload": payload(&custom.payload) }),
        Body::RecordingEnded(intent) => json!({ "type": "recording_ended", "intent": intent }),
        Body::Held(held) => {
            let mut json = json!({ "type": "held", "code": held.code, "reason": held.reason });
            if let Some(failed) = &held.failed {
                json["input"] = json!({ "seq": failed.seq, "item": failed.item, "what": failed.what });
            }
            json
        }
        Body::StepFailed(failed) => json!({ "type": "step_failed", "code": failed.code, "reason": failed.reason }),
    }
}

/// The params of an intent. A timer has no value of its program there, but a moment and the payload that comes back at it.
pub(super) fn params(kind: &str, params: &Payload) -> Json {
    let timer = match params {
        Payload::Inline(bytes) if kind == TIMER_SET => cbor::decode::<TimerSet>(bytes).ok(),
        _ => None,
    };
    match timer {
        Some(TimerSet { due_ns, payload: set }) => {
            json!({ "due_ns": due_ns, "due": Moment::of(due_ns), "payload": payload(&set) })
        }
        None => payload(params),
    }
}

fn receipt(receipt: &Receipt) -> Json {
    let mut json = json!({
        "receipt": receipt.intent, "kind": receipt.kind, "status": status(receipt.status),
        "payload": payload(&receipt.payload), "adapter": receipt.adapter,
    });
    if let Some(signature) = &receipt.signature {
        json["signature"] = json!(hex(signature));
    }
    if let Some(by) = &receipt.operator {
        json["operator"] = operator(by);
    }
    json
}

fn operator(Operator { token, name }: &Operator) -> Json {
    json!({ "token": token.map(|token| hex(&token.to_be_bytes())), "name": name })
}

/// The payload of a command, if it is this one.
fn decoded<T>(wanted: &str, command: &str, payload: &Payload) -> Option<T>
where
    T: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>,
{
    match payload {
        Payload::Inline(bytes) if command == wanted => cbor::decode(bytes).ok(),
        _ => None,
    }
}

/// The payload of the commands `retry` and `skip`.
fn repair(command: &str, payload: &Payload) -> Option<Repair> {
    match payload {
        Payload::Inline(bytes) if ["retry", "skip"].contains(&command) => cbor::decode(bytes).ok(),
        _ => None,
    }
}

pub(crate) fn item(item: &InboxItem) -> Json {
    let input = match &item.input {
        Input::Event { schema, value, key } => json!({ "event": schema, "value": payload(value), "key": key }),
        Input::Receipt(receipt) => self::receipt(receipt),
        Input::Message { inbox, payload: sent, headers } => {
            json!({ "message": inbox, "payload": payload(sent), "headers": headers })
        }
        Input::TimerFired { timer, payload: set } => json!({ "timer": timer, "payload": payload(set) }),
        Input::Control { command, payload: given } => {
            let mut json = json!({ "control": command, "payload": payload(given) });
            if let Some(Repair { seq, operator }) = repair(command, given) {
                json["input"] = json!(seq);
                json["operator"] = self::operator(&operator);
            }
            if let Some(by) = decoded("pause", command, given) {
                json["operator"] = self::operator(&by);
            }
            if let Some(LabelChange { set, remove, operator }) = decoded(LabelChange::COMMAND, command, given) {
                json["labels"] = json!({ "set": set.to_map(), "remove": remove });
                json["operator"] = operator.as_ref().map_or(Json::Null, self::operator);
            }
            json
        }
    };
    let origin = &item.origin;
    let sender = origin.sender.as_ref().map(|sender| json!({ "world": sender.world, "height": sender.height }));
    let mut json = json!({
        "input": input, "enqueued_at_ns": origin.enqueued_at_ns, "enqueued_at": Moment::of(origin.enqueued_at_ns), "correlation_id": origin.correlation_id,
        "trace": origin.trace, "wants_reply": origin.wants_reply, "sender": sender,
    });
    if !origin.headers.is_empty() {
        json["headers"] = json!(origin.headers);
    }
    json
}

/// A snapshot: everything below its height as one state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Snapshot {
    snapshot: String,
    height: u64,
    logical_time_ns: u64,
    logical_time: Moment,
    /// The height up to which receipts may have been taken in that the snapshot still needs.
    receipt_horizon: Option<u64>,
    manifest: String,
    /// The hash of the record before it.
    chain: String,
}

impl From<&SnapshotNote> for Snapshot {
    fn from(note: &SnapshotNote) -> Self {
        Self {
            snapshot: note.snapshot.to_string(),
            height: note.height.get(),
            logical_time_ns: note.logical_time_ns,
            logical_time: Moment::of(note.logical_time_ns),
            receipt_horizon: note.receipt_horizon.map(Height::get),
            manifest: note.manifest.to_string(),
            chain: note.chain.to_string(),
        }
    }
}

/// A record of a journal. What it has besides is that of its type.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JournalRecord {
    height: u64,
    /// The hash that the next record is chained to.
    hash: String,
    /// `genesis`, `fork_genesis`, `ingress`, `intent`, `cancel`, `reply`, `manifest_change`, `snapshot`,
    /// `baseline_snapshot`, `rejected`, `outcome_digest`, `custom`, `recording_ended`, `held` or `step_failed`.
    #[serde(rename = "type")]
    record_type: String,
    #[serde(flatten)]
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    rest: Map<String, Json>,
}

impl JournalRecord {
    /// The world besides its own that it names: who sent an input, or the parent of a fork. What stands in the values of programs is theirs.
    pub(crate) fn other_world(&self) -> Option<WorldId> {
        let world = match self.rest.get("sender") {
            Some(Json::Object(sender)) => sender.get("world"),
            _ => self.rest.get("parent"),
        };
        world.and_then(Json::as_str).and_then(|world| world.parse().ok())
    }

    /// The name of that world, beside its id.
    pub(crate) fn set_other_name(&mut self, name: &str) {
        match self.rest.get_mut("sender") {
            Some(Json::Object(sender)) => drop(sender.insert("world_name".to_owned(), name.into())),
            _ => drop(self.rest.insert("parent_name".to_owned(), name.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_integer_travels_as_text_and_comes_back() {
        let shown = |text: &str| value(&mundi_model::json::parse(text.as_bytes()).unwrap());
        assert_eq!(shown("9007199254740991"), json!(9_007_199_254_740_991_u64));
        assert_eq!(shown("[9007199254740992]"), json!([{ "$integer": "9007199254740992" }]));
        assert_eq!(shown("-9007199254740992"), json!({ "$integer": "-9007199254740992" }));
        for bad in ["", "1.5", "007", "+1", "18446744073709551616", "x"] {
            assert!(given(json!({ "$integer": bad })).is_err(), "{bad}");
        }
        for bad in ["a", "zz", "+1", "é"] {
            assert!(given(json!({ "$bytes": bad })).is_err(), "{bad}");
        }
        let plain = json!({ "$integer": "1", "other": 2 });
        assert_eq!(given(plain.clone()).unwrap(), Value::from(plain));
    }

    #[test]
    fn what_is_shown_can_be_given_back() {
        let integers = [0, 1, (1 << 53) - 1, 1 << 53, u64::MAX].map(|integer| Value::Integer(integer.into()));
        let negative = [-1, -(1 << 53), i64::MIN].map(|integer| Value::Integer(integer.into()));
        let bytes = [vec![], vec![0, 255, 16]].map(Value::Bytes);
        let all = Value::Array([&integers[..], &negative[..], &bytes[..]].concat());
        let nested = Value::Map([("x".to_owned(), all)].into());
        assert_eq!(given(value(&nested)).unwrap(), nested);
        let text = value(&nested).to_string();
        assert_eq!(unmarked(mundi_model::json::parse(text.as_bytes()).unwrap()).unwrap(), nested);
    }
}
