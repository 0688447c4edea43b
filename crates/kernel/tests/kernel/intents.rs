//! Intents, receipts, timers: exactly one terminal receipt, and names that no two worlds share.

use crate::rig::{CHILD, Rig, UNIVERSE, WORLD, body, event, fired, manifest, receipt, refusal};
use mundi_kernel::{
    intents::{EmittedAt, intent_hash},
    manifest::{EffectRule, Limits, Manifest},
};
use mundi_model::{
    Hash, Height, IntentHash, Value, WorldId, cbor, limits,
    record::{Body, Payload, ReceiptStatus, ReplyOutcome},
};
use std::collections::BTreeMap;

#[test]
fn an_intent_hash_covers_world_height_index_kind_and_params() {
    let place = EmittedAt { height: Height::new(7), index: 1 };
    let params = Payload::Inline(vec![1]);
    let hashes = [
        intent_hash(WORLD, place, "http", &params),
        intent_hash(CHILD, place, "http", &params),
        intent_hash(WORLD, EmittedAt { height: Height::new(8), ..place }, "http", &params),
        intent_hash(WORLD, EmittedAt { index: 2, ..place }, "http", &params),
        intent_hash(WORLD, place, "mail", &params),
        intent_hash(WORLD, place, "http", &Payload::Inline(vec![2])),
    ];
    for (index, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..index].contains(hash), "{index}");
    }
}

#[test]
fn a_receipt_reaches_the_program_under_its_label_and_closes_the_intent() {
    let mut rig = Rig::new();
    let output = rig.run("emit http get");
    let publish = &output.publish[0];
    assert_eq!((publish.intent.kind.as_str(), publish.intent.label.as_str()), ("http", "get"));
    assert_eq!(publish.manifest, rig.world.manifest().hash);
    let hash = publish.intent.hash;
    let expected = intent_hash(WORLD, EmittedAt { height: Height::new(1), index: 0 }, "http", &publish.intent.params);
    assert_eq!(hash, expected);

    rig.take(receipt(hash, "http", ReceiptStatus::Ok, b"answer"));
    assert_eq!(rig.text("receipt/get"), "Ok answer");
    assert_eq!(rig.world.open_intents().count(), 0);
}

#[test]
fn an_intent_has_exactly_one_terminal_receipt() {
    let mut rig = Rig::new();
    let hash = rig.run("emit http get").publish[0].intent.hash;
    let answers = [ReceiptStatus::Timeout, ReceiptStatus::Ok, ReceiptStatus::Error];
    let items = answers.map(|status| rig.arrival(receipt(hash, "http", status, b"x")));
    let output = rig.turn(&items);
    assert_eq!(refusal(&output), "RECEIPT_CLOSED");
    assert_eq!(rig.kinds()[4..], ["ingress", "rejected", "rejected", "digest"]);
    assert_eq!(rig.text("receipt/get"), "Timeout x", "the first one counts");
}

#[test]
fn unknown_foreign_and_mismatched_receipts_are_recorded_as_rejected() {
    let mut rig = Rig::new();
    let hash = rig.run("emit http get").publish[0].intent.hash;
    let foreign = intent_hash(CHILD, EmittedAt { height: Height::new(1), index: 0 }, "http", &Payload::Inline(vec![]));
    for (intent, kind, code) in [
        (IntentHash::of(b"unknown"), "http", "RECEIPT_UNKNOWN"),
        (foreign, "http", "RECEIPT_UNKNOWN"),
        (hash, "mail", "RECEIPT_MISMATCH"),
    ] {
        assert_eq!(refusal(&rig.take(receipt(intent, kind, ReceiptStatus::Ok, b""))), code);
    }
    assert_eq!(rig.world.open_intents().count(), 1, "the real one still waits");
}

#[test]
fn a_cancelled_intent_is_withdrawn_and_its_receipt_comes_too_late() {
    let mut rig = Rig::new();
    let hash = rig.run("emit http get").publish[0].intent.hash;
    let output = rig.run("cancel get\ncancel never-there");
    assert_eq!(output.cancels, [hash]);
    assert_eq!(refusal(&rig.take(receipt(hash, "http", ReceiptStatus::Ok, b""))), "RECEIPT_CLOSED");
    assert_eq!(rig.text("receipt/get"), "");
}

