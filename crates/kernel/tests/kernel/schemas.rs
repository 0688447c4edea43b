//! Checks against schemas have a bound, and where one stopped is journaled.

use crate::rig::{Rig, body, event, identity, manifest, receipt, refusal};
use mundi_kernel::{
    MemoryObjects, Objects,
    loader::{Apart, ChecksCrowded, InPlace, Loader, Readiness},
    manifest::{CheckError, CompiledManifest, Manifest, ManifestError, Schema},
    program::Program,
    replay::Replay,
    turn::TurnBudget,
};
use mundi_model::{
    Code, Coded, Hash, Value, cbor, limits,
    record::{Body, ReceiptStatus, Record},
};
use serde_json::json;
use std::{cell::Cell, sync::Arc};

/// Takes more steps for some thousand bytes of text than a check may.
fn expensive() -> Schema {
    Schema(json!({ "pattern": "^([a-z0-9 -]{0,100}){0,100}" }))
}

fn with(change: impl FnOnce(&mut Manifest)) -> Rig {
    let mut manifest = manifest(1);
    change(&mut manifest);
    Rig::with(&manifest)
}

/// The bounds of the records of steps, in their order.
fn bounds(rig: &Rig) -> Vec<Option<u64>> {
    let bound = |bytes: &Vec<u8>| match body(bytes) {
        Body::Ingress(ingress) => Some(ingress.stamps.schema_work_max),
        _ => None,
    };
    rig.journal.iter().filter_map(bound).collect()
}

#[test]
fn an_event_that_takes_too_long_to_check_is_rejected_before_enqueue_and_when_taken() {
    let mut rig = with(|manifest| drop(manifest.events.insert("script".into(), expensive())));
    assert_eq!(refusal(&rig.run("put a 1")), "");
    let long = format!("put a {}", "2".repeat(9_000));
    let value = cbor::encode(&Value::Text(long.clone()));
    let refused = rig.world.manifest().check_event("script", &value).unwrap_err();
    assert_eq!(refused.code_or(Code::EventInvalid), Code::SchemaWorkExceeded);
    assert!(matches!(refused, CheckError::WorkExceeded(_)));
    assert_eq!(refusal(&rig.run(&long)), "SCHEMA_WORK_EXCEEDED");
    assert_eq!(rig.text("a"), "1");
    assert_eq!(bounds(&rig), [None], "what was rejected has no step");
    rig.replayed();
}

thread_local! {
    static APART: Cell<u32> = const { Cell::new(0) };
    static CROWDED: Cell<bool> = const { Cell::new(false) };
}

/// A process that has another thread for long work, and counts it.
struct OtherThread;

impl Loader for OtherThread {
    fn inspect(&self, _: &[u8]) -> Result<(), ManifestError> {
        Ok(())
    }

    fn prepare(&self, _: Hash, _: Option<Arc<[u8]>>) -> Readiness {
        Readiness::Unknown
    }

    fn check(&self, _: &Manifest) -> Result<(), ManifestError> {
        Ok(())
    }

    fn load(&self, _: &dyn Objects, manifest: &Manifest) -> Result<Arc<dyn Program>, ManifestError> {
        Err(ManifestError::ProgramUnknown(manifest.program))
    }

    fn apart(&self) -> Arc<dyn Apart> {
        Arc::new(Self)
    }
}

impl Apart for OtherThread {
    fn in_turn(&self, check: &mut dyn FnMut()) -> Result<(), ChecksCrowded> {
        if CROWDED.get() {
            return Err(ChecksCrowded);
        }
        APART.set(APART.get() + 1);
        InPlace.in_turn(check)
    }

    fn at_once(&self, check: &mut dyn FnMut()) {
        check();
    }
}

