//! Golden vectors: what a known history hashes to, on every machine and in every release.

use crate::rig::{CHILD, Rig, WORLD, fired, receipt};
use mundi_kernel::{
    fork::{ForkRequest, fork},
    intents::{EmittedAt, intent_hash},
    replay::Replay,
    snapshot::KernelSnapshot,
};
use mundi_model::{
    Hash, Height, WorldId, cbor,
    record::{Body, EffectPolicy, Payload, ReceiptStatus, Record, Reply, ReplyOutcome},
};

/// A change of any of these is a change of the format of journals or of the outcome of old programs.
#[test]
fn a_known_history_has_known_hashes() {
    let mut rig = Rig::new();
    let output = rig.run("put a 1\nfill large 3000\nemit http get\ntimer wake 5000\nrandom r\nnow t\nsend s\nreply hi");
    rig.take(receipt(output.publish[0].intent.hash, "http", ReceiptStatus::Ok, b"yes"));
    rig.take(fired(output.timers[0].timer));
    rig.run("panic oh");
    let taken = rig.snapshot();
    let snapshot = KernelSnapshot::from_bytes(&taken.bytes).unwrap();
    let request = ForkRequest::new(CHILD, EffectPolicy::RecordedThenLive, 9);
    let child = fork(&snapshot, request).unwrap();
    let found = [
        ("manifest", rig.world.manifest().hash),
        ("chain", rig.world.chain()),
        ("digest", rig.world.digest()),
        ("cells", snapshot.cells().unwrap()),
        ("snapshot", taken.note.snapshot),
        ("child", child.note.snapshot),
        ("fork record", Hash::of(&child.record)),
    ];
    let found = found.map(|(name, hash)| format!("{name} {}", &hash.to_hex()[..24]));
    let expected = [
        "manifest a6c0e4c78512de420daefac8",
        "chain 670ad47f3c502006fdeb984d",
        "digest 5ce5fec8a0d414c5ced386dd",
        "cells eab951e981134de609a9e379",
        "snapshot bdb374fb5b62a910f4b02093",
        "child 7950ca289b354a32bc4543e0",
        "fork record 51858f10d3e6d592a6f088eb",
    ];
    assert_eq!(found, expected);
}

/// Journals of before events had hashes, and replies the heights of failed steps, are what they were, and replay: the same history,
/// recorded without them, has the chain that it always had.
#[test]
fn a_history_without_event_hashes_replays_and_has_the_chain_of_before() {
    let mut rig = Rig::new();
    let output = rig.run("put a 1\nfill large 3000\nemit http get\ntimer wake 5000\nrandom r\nnow t\nsend s\nreply hi");
    rig.take(receipt(output.publish[0].intent.hash, "http", ReceiptStatus::Ok, b"yes"));
    rig.take(fired(output.timers[0].timer));
    rig.run("panic oh");
    let (mut prev, mut journal) = (Record::CHAIN_START, Vec::new());
    for bytes in &rig.journal {
        let mut record: Record = cbor::decode(bytes).unwrap();
        if let Body::Ingress(ingress) = &mut record.body {
            assert_eq!(ingress.event_hash, ingress.item.input.event_hash());
            ingress.event_hash = None;
        }
        if let Body::Reply(Reply { outcome: ReplyOutcome::Failed(_, _, height), .. }) = &mut record.body {
            assert!(height.take().is_some());
        }
        record.prev = prev;
        let (bytes, hash) = record.seal();
        prev = hash;
        journal.push(bytes);
    }
    assert_eq!(&prev.to_hex()[..24], "493b689018f1fef329790006");
    let mut replay = Replay::from_genesis(&rig.objects, rig.registry.clone(), &journal[0]).unwrap();
    replay.run(&rig.objects, &journal[1..], None).unwrap();
    replay.finish().unwrap();

    // With a hash that is not its event's, it is refused.
    let mut record: Record = cbor::decode(&journal[1]).unwrap();
    let Body::Ingress(ingress) = &mut record.body else { panic!("an ingress") };
    ingress.event_hash = Some(Hash::of(b"another event"));
    let mut replay = Replay::from_genesis(&rig.objects, rig.registry.clone(), &journal[0]).unwrap();
    let refused = replay.run(&rig.objects, &[record.seal().0], None).unwrap_err();
    assert!(refused.to_string().contains("event hash"), "{refused}");
}

#[test]
fn an_intent_hash_can_be_computed_by_hand() {
    let world = WorldId::from_bytes([2; 16]);
    assert_eq!(world, WORLD);
    let place = EmittedAt { height: Height::new(500), index: 1 };
    let hash = intent_hash(world, place, "http", &Payload::Inline(vec![0xf6]));
    let by_hand = [
        &[0x85, 0x6e][..], // array(5), text(14)
        b"mundi.intent.1",
        &[0x50],
        &[2; 16],
        &[0x82, 0x19, 0x01, 0xf4, 0x01, 0x64], // [500, 1], text(4)
        b"http",
        &[0x82, 0x00, 0x81, 0x41, 0xf6], // the payload, inline
    ];
    assert_eq!(hash.as_bytes(), Hash::of(&by_hand.concat()).as_bytes());
}
