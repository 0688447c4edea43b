//! Manifests, upgrades, and their rehearsal.

use crate::rig::{Rig, body, control, event, identity, manifest, receipt, refusal, upgrade};
use mundi_kernel::{
    manifest::{CompiledManifest, Manifest, ManifestError, Schema},
    rehearse::{Compare, rehearse},
};
use mundi_model::{
    Code, Coded, Hash, Value, cbor,
    record::{Body, ReceiptStatus},
};
use serde_json::json;

fn string_schema() -> Schema {
    Schema(json!({"type": "string", "maxLength": 20}))
}

#[test]
fn events_are_checked_against_their_schema_before_enqueue_and_when_taken() {
    let mut strict = manifest(1);
    strict.events.insert("script".into(), string_schema());
    let mut rig = Rig::with(&strict);
    let text = |text: &str| cbor::encode(&Value::Text(text.into()));
    let compiled = rig.world.manifest().clone();
    assert!(compiled.check_event("script", &text("put a 1")).is_ok());
    for (schema, value) in [("script", text(&"x".repeat(21))), ("unheard-of", text("")), ("script", b"\xff".to_vec())] {
        assert!(compiled.check_event(schema, &value).is_err());
    }
    assert_eq!(refusal(&rig.run("put a 1")), "");
    assert_eq!(refusal(&rig.run("put a 2222222222222222222222")), "EVENT_INVALID");
    assert_eq!(rig.text("a"), "1");
}

#[test]
fn effects_that_are_not_declared_or_fail_their_schema_fail_the_step() {
    let mut strict = manifest(1);
    strict.effects.get_mut("mail").unwrap().params = Schema(json!({"type": "object"}));
    let mut rig = Rig::with(&strict);
    assert_eq!(refusal(&rig.run("put a 1\nemit ftp x")), "OUTPUT_REFUSED");
    assert_eq!(refusal(&rig.run("put a 1\nemit mail x")), "OUTPUT_REFUSED");
    assert_eq!(rig.text("a"), "");
    strict.effects.remove("fabric.send");
    let mut rig = Rig::with(&strict);
    assert_eq!(refusal(&rig.run("send x")), "OUTPUT_REFUSED", "sending is an authority, too");
}

#[test]
fn an_ok_receipt_that_fails_its_schema_arrives_as_an_error_and_no_world_is_stuck() {
    let mut strict = manifest(1);
    strict.effects.get_mut("http").unwrap().receipt = Schema(json!({"type": "integer"}));
    let mut rig = Rig::with(&strict);
    let output = rig.run("emit http good\nemit http bad");
    let hash = |label: &str| output.publish.iter().find(|p| p.intent.label == label).unwrap().intent.hash;
    rig.take(receipt(hash("good"), "http", ReceiptStatus::Ok, b"\x07"));
    rig.take(receipt(hash("bad"), "http", ReceiptStatus::Ok, b"\x61x"));
    assert_eq!(rig.text("receipt/good"), "Ok \u{7}");
    assert_eq!(rig.text("receipt/bad"), "Error the payload does not satisfy the manifest's schema");
    assert_eq!(rig.world.open_intents().count(), 0);
    rig.replayed();
}

#[test]
fn a_schema_may_be_an_object_of_its_own_and_is_then_a_root() {
    let mut rig = Rig::new();
    let schema = rig.objects.put(mundi_model::json::to_canonical(&string_schema().0).into_bytes());
    let mut strict = manifest(1);
    strict.events.insert("script".into(), Schema(json!(schema.to_string())));
    let hash = rig.store_manifest(&strict);
    rig.take(upgrade(hash));
    assert_eq!(refusal(&rig.run("put a 2222222222222222222222")), "EVENT_INVALID");
    let taken = rig.snapshot();
    let snapshot = mundi_kernel::snapshot::load(&rig.objects, &rig.registry, &taken.note).unwrap();
    assert!(snapshot.roots().contains(&schema));
}

fn with_effect(rule: &serde_json::Value) -> String {
    json!({"effects": {"http.request": rule}, "program": Hash::of(b"")}).to_string()
}

#[test]
fn terms_of_effects_up_to_the_bounds_are_taken() {
    let retry = json!({"attempts_max": 100, "backoff_ms": 86_400_000, "backoff_ms_max": 86_400_000});
    let manifest = with_effect(&json!({"retry": retry, "timeout_ms": 86_400_000}));
    Manifest::from_bytes(manifest.as_bytes()).unwrap();
}