#[test]
fn a_check_that_takes_long_keeps_no_thread_from_others_and_ends_the_same() {
    // One branch for each item: some steps for few of them, and half a million for many.
    let branches: Vec<_> = (0..500).map(|n| json!({ "required": [format!("p{n}")] })).collect();
    let mut manifest = manifest(1);
    manifest.events.insert("script".into(), Schema(json!({ "items": { "anyOf": branches } })));
    let mut objects = MemoryObjects::new();
    let hash = objects.put(manifest.to_bytes());
    let mut registry = crate::rig::registry();
    registry.set_loader(Arc::new(OtherThread));
    let compiled = registry.manifest(&objects, hash).unwrap();
    let alone = CompiledManifest::load(&objects, hash).unwrap();

    let value = |items: usize, wrong: usize| {
        let right = Value::Map([("p499".to_owned(), Value::Text("x".into()))].into());
        let wrong = std::iter::repeat_n(Value::Map([].into()), wrong);
        cbor::encode(&Value::Array(std::iter::repeat_n(right, items).chain(wrong).collect()))
    };
    let checked = |value: &[u8]| {
        APART.set(0);
        let outcome = compiled.check_event("script", value);
        assert_eq!(outcome, alone.check_event("script", value));
        (outcome.is_ok(), APART.get())
    };
    assert_eq!(checked(&value(20, 0)), (true, 0));
    assert_eq!(checked(&value(1_000, 0)), (true, 1));
    assert_eq!(checked(&value(1_000, 1)), (false, 1));
    assert_eq!(checked(&value(20_000, 0)), (false, 1), "it takes too long there, too");

    // Its sender waits for no such check: it learns what few steps say.
    APART.set(0);
    let sent = |value: &[u8]| compiled.check_sent([("script", value)]).is_ok();
    assert!(sent(&value(20, 0)) && sent(&value(1_000, 1)) && sent(&value(20_000, 0)));
    assert!(!sent(&value(20, 1)) && compiled.check_sent([("unheard-of", &value(1, 0)[..])]).is_err());
    assert_eq!(APART.get(), 0);
}

/// An item whose check finds no place is no outcome: nothing is on record, and the same item is taken later.
#[test]
fn a_check_for_which_there_is_no_place_gives_the_turn_up_and_no_step_waits_for_a_place() {
    let mut manifest = manifest(1);
    manifest.events.insert("script".into(), expensive());
    manifest.queries.insert("cell".into(), expensive());
    manifest.effects.get_mut("http").unwrap().receipt = expensive();
    manifest.effects.get_mut("mail").unwrap().params = expensive();
    let mut registry = crate::rig::registry();
    registry.set_loader(Arc::new(OtherThread));
    let mut rig = Rig::beside(&manifest, registry);
    let asked = rig.run("emit http x");
    let text = "x".repeat(9_000);
    let payload = cbor::encode(&Value::Text(text.clone()));
    let answer = receipt(asked.publish[0].intent.hash, "http", ReceiptStatus::Ok, &payload);
    let items = [rig.arrival(event(&text)), rig.arrival(answer.clone())];
    let height = rig.world.head();

    CROWDED.set(true);
    for item in &items {
        assert_eq!(rig.try_turn(std::slice::from_ref(item)).unwrap_err().code(), Code::StepCrowded);
    }
    assert_eq!(rig.world.query(&rig.objects, "cell", &payload).unwrap_err().code(), Code::StepCrowded);
    let refused = rig.world.manifest().check_event("script", &payload).unwrap_err();
    assert_eq!(refused.code_or(Code::EventInvalid), Code::StepCrowded);
    assert_eq!(rig.world.head(), height);
    assert_eq!(refusal(&rig.run("emit-large mail long")), "SCHEMA_WORK_EXCEEDED", "a step has its place");
    CROWDED.set(false);

    let rest = [rig.arrival(event(&text)), rig.arrival(answer)];
    assert_eq!(refusal(&rig.turn(&rest)), "SCHEMA_WORK_EXCEEDED");
    assert_eq!(rig.text("receipt/x"), "Error the payload does not satisfy the manifest's schema");
    rig.replayed();
}

/// Each rejected check takes as long as a tenth of a second of steps: a turn of a full page of them would occupy its thread for minutes.
#[test]
fn rejected_checks_count_against_the_budget_of_their_turn() {
    let mut rig = with(|manifest| drop(manifest.events.insert("script".into(), expensive())));
    let long = format!("put a {}", "2".repeat(9_000));
    let items: Vec<_> = (0..40).map(|_| rig.arrival(event(&long))).collect();
    let per_turn = usize::try_from(TurnBudget::default().calls_max / (limits::SCHEMA_WORK_MAX / 64)).unwrap();
    let mut turns = Vec::new();
    let mut left = items.as_slice();
    while !left.is_empty() {
        let output = rig.turn(left);
        turns.push(output.consumed);
        left = &left[output.consumed..];
    }
    assert_eq!(turns, [per_turn, per_turn, 40 - 2 * per_turn]);
    let rejected = rig.kinds().iter().filter(|kind| **kind == "rejected").count();
    assert_eq!(rejected, 40, "each has its record");
    rig.replayed();
}