#[test]
fn what_is_emitted_and_cancelled_in_one_turn_is_never_published() {
    let mut rig = Rig::new();
    let items = [
        rig.arrival(event("emit http a\ncancel a\nemit http b\ntimer t 5000")),
        rig.arrival(event("cancel b\ncancel-timer t")),
    ];
    let output = rig.turn(&items);
    assert!(output.publish.is_empty() && output.timers.is_empty() && output.cancels.is_empty(), "{output:?}");
    let cancels = rig.kinds().iter().filter(|kind| **kind == "cancel").count();
    assert_eq!(cancels, 3, "and still it is all on record");
}

#[test]
fn a_failed_step_consumes_its_receipt_and_emits_nothing() {
    let mut rig = Rig::new();
    let output = rig.run("emit http get\nput a 1\nfail because");
    assert_eq!(refusal(&output), "PROGRAM_FAILED");
    assert!(output.publish.is_empty());
    assert_eq!(rig.kinds()[1..], ["ingress", "failed", "reply", "digest"]);
    let ReplyOutcome::Failed(code, reason, _) = &output.replies[0].outcome else { panic!() };
    assert_eq!((code.as_str(), reason.as_str()), ("PROGRAM_FAILED", "because"));
    assert_eq!(rig.text("a"), "");
    assert_eq!(rig.world.open_intents().count(), 0);
}

#[test]
fn the_bound_on_open_intents_is_a_refusal_that_the_program_sees() {
    let limits = Limits { open_intents_max: 2, ..Limits::default() };
    let mut rig = Rig::with(&Manifest { limits, ..manifest(1) });
    let output = rig.run("try-emit http a\ntry-emit http b\ntry-emit http c\nput went-on yes");
    assert_eq!(output.publish.len(), 2);
    assert_eq!((rig.text("refused"), rig.text("went-on")), ("c".into(), "yes".into()));
    let a = output.publish.iter().find(|publish| publish.intent.label == "a").unwrap().intent.hash;
    rig.take(receipt(a, "http", ReceiptStatus::Ok, b""));
    assert_eq!(rig.run("try-emit http c").publish.len(), 1, "there is room again");
}

#[test]
fn a_label_names_one_open_intent_and_an_empty_one_is_filled_in() {
    let mut rig = Rig::new();
    rig.run("emit http a");
    assert_eq!(refusal(&rig.run("emit mail a")), "OUTPUT_REFUSED");
    let output = rig.run("emit http \nemit http ");
    let labels: Vec<_> = output.publish.iter().map(|publish| publish.intent.label.clone()).collect();
    assert_eq!(labels, ["8.0", "8.1"]);
}

#[test]
fn a_timer_fires_once_and_never_before_it_is_due() {
    let mut rig = Rig::new();
    let output = rig.run("timer wake 50000");
    assert_eq!(output.timers[0].set.due_ns, 50_000);
    let timer = output.timers[0].timer;
    let output = rig.take(fired(timer)); // by a worker whose clock is behind
    assert_eq!(refusal(&output), "");
    assert_eq!(rig.cell("timer/wake").unwrap(), [&50_000u64.to_be_bytes()[..], b"wake"].concat());
    assert_eq!(refusal(&rig.take(fired(timer))), "TIMER_UNKNOWN", "the second delivery of the same timer");
    assert_eq!(rig.world.logical_now_ns(), 50_000);
}

#[test]
fn setting_a_timer_again_replaces_it() {
    let mut rig = Rig::new();
    let first = rig.run("timer wake 50000").timers[0].timer;
    let output = rig.run("timer wake 60000");
    assert_eq!(output.cancels, [first]);
    assert_eq!(rig.world.timers().count(), 1);
    assert_eq!(refusal(&rig.take(fired(first))), "TIMER_UNKNOWN");
}

