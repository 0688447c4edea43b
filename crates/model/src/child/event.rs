//! The events of a child's life, as they are stored and as evidence: `urm-events@1`.

use super::{ChildId, DispatchToken, Phase, RunId};
use crate::{Height, Moment, UniverseId, WorldId};
use minicbor::{Decode, Encode};
use serde_json::{Map, Value, json};

/// The schema of an event of evidence.
pub const EVENT_SCHEMA: &str = "urm-events@1";
/// The schema of a dispatch token as evidence.
pub const TOKEN_SCHEMA: &str = "scheduler_dispatch_token@1";

/// The events of a child. There are no other names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum EventKind {
    #[n(0)]
    Start,
    #[n(1)]
    Cancel,
    #[n(2)]
    Fail,
    #[n(3)]
    Pass,
}

impl EventKind {
    pub const ALL: [Self; 4] = [Self::Start, Self::Cancel, Self::Fail, Self::Pass];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "WORKER_START",
            Self::Cancel => "WORKER_CANCEL",
            Self::Fail => "WORKER_FAIL",
            Self::Pass => "WORKER_PASS",
        }
    }

    /// A worker's status after the event.
    const fn status(self) -> &'static str {
        match self {
            Self::Start => "running",
            Self::Cancel => "cancelled",
            Self::Fail => "failed",
            Self::Pass => "ok",
        }
    }
}

/// One event of a child's stream. Its `seq` is its place there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChildEvent {
    #[n(0)]
    pub kind: EventKind,
    #[n(1)]
    pub seq: u64,
    /// The time of the transaction that wrote it.
    #[n(2)]
    pub at_ns: u64,
    /// The phase of the token once the event is committed.
    #[n(3)]
    pub phase: Phase,
    #[n(4)]
    pub parent_seq: Height,
    /// Absent for a child that was never leased.
    #[n(5)]
    pub dispatch_seq: Option<u64>,
    #[n(6)]
    pub run: Option<RunId>,
    #[n(7)]
    pub code: Option<String>,
    #[n(8)]
    pub reason: Option<String>,
    #[n(9)]
    pub cancel_request_id: Option<String>,
}

/// The stream of a child's events.
pub fn stream(child: ChildId) -> String {
    format!("child:{child}")
}

/// The stream that a child belongs to.
pub fn parent_stream(parent: WorldId) -> String {
    format!("world:{parent}")
}

fn put(fields: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.into());
    }
}

impl ChildEvent {
    /// The event as evidence. Absent fields are omitted.
    pub fn evidence(&self, universe: UniverseId, parent: WorldId, child: ChildId) -> Value {
        let mut detail = Map::new();
        put(&mut detail, "child_id", Some(child.to_string()));
        put(&mut detail, "parent_stream_id", Some(parent_stream(parent)));
        put(&mut detail, "parent_seq", Some(self.parent_seq.get()));
        put(&mut detail, "phase_at_event", Some(self.phase.as_str()));
        put(&mut detail, "status", Some(self.kind.status()));
        put(&mut detail, "dispatch_seq", self.dispatch_seq);
        put(&mut detail, "lease_id", self.run.map(|run| run.to_string()));
        put(&mut detail, "worker_id", self.run.map(|run| run.to_string()));
        put(&mut detail, "code", self.code.clone());
        put(&mut detail, "reason", self.reason.clone());
        put(&mut detail, "cancel_request_id", self.cancel_request_id.clone());
        json!({
            "schema": EVENT_SCHEMA,
            "event": self.kind.as_str(),
            "stream_id": stream(child),
            "seq": self.seq,
            "ts": Moment(self.at_ns).to_string(),
            "source": {"component": "mundi.children"},
            "context": {"universe": universe.to_string(), "parent_session_id": parent.to_string()},
            "detail": detail,
        })
    }
}

impl DispatchToken {
    /// The token as evidence. Absent fields are omitted.
    pub fn evidence(&self) -> Value {
        let mut fields = Map::new();
        put(&mut fields, "schema", Some(TOKEN_SCHEMA));
        put(&mut fields, "child_id", Some(self.child.to_string()));
        put(&mut fields, "parent_session_id", Some(self.parent.to_string()));
        put(&mut fields, "parent_stream_id", Some(parent_stream(self.parent)));
        put(&mut fields, "parent_seq", Some(self.parent_seq.get()));
        put(&mut fields, "queue_seq", Some(self.queue_seq));
        put(&mut fields, "dispatch_seq", self.dispatch_seq);
        put(&mut fields, "worker_run_id", self.run.map(|run| run.to_string()));
        put(&mut fields, "phase", Some(self.phase.as_str()));
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_canonical;

    #[test]
    fn an_event_has_the_least_detail_and_omits_what_is_absent() {
        let (parent, child) = (WorldId::from_bytes([1; 16]), ChildId::from_bytes([2; 16]));
        let event = ChildEvent {
            kind: EventKind::Start,
            seq: 0,
            at_ns: 1,
            phase: Phase::Started,
            parent_seq: Height::new(7),
            dispatch_seq: Some(3),
            run: Some(RunId::of_dispatch(parent, 3)),
            code: None,
            reason: None,
            cancel_request_id: None,
        };
        let evidence = event.evidence(UniverseId::from_bytes([9; 16]), parent, child);
        let detail = evidence["detail"].as_object().unwrap();
        for name in ["dispatch_seq", "lease_id", "parent_stream_id", "parent_seq", "child_id", "phase_at_event"] {
            assert!(detail.contains_key(name), "{name}");
        }
        assert!(!to_canonical(&evidence).contains("null") && !detail.contains_key("code"));
    }
}