#[test]
fn manifests_that_are_not_what_they_should_be_are_refused() {
    let good = String::from_utf8(manifest(1).to_bytes()).unwrap();
    assert_eq!(Manifest::from_bytes(good.as_bytes()).unwrap(), manifest(1));
    for bad in [
        good.replace(":", ": "),
        good.replace("\"program\"", "\"programme\""),
        good.replace("{\"effects\"", "{\"edition\":1,\"effects\""),
        json!({"limits": {"open_intents_max": 1_000_000_000}, "program": Hash::of(b"")}).to_string(),
        with_effect(&json!({"retry": {"attempts_max": 101, "backoff_ms": 1, "backoff_ms_max": 1}})),
        with_effect(&json!({"retry": {"attempts_max": u32::MAX, "backoff_ms": 0, "backoff_ms_max": 0}})),
        with_effect(&json!({"retry": {"attempts_max": 2, "backoff_ms": 1, "backoff_ms_max": 86_400_001}})),
        with_effect(&json!({"retry": {"attempts_max": 2, "backoff_ms": 86_400_001, "backoff_ms_max": 1}})),
        with_effect(&json!({"timeout_ms": 86_400_001})),
    ] {
        assert_eq!(Manifest::from_bytes(bad.as_bytes()).unwrap_err().code(), Code::ManifestInvalid, "{bad}");
    }
    let mut rig = Rig::new();
    let mut broken = manifest(1);
    broken.events.insert("e".into(), Schema(json!({"type": "no such type"})));
    let hash = rig.store_manifest(&broken);
    assert!(matches!(CompiledManifest::load(&rig.objects, hash), Err(ManifestError::Invalid(_))));
    let hash = rig.store_manifest(&Manifest { program: Hash::of(b"nobody"), ..manifest(1) });
    assert_eq!(refusal(&rig.take(upgrade(hash))), "PROGRAM_UNKNOWN");
    assert_eq!(refusal(&rig.take(control("upgrade", b"\xff".to_vec()))), "CONTROL_INVALID");
}

#[test]
fn an_upgrade_is_on_record_and_old_heights_replay_with_what_ran_then() {
    let mut rig = Rig::new();
    rig.run("v2\nput a 1");
    assert_eq!(rig.cell("v2"), None);
    let old = rig.world.manifest().hash;
    let new = rig.store_manifest(&manifest(2));
    rig.take(upgrade(new));
    assert_eq!(rig.kinds()[3..], ["ingress", "manifest", "digest"]);
    let Body::ManifestChange(change) = body(&rig.journal[4]) else { panic!() };
    assert_eq!((change.from, change.to), (old, new));
    assert_eq!(rig.cell("upgraded").unwrap(), old.as_bytes(), "the new program took over");
    rig.run("v2");
    assert!(rig.world.query(&rig.objects, "keys", b"\xf6").unwrap().ends_with(b"v2 "));

    let mut replayed = rig.replayed();
    assert_eq!(identity(&mut replayed, &rig.objects), identity(&mut rig.world, &rig.objects));
}

#[test]
fn a_program_that_cannot_take_over_does_not() {
    let mut rig = Rig::new();
    let old = rig.world.manifest().hash;
    let new = rig.store_manifest(&manifest(666));
    assert_eq!(refusal(&rig.take(upgrade(new))), "PROGRAM_FAILED");
    assert_eq!(rig.world.manifest().hash, old);
    assert_eq!(rig.run("put a 1").consumed, 1);
    rig.replayed();
}

#[test]
fn a_rehearsal_names_the_first_record_from_which_something_else_follows() {
    let mut rig = Rig::new();
    let start = rig.snapshot().note;
    for script in ["put a 1", "emit http x", "put b 2\nv2", "put c 3"] {
        rig.run(script);
    }
    let candidate = rig.store_manifest(&manifest(2));
    let from = usize::try_from(start.height.get()).unwrap();
    let rehearse = |compare, records: &[Vec<u8>]| {
        rehearse(&rig.objects, &rig.registry, &start, candidate, compare, records).unwrap()
    };
    let divergence = rehearse(Compare::Everything, &rig.journal[from..]).divergence.unwrap();
    let Body::Ingress(expected) = body(&rig.journal[6]) else { panic!() };
    assert_eq!((divergence.height.get(), *divergence.record), (6, expected));
    assert_eq!(divergence.recorded.cells.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(divergence.candidate.unwrap().cells.keys().collect::<Vec<_>>(), ["b", "v2"]);

    let outputs = rehearse(Compare::Outputs, &rig.journal[from..]);
    assert_eq!((outputs.records, outputs.divergence), (rig.journal.len() as u64 - 1, None));
    assert_eq!(rehearse(Compare::Everything, &rig.journal[from..6]).divergence, None);
}

#[test]
fn a_rehearsal_of_a_program_that_cannot_take_over_diverges_at_once() {
    let mut rig = Rig::new();
    let start = rig.snapshot().note;
    rig.run("put a 1");
    let candidate = rig.store_manifest(&manifest(666));
    let result = rehearse(&rig.objects, &rig.registry, &start, candidate, Compare::Outputs, &rig.journal[1..]).unwrap();
    assert_eq!(result.divergence.unwrap().height, start.height);
}

#[test]
fn a_manifest_that_changes_only_what_was_never_used_rehearses_without_a_difference() {
    let mut rig = Rig::new();
    rig.run("put a 1");
    let start = rig.snapshot().note;
    let from = usize::try_from(start.height.get()).unwrap();
    let items = ["emit http x", "timer t 5000", "reply hello", "fail x"].map(|script| rig.arrival(event(script)));
    rig.turn(&items);
    let mut wider = manifest(1);
    wider.events.insert("another".into(), Schema::anything());
    let candidate = rig.store_manifest(&wider);
    let everything = Compare::Everything;
    let result = rehearse(&rig.objects, &rig.registry, &start, candidate, everything, &rig.journal[from..]).unwrap();
    assert_eq!(result.divergence, None);
}