#[test]
fn an_effect_that_takes_too_long_to_check_fails_its_step_and_replays_the_same() {
    let mut rig = with(|manifest| manifest.effects.get_mut("mail").unwrap().params = expensive());
    assert_eq!(refusal(&rig.run("emit mail short")), "");
    assert_eq!(refusal(&rig.run("put a 1\nemit-large mail long")), "SCHEMA_WORK_EXCEEDED");
    assert_eq!((rig.text("a"), rig.world.open_intents().count()), (String::new(), 1));
    assert_eq!(refusal(&rig.run("put a 2\nemit-large http other")), "", "the world goes on");
    assert_eq!(bounds(&rig), [None, Some(limits::SCHEMA_WORK_MAX), None]);
    let mut replayed = rig.replayed();
    assert_eq!(identity(&mut replayed, &rig.objects), identity(&mut rig.world, &rig.objects));
}

#[test]
fn a_receipt_that_takes_too_long_to_check_arrives_as_an_error() {
    let mut rig = with(|manifest| manifest.effects.get_mut("http").unwrap().receipt = expensive());
    let output = rig.run("emit http x");
    let payload = cbor::encode(&Value::Text("x".repeat(9_000)));
    rig.take(receipt(output.publish[0].intent.hash, "http", ReceiptStatus::Ok, &payload));
    assert_eq!(rig.text("receipt/x"), "Error the payload does not satisfy the manifest's schema");
    assert_eq!(rig.world.open_intents().count(), 0);
    rig.replayed();
}

/// Before there was a bound, such a check took its time and the step continued: those journals stay what they are.
#[test]
fn a_record_without_a_bound_replays_as_it_was_recorded() {
    let mut rig = with(|manifest| manifest.effects.get_mut("mail").unwrap().params = expensive());
    rig.run("emit-large mail long");
    let mut record: Record = cbor::decode(&rig.journal[1]).unwrap();
    let Body::Ingress(ingress) = &mut record.body else { panic!() };
    assert!(ingress.stamps.schema_work_max.take().is_some());
    let old = record.into_sealed().to_vec();
    let mut replay = Replay::from_genesis(&rig.objects, rig.registry.clone(), &rig.journal[0]).unwrap();
    replay.apply(&rig.objects, &old).unwrap();
    assert_eq!(replay.world().open_intents().count(), 1, "the effect was accepted");
}

#[test]
fn a_record_that_names_a_bound_beyond_all_is_broken() {
    let mut rig = Rig::new();
    rig.run("put a 1");
    let mut record: Record = cbor::decode(&rig.journal[1]).unwrap();
    let Body::Ingress(ingress) = &mut record.body else { panic!() };
    ingress.stamps.schema_work_max = Some(u64::MAX);
    let mut replay = Replay::from_genesis(&rig.objects, rig.registry.clone(), &rig.journal[0]).unwrap();
    let refused = replay.apply(&rig.objects, &record.into_sealed()).unwrap_err();
    assert_eq!(refused.code(), Code::JournalBroken);
}

#[test]
fn a_schema_that_expands_without_bound_can_be_used_and_not_registered() {
    let defs: serde_json::Map<String, serde_json::Value> = (0..40)
        .map(|n| {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            (format!("d{n}"), json!({ "allOf": [next, next] }))
        })
        .chain([("d40".to_owned(), json!({ "type": "string" }))])
        .collect();
    let schema = Schema(json!({ "$defs": defs, "$ref": "#/$defs/d0" }));
    let mut rig = with(|manifest| drop(manifest.events.insert("script".into(), schema)));
    assert_eq!(refusal(&rig.run("put a 1")), "", "a world that runs on it goes on");
    let hash = rig.world.manifest().hash;
    let refused = CompiledManifest::check_registration(&rig.objects, hash).unwrap_err();
    assert_eq!(refused.code(), Code::ManifestInvalid);
    assert!(refused.to_string().contains("event `script`"), "{refused}");
}
