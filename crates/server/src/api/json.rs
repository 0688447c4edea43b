//! How stored things look in JSON.

use mundi_model::{
    Height, Value, cbor, hex, parse_hex,
    record::{Body, InboxItem, Input, Operator, Payload, Receipt, ReceiptStatus, ReplyOutcome, SnapshotNote},
};
use mundi_store::journal::StoredRecord;
use serde_json::{Map, Value as Json, json};

/// A value, always: what JSON has no form for is shown as an object with one `$` key.
pub(crate) fn value(value: &Value) -> Json {
    match value {
        Value::Bytes(bytes) => json!({ "$bytes": hex(bytes) }),
        Value::Array(items) => items.iter().map(self::value).collect(),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|(key, entry)| (key.clone(), self::value(entry))).collect::<Map<_, _>>())
        }
        plain => plain.to_json().unwrap_or_else(|_| json!({ "$number": format!("{plain:?}") })),
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| parse_hex::<1>(str::from_utf8(pair).ok()?).map(|[byte]| byte)).collect()
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

/// A value of what [`value`] shows, bytes included.
pub(crate) fn read(json: Json) -> Result<Value, String> {
    Ok(match json {
        Json::Object(members) if members.len() == 1 && members.contains_key("$bytes") => {
            let text = members.get("$bytes").and_then(Json::as_str).ok_or("`$bytes` is not a text")?;
            Value::Bytes(from_hex(text).ok_or("`$bytes` is not in hex")?)
        }
        Json::Object(members) => {
            let member = |(name, json)| Ok::<_, String>((name, read(json)?));
            Value::Map(members.into_iter().map(member).collect::<Result<_, _>>()?)
        }
        Json::Array(items) => Value::Array(items.into_iter().map(read).collect::<Result<_, _>>()?),
        plain => Value::from(plain),
    })
}

pub(crate) fn status(status: ReceiptStatus) -> &'static str {
    match status {
        ReceiptStatus::Ok => "ok",
        ReceiptStatus::Error => "error",
        ReceiptStatus::Timeout => "timeout",
    }
}

pub(crate) fn record(record: &StoredRecord) -> Json {
    let mut json = match record.decode() {
        Ok(decoded) => body(&decoded.body),
        Err(error) => json!({ "type": "unreadable", "reason": error.to_string() }),
    };
    json["height"] = json!(record.height);
    json["hash"] = json!(record.hash);
    json
}

pub(crate) fn body(body: &Body) -> Json {
    match body {
        Body::Genesis(genesis) => {
            json!({ "type": "genesis", "manifest": genesis.manifest, "now_ns": genesis.now_ns })
        }
        Body::ForkGenesis(fork) => json!({
            "type": "fork_genesis", "parent": fork.parent, "forked_at": fork.forked_at,
            "policy": fork.policy.as_str(), "answers": fork.answers, "now_ns": fork.now_ns,
        }),
        Body::Ingress(ingress) => {
            let mut json = item(&ingress.item);
            json["type"] = json!("ingress");
            if let Some(event_hash) = ingress.event_hash {
                json["event_hash"] = json!(event_hash);
            }
            json["seq"] = json!(ingress.seq);
            json["now_ns"] = json!(ingress.stamps.now_ns);
            json["logical_now_ns"] = json!(ingress.stamps.logical_now_ns);
            json["manifest"] = json!(ingress.stamps.manifest);
            json
        }
        Body::Intent(intent) => json!({
            "type": "intent", "intent": intent.hash, "kind": intent.kind, "params": payload(&intent.params),
            "label": intent.label,
        }),
        Body::Cancel(intent) => json!({ "type": "cancel", "intent": intent }),
        Body::Reply(reply) => {
            let outcome = match &reply.outcome {
                ReplyOutcome::Ok(found) => json!({ "ok": payload(found) }),
                ReplyOutcome::Failed(code, reason) => json!({ "code": code, "reason": reason }),
            };
            json!({ "type": "reply", "to": reply.to, "outcome": outcome })
        }
        Body::ManifestChange(change) => {
            json!({ "type": "manifest_change", "from": change.from, "to": change.to, "forced": change.forced })
        }
        Body::Snapshot(note) => json!({ "type": "snapshot", "snapshot": snapshot(note) }),
        Body::BaselineSnapshot(note) => json!({ "type": "baseline_snapshot", "snapshot": snapshot(note) }),
        Body::Rejected(rejected) => json!({
            "type": "rejected", "seq": rejected.seq, "code": rejected.code, "reason": rejected.reason,
            "item": rejected.item,
        }),
        Body::OutcomeDigest(digest) => json!({ "type": "outcome_digest", "digest": digest }),
        Body::Custom(custom) => json!({ "type": "custom", "kind": custom.kind, "payload": payload(&custom.payload) }),
        Body::RecordingEnded(intent) => json!({ "type": "recording_ended", "intent": intent }),
        Body::Held(held) => json!({ "type": "held", "code": held.code, "reason": held.reason }),
        Body::StepFailed(failed) => json!({ "type": "step_failed", "code": failed.code, "reason": failed.reason }),
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
    if let Some(Operator { token, name }) = &receipt.operator {
        json["operator"] = json!({ "token": token.map(|token| hex(&token.to_be_bytes())), "name": name });
    }
    json
}

pub(crate) fn item(item: &InboxItem) -> Json {
    let input = match &item.input {
        Input::Event { schema, value, key } => json!({ "event": schema, "value": payload(value), "key": key }),
        Input::Receipt(receipt) => self::receipt(receipt),
        Input::Message { inbox, payload: sent, headers } => {
            json!({ "message": inbox, "payload": payload(sent), "headers": headers })
        }
        Input::TimerFired { timer, payload: set } => json!({ "timer": timer, "payload": payload(set) }),
        Input::Control { command, payload: given } => json!({ "control": command, "payload": payload(given) }),
    };
    let origin = &item.origin;
    let sender = origin.sender.as_ref().map(|sender| json!({ "world": sender.world, "height": sender.height }));
    let mut json = json!({
        "input": input, "enqueued_at_ns": origin.enqueued_at_ns, "correlation_id": origin.correlation_id,
        "trace": origin.trace, "wants_reply": origin.wants_reply, "sender": sender,
    });
    if !origin.headers.is_empty() {
        json["headers"] = json!(origin.headers);
    }
    json
}

pub(crate) fn snapshot(note: &SnapshotNote) -> Json {
    json!({
        "snapshot": note.snapshot, "height": note.height, "logical_time_ns": note.logical_time_ns,
        "receipt_horizon": note.receipt_horizon.map(Height::get), "manifest": note.manifest, "chain": note.chain,
    })
}
