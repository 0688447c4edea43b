//! Snapshots: complete, what the journal says, or refused.

use crate::rig::{Rig, identity, manifest, upgrade};
use mundi_kernel::{
    Note, World,
    snapshot::{KernelSnapshot, SnapshotError, load},
};
use mundi_model::{Code, Coded, Hash, Height, cbor, record::SnapshotNote};

fn busy() -> Rig {
    let mut rig = Rig::new();
    rig.run("fill large 5000\nput small 1\nemit http open\nemit-large http big\ntimer wake 900000\nemit mail gone\ncancel gone");
    rig
}

#[test]
fn a_snapshot_carries_everything_and_restores_to_the_same_world() {
    let mut rig = busy();
    let taken = rig.snapshot();
    let snapshot = KernelSnapshot::from_bytes(&taken.bytes).unwrap();
    assert_eq!(snapshot.height(), rig.world.head());
    assert_eq!((snapshot.open_intents().len(), snapshot.timers().len()), (2, 1));
    let mut restored = rig.restore(&taken.note);
    assert_eq!(identity(&mut restored, &rig.objects), identity(&mut rig.world, &rig.objects));
    assert_eq!(restored.head(), rig.world.head());

    let next = [rig.arrival(crate::rig::event("add n\ncancel open\nrandom r"))];
    let output = restored.turn(&rig.objects, &next, Default::default()).unwrap().keep();
    assert_eq!(output.records, rig.turn(&next).records, "and goes on as the original does");
}

#[test]
fn a_snapshot_lists_every_root_that_restore_needs() {
    let mut rig = busy();
    let taken = rig.snapshot();
    let snapshot = load(&rig.objects, &rig.registry, &taken.note).unwrap();
    let manifest = rig.world.manifest().clone();
    let blob = match &snapshot.open_intents().iter().find(|intent| intent.label == "big").unwrap().params {
        mundi_model::record::Payload::Blob(hash, _) => *hash,
        mundi_model::record::Payload::Inline(_) => panic!(),
    };
    for root in [manifest.hash, manifest.manifest.program, snapshot.cells().unwrap(), blob] {
        assert!(snapshot.roots().contains(&root));
        let mut incomplete = rig.objects.clone();
        incomplete.remove(&root);
        let refused = World::restore(&incomplete, rig.registry.clone(), &taken.note).err().unwrap();
        assert!(matches!(refused.code(), Code::SnapshotInvalid | Code::ObjectMissing), "{refused}");
    }
}

#[test]
fn a_snapshot_is_checked_when_it_is_noted_and_when_it_is_promoted() {
    let mut rig = busy();
    let taken = rig.world.snapshot(&rig.objects).unwrap();
    let refused = rig.note(Note::Snapshot(taken.note.clone())).unwrap_err();
    assert_eq!(refused.code(), Code::ObjectMissing, "it was not stored");
    rig.objects.extend(taken.objects.iter().cloned());
    let cells = load(&rig.objects, &rig.registry, &taken.note).unwrap().cells().unwrap();
    rig.note(Note::Snapshot(taken.note.clone())).unwrap();
    rig.objects.remove(&cells);
    let refused = rig.note(Note::Baseline(taken.note.clone())).unwrap_err();
    assert_eq!(refused.code(), Code::SnapshotInvalid, "a root is gone");
    rig.objects.extend(taken.objects.iter().cloned());
    rig.note(Note::Baseline(taken.note)).unwrap();
    assert_eq!(rig.kinds()[rig.journal.len() - 2..], ["snapshot", "baseline"]);
    rig.replayed();
}

/// A real corruption was this: a snapshot whose manifest was not the one that the journal gave there.
#[test]
fn a_snapshot_whose_manifest_is_not_the_journals_is_refused() {
    let mut rig = busy();
    let before = rig.snapshot().note;
    let new = rig.store_manifest(&manifest(2));
    rig.take(upgrade(new));
    let after = rig.snapshot().note;

    let lying = SnapshotNote { manifest: new, ..before.clone() };
    let refused = World::restore(&rig.objects, rig.registry.clone(), &lying).err().unwrap();
    assert!(matches!(&refused, SnapshotError::Invalid(_)), "on load: {refused}");
    assert_eq!(rig.note(Note::Snapshot(lying)).unwrap_err().code(), Code::TurnInvalid, "on write");
    let stale = rig.note(Note::Snapshot(before)).unwrap_err();
    assert_eq!(stale.code(), Code::TurnInvalid, "older than the manifest that holds");

    // A journal that notes it nevertheless is broken there.
    rig.note(Note::Snapshot(after)).unwrap();
    rig.replayed();
    let mut record: mundi_model::record::Record = cbor::decode(rig.journal.last().unwrap()).unwrap();
    let mundi_model::record::Body::Snapshot(note) = &mut record.body else { panic!() };
    note.manifest = Hash::of(b"another");
    *rig.journal.last_mut().unwrap() = record.seal().0;
    let mut replay =
        mundi_kernel::replay::Replay::from_genesis(&rig.objects, rig.registry.clone(), &rig.journal[0]).unwrap();
    assert_eq!(replay.run(&rig.objects, &rig.journal[1..], None).unwrap_err().code(), Code::JournalBroken);
}

#[test]
fn a_note_that_disagrees_in_anything_is_refused() {
    let mut rig = busy();
    let note = rig.snapshot().note;
    for wrong in [
        SnapshotNote { height: Height::new(1), ..note.clone() },
        SnapshotNote { height: note.height.next(), ..note.clone() },
        SnapshotNote { logical_time_ns: 1, ..note.clone() },
        SnapshotNote { chain: Hash::of(b"x"), ..note.clone() },
        SnapshotNote { manifest: Hash::of(b"x"), ..note.clone() },
        SnapshotNote { snapshot: Hash::of(b"x"), ..note.clone() },
    ] {
        assert!(World::restore(&rig.objects, rig.registry.clone(), &wrong).is_err(), "{wrong:?}");
        assert!(rig.note(Note::Snapshot(wrong.clone())).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_snapshot_may_be_noted_some_turns_after_it_was_taken() {
    let mut rig = busy();
    let taken = rig.snapshot();
    rig.run("put later 1");
    rig.note(Note::Snapshot(taken.note.clone())).unwrap();
    rig.run("put later 2");
    let mut replay = mundi_kernel::replay::Replay::from_world(rig.restore(&taken.note));
    replay.run(&rig.objects, &rig.journal[usize::try_from(taken.note.height.get()).unwrap()..], None).unwrap();
    let mut replayed = replay.finish().unwrap();
    assert_eq!(identity(&mut replayed, &rig.objects), identity(&mut rig.world, &rig.objects));
}

#[test]
fn any_flipped_bit_of_a_snapshot_is_refused() {
    let mut rig = busy();
    let taken = rig.snapshot();
    for index in 0..taken.bytes.len() {
        let mut damaged = taken.bytes.to_vec();
        damaged[index] ^= 1;
        // Not even a host that recomputes the name gets past the note.
        let renamed = SnapshotNote { snapshot: rig.objects.put(damaged.clone()), ..taken.note.clone() };
        let Ok(mut world) = World::restore(&rig.objects, rig.registry.clone(), &renamed) else { continue };
        let (_, hash) = identity(&mut world, &rig.objects);
        assert_eq!(hash, renamed.snapshot, "byte {index} was neither refused nor kept");
    }
    let swapped = SnapshotNote { snapshot: taken.note.snapshot, ..taken.note.clone() };
    assert!(World::restore(&rig.objects, rig.registry.clone(), &swapped).is_ok());
}
