//! Golden vectors: what a known history hashes to, on every machine and in every release.

use crate::rig::{CHILD, Rig, WORLD, fired, receipt};
use mundi_kernel::{
    fork::{ForkRequest, fork},
    intents::{Place, intent_hash},
    snapshot::KernelSnapshot,
};
use mundi_model::{
    Hash, Height, WorldId,
    record::{EffectPolicy, Payload, ReceiptStatus},
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
    let request = ForkRequest { child: CHILD, policy: EffectPolicy::Recorded, now_ns: 9 };
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
        "chain 493b689018f1fef329790006",
        "digest 5ce5fec8a0d414c5ced386dd",
        "cells eab951e981134de609a9e379",
        "snapshot 7cc0de8a39ba02af8a2f645d",
        "child da364149855ef1aca2345f00",
        "fork record 55d21cfcedae99e84a31d867",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_intent_hash_can_be_computed_by_hand() {
    let world = WorldId::from_bytes([2; 16]);
    assert_eq!(world, WORLD);
    let place = Place { height: Height::new(500), index: 1 };
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
