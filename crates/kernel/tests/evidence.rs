//! Evidence as it is written satisfies the schemas under `spec/`; evidence without its detail does not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use jsonschema::Validator;
use mundi_model::{
    Height, UniverseId, WorldId,
    child::{ChildEvent, ChildId, DispatchToken, EventKind, Phase, RunId, Spend},
    record::Payload,
};
use serde_json::Value;
use std::{fs, path::Path};

fn schema(name: &str) -> Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec").join(name);
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn parent() -> WorldId {
    WorldId::from_bytes([1; 16])
}

fn event(kind: EventKind, phase: Phase, cancel: bool, dispatched: bool) -> Value {
    let is_failure = kind == EventKind::Fail;
    let event = ChildEvent {
        kind,
        seq: 0,
        at_ns: 1,
        phase,
        parent_seq: Height::new(4),
        dispatch_seq: dispatched.then_some(1),
        run: dispatched.then(|| RunId::of_dispatch(parent(), 1)),
        code: is_failure.then(|| "URM_CHILD_FAILED".to_owned()),
        reason: is_failure.then(|| "why".to_owned()),
        cancel_request_id: cancel.then(|| "r".to_owned()),
    };
    event.evidence(UniverseId::from_bytes([2; 16]), parent(), ChildId::from_bytes([3; 16]))
}

#[test]
fn events_satisfy_their_schema() {
    let schema = schema("urm-events.1.schema.json");
    let written = [
        event(EventKind::Start, Phase::Started, false, true),
        event(EventKind::Pass, Phase::Terminal, false, true),
        event(EventKind::Fail, Phase::Terminal, false, true),
        event(EventKind::Fail, Phase::Terminal, true, true),
        event(EventKind::Fail, Phase::Terminal, false, false),
        event(EventKind::Cancel, Phase::Started, true, true),
        event(EventKind::Cancel, Phase::Terminal, true, false),
    ];
    for event in written {
        assert!(
            schema.is_valid(&event),
            "{event}: {:?}",
            schema.iter_errors(&event).map(|e| e.to_string()).collect::<Vec<_>>()
        );
    }
}

#[test]
fn events_without_their_detail_do_not() {
    let schema = schema("urm-events.1.schema.json");
    assert!(!schema.is_valid(&event(EventKind::Cancel, Phase::Terminal, false, false)), "a cancel names its request");
    assert!(!schema.is_valid(&event(EventKind::Start, Phase::Started, false, false)), "a start was dispatched");
    for name in ["child_id", "parent_stream_id", "parent_seq", "phase_at_event", "code", "reason", "lease_id"] {
        let mut event = event(EventKind::Fail, Phase::Terminal, false, true);
        event["detail"].as_object_mut().unwrap().remove(name);
        assert!(!schema.is_valid(&event), "{name}");
    }
    let mut more = event(EventKind::Start, Phase::Started, false, true);
    more["detail"]["more"] = 1.into();
    assert!(!schema.is_valid(&more));
}

#[test]
fn tokens_satisfy_their_schema() {
    let schema = schema("scheduler_dispatch_token.1.schema.json");
    for phase in [Phase::Queued, Phase::Leased, Phase::Started, Phase::Terminal] {
        let dispatched = phase > Phase::Queued;
        let token = DispatchToken {
            child: ChildId::from_bytes([3; 16]),
            parent: parent(),
            parent_seq: Height::new(4),
            intent: mundi_model::IntentHash::from_bytes([5; 32]),
            label: "it".into(),
            kind: "external".into(),
            params: Payload::Inline(Vec::new()),
            budget: Spend::default(),
            queue_seq: 1,
            dispatch_seq: dispatched.then_some(1),
            run: dispatched.then(|| RunId::of_dispatch(parent(), 1)),
            phase,
            events: 0,
            cancel_request_id: None,
            withdrawn: false,
            spent: Spend::default(),
            spawned_at_ns: 1,
            started_at_ns: None,
            end: None,
            manifest: None,
            trace: None,
            correlation_id: None,
            call: None,
        };
        assert!(schema.is_valid(&token.evidence()), "{}", token.evidence());
        let mut less = token.evidence();
        less.as_object_mut().unwrap().remove("queue_seq");
        assert!(!schema.is_valid(&less));
    }
}

fn stored(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/fixtures/stop_gate").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Not only values that a test made up: what concurrent runs wrote.
#[test]
fn tokens_and_events_of_every_fixture_satisfy_their_schemas() {
    let (tokens, events) = (schema("scheduler_dispatch_token.1.schema.json"), schema("urm-events.1.schema.json"));
    let manifest = stored("vnext_plus9_manifest.json");
    let (mut tokens_seen, mut events_seen) = (0, 0);
    for entry in manifest["metrics"].as_object().unwrap().values().flat_map(|entries| entries.as_array().unwrap()) {
        let fixture = stored(entry["fixture"].as_str().unwrap());
        for token in fixture["tokens"].as_array().unwrap() {
            assert!(tokens.is_valid(token), "{token}");
            tokens_seen += 1;
        }
        for event in fixture["events"].as_array().unwrap() {
            assert!(events.is_valid(event), "{event}");
            events_seen += 1;
        }
    }
    assert!(tokens_seen > 12 && events_seen > 12, "{tokens_seen} tokens, {events_seen} events");
}

#[test]
fn the_manifest_of_the_stop_gate_satisfies_its_schema_and_one_that_lacks_a_hash_does_not() {
    let (schema, manifest) =
        (schema("stop_gate.vnext_plus9_manifest.1.schema.json"), stored("vnext_plus9_manifest.json"));
    assert!(schema.is_valid(&manifest), "{manifest}");
    let metric = "scheduler_dispatch_replay_determinism_pct";
    let changes: [fn(&mut Value, &str); 5] = [
        |manifest, _| drop(manifest.as_object_mut().unwrap().remove("vnext_plus9_manifest_hash")),
        |manifest, metric| drop(manifest["metrics"].as_object_mut().unwrap().remove(metric)),
        |manifest, metric| drop(manifest["metrics"][metric][0].as_object_mut().unwrap().remove("sha256")),
        |manifest, metric| manifest["metrics"][metric] = Value::Array(Vec::new()),
        |manifest, _| manifest["more"] = true.into(),
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut changed = manifest.clone();
        change(&mut changed, metric);
        assert!(!schema.is_valid(&changed), "change {number}");
    }
}
