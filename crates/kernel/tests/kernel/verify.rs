//! A history proves itself from its first record and from any snapshot; what is wrong is named by its height.

use crate::rig::{Rig, WORLD, receipt, registry};
use mundi_kernel::{
    fork::{ForkRequest, arrive},
    snapshot::KernelSnapshot,
    verify::{Verified, Verifier, VerifyError},
};
use mundi_model::{
    Hash, Height, UniverseId,
    record::{EffectPolicy, ReceiptStatus, SnapshotNote},
};
use std::sync::Arc;

fn from_genesis(rig: &Rig, notes: &[SnapshotNote]) -> Result<Verified, VerifyError> {
    let registry = Arc::new(registry());
    let mut verifier = Verifier::from_genesis(&rig.objects, registry, &rig.journal[0], notes.to_vec())?;
    for record in &rig.journal[1..] {
        verifier.apply(&rig.objects, record)?;
    }
    verifier.finish(&rig.objects)
}

fn busy() -> (Rig, SnapshotNote) {
    let mut rig = Rig::new();
    rig.run("put a 1\nemit http get");
    let intent = rig.world.open_intents().next().unwrap().clone();
    rig.take(receipt(intent.hash, "http", ReceiptStatus::Ok, b"yes"));
    let note = rig.snapshot().note;
    rig.run("put b 2\nemit mail post");
    (rig, note)
}

#[test]
fn a_history_gives_its_snapshots_and_the_same_world_from_genesis_and_from_them() {
    let (rig, note) = busy();
    let whole = from_genesis(&rig, std::slice::from_ref(&note)).unwrap();
    let counted = whole.counted;
    assert_eq!((counted.intents, counted.receipts, counted.snapshots, whole.open_intents), (2, 1, 1, 1));
    assert_eq!(counted.records, rig.journal.len() as u64);
    let mut tail = Verifier::from_snapshot(&rig.objects, Arc::new(registry()), &note).unwrap();
    for record in &rig.journal[usize::try_from(note.height.get()).unwrap()..] {
        tail.apply(&rig.objects, record).unwrap();
    }
    assert_eq!(tail.finish(&rig.objects).unwrap().state.note, whole.state.note);
}

#[test]
fn a_snapshot_that_the_records_do_not_give_is_named() {
    let (rig, note) = busy();
    let other = SnapshotNote { snapshot: Hash::of(b"another"), ..note.clone() };
    let refused = from_genesis(&rig, &[other]).unwrap_err();
    assert!(matches!(refused, VerifyError::SnapshotDiverged { height, .. } if height == note.height), "{refused}");
    let beyond = SnapshotNote { height: Height::new(1_000), ..note };
    assert!(matches!(from_genesis(&rig, &[beyond]), Err(VerifyError::SnapshotBeyond { .. })));
}

#[test]
fn a_receipt_that_comes_twice_is_no_history() {
    let (mut rig, _) = busy();
    let twice = rig.journal.iter().position(|bytes| crate::rig::kind(&crate::rig::body(bytes)) == "ingress").unwrap();
    rig.journal.insert(twice + 1, rig.journal[twice].clone());
    let refused = from_genesis(&rig, &[]).unwrap_err().to_string();
    assert!(refused.contains(&format!("height {}", twice + 1)), "{refused}");
}

#[test]
fn a_world_that_arrives_elsewhere_goes_on_under_its_own_id_and_proves_itself() {
    let (mut rig, note) = busy();
    let elsewhere = UniverseId::from_bytes([9; 16]);
    let left = KernelSnapshot::from_bytes(&rig.snapshot().bytes).unwrap();
    let request = ForkRequest::new(WORLD, EffectPolicy::Suppress, 99_000);
    let fork = arrive(&left, elsewhere, request).unwrap();
    rig.objects.put(fork.bytes.clone());
    rig.journal.push(fork.record.clone());
    let mut arrived = Verifier::from_snapshot(&rig.objects, Arc::new(registry()), &fork.note).unwrap();
    arrived.apply(&rig.objects, &fork.record).unwrap();
    let arrived = arrived.finish(&rig.objects).unwrap();
    let whole = from_genesis(&rig, &[note]).unwrap();
    assert_eq!(arrived.state.note, whole.state.note);
    assert_eq!((whole.counted.forks, whole.open_intents), (1, 1), "it waits for its cancellation");
    assert_eq!(rig.restore(&fork.note).universe(), elsewhere);
}