#[test]
fn sends_and_spawns_are_intents_of_a_reserved_kind() {
    let mut rig = Rig::new();
    let output = rig.run("send s\nspawn w");
    let kinds: Vec<_> = output.publish.iter().map(|publish| publish.intent.kind.as_str()).collect();
    assert_eq!(kinds, ["fabric.send", "world.spawn"]);
    let spawned = WorldId::from_bytes(rig.cell("spawned").unwrap().try_into().unwrap());
    let Payload::Inline(params) = &output.publish[1].intent.params else { panic!() };
    let params: Value = cbor::decode(params).unwrap();
    let Value::Map(params) = params else { panic!() };
    assert_eq!(params["dest_world"], Value::Text(spawned.to_string()));
    rig.run("spawn again");
    assert_ne!(rig.cell("spawned").unwrap(), spawned.as_bytes(), "each spawn has its own world");
    assert_eq!(refusal(&rig.run("emit world.spawn x")), "OUTPUT_REFUSED", "only through its own call");
}

#[test]
fn a_world_forgets_the_oldest_closed_intents_and_no_others() {
    let mut rig = Rig::new();
    let first = rig.run("emit http x\ncancel x");
    let Body::Intent(first) = body(&first.records[1]) else { panic!() };
    assert_eq!(refusal(&rig.take(receipt(first.hash, "http", ReceiptStatus::Ok, b""))), "RECEIPT_CLOSED");
    let many = "emit http x\ncancel x\n".repeat(100);
    for _ in 0..11 {
        rig.run(many.trim_end());
    }
    assert_eq!(refusal(&rig.take(receipt(first.hash, "http", ReceiptStatus::Ok, b""))), "RECEIPT_UNKNOWN");
}

fn params(intent: &mundi_kernel::intents::OpenIntent) -> BTreeMap<String, Value> {
    let Payload::Inline(bytes) = &intent.params else { panic!("small params stand in the record") };
    let Ok(Value::Map(fields)) = cbor::decode(bytes) else { panic!("a map") };
    fields
}

#[test]
fn a_program_says_what_a_message_is_correlated_by_with_headers_and_a_universe() {
    let mut rig = Rig::new();
    let output = rig.run("send plain\nsend-correlated order-7 a\nsend-headers 2 1 b");
    let sent: Vec<_> = output.publish.iter().map(|publish| params(&publish.intent)).collect();
    let text = |text: &str| Value::Text(text.to_owned());
    assert!(["correlation_id", "headers", "dest_universe", "message_id"].iter().all(|key| !sent[0].contains_key(*key)));
    assert_eq!(sent[1]["correlation_id"], text("order-7"));
    let headers = [("000".to_owned(), text("x")), ("001".to_owned(), text("x"))];
    assert_eq!(sent[2]["headers"], Value::Map(headers.into()));
    assert_eq!(sent[2]["dest_universe"], text(&UNIVERSE.to_string()));
    rig.replayed();
}

#[test]
fn what_is_said_beside_a_message_is_bounded_and_a_message_id_is_for_those_who_may_choose_one() {
    let many = limits::HEADERS_MAX + 1;
    let long = "c".repeat(limits::NAME_BYTES_MAX + 1);
    let large = limits::HEADERS_BYTES_MAX;
    for script in [
        format!("send-headers {many} 1 h"),
        format!("send-headers 1 {large} h"),
        format!("send-correlated {long} c"),
        "send-as m a".to_owned(),
    ] {
        let mut rig = Rig::new();
        let output = rig.run(&script);
        assert!(output.publish.is_empty(), "{script}");
        assert_eq!(refusal(&output), "OUTPUT_REFUSED", "{script}");
    }
    let mut manifest = manifest(1);
    manifest.effects.insert("fabric.send".into(), EffectRule { message_ids: true, ..EffectRule::default() });
    let mut rig = Rig::with(&manifest);
    let output = rig.run("send-as m a");
    let chosen = Value::Text(Hash::of(b"m").to_string());
    assert_eq!(params(&output.publish[0].intent)["message_id"], chosen);
}
