//! Forks: the effect policies, lineage, and that no name is shared with the parent.

use crate::rig::{CHILD, Rig, WORLD, body, event, fired, identity, receipt, refusal};
use mundi_kernel::{
    World,
    cells::diff,
    fork::{Fork, ForkError, ForkRequest, arrive, fork},
    replay::Replay,
    snapshot::KernelSnapshot,
    turn::{Recorded, TurnOutput},
};
use mundi_model::{
    Code, Coded, Hash, WorldId,
    record::{Body, EffectPolicy, ReceiptStatus, Record},
};

fn parent() -> Rig {
    let mut rig = Rig::new();
    rig.run("put a 1\nemit http get\nemit mail post\ntimer wake 900000");
    rig.run("emit mail gone\ncancel gone");
    rig
}

fn branch(rig: &mut Rig, policy: EffectPolicy) -> Fork {
    let taken = rig.snapshot();
    let snapshot = KernelSnapshot::from_bytes(&taken.bytes).unwrap();
    let fork = fork(&snapshot, ForkRequest::new(CHILD, policy, 77_000)).unwrap();
    rig.objects.put(fork.bytes.clone());
    fork
}

/// The child as a rig of its own, at its first record.
fn child(rig: &Rig, fork: &Fork) -> Rig {
    let world = rig.restore(&fork.note);
    let mut replay = Replay::from_world(world);
    replay.apply(&rig.objects, &fork.record).unwrap();
    let world = replay.finish().unwrap();
    let mut child = Rig::new();
    child.objects = rig.objects.clone();
    child.world = world;
    child.journal = rig.journal[..usize::try_from(fork.genesis.forked_at.get()).unwrap()].to_vec();
    child.journal.push(fork.record.clone());
    child.now_ns = 80_000;
    child
}

#[test]
fn suppress_keeps_open_intents_for_their_cancellation_and_keeps_timers() {
    let mut rig = parent();
    let fork = branch(&mut rig, EffectPolicy::Suppress);
    assert_eq!(fork.publish.len(), 2, "each waits for a receipt that says that it was dropped");
    assert_eq!(fork.timers.len(), 1, "a timer touches nothing outside");
    let mut child = child(&rig, &fork);
    let parents = rig.world.open_intents().next().unwrap().clone();
    let output = child.take(receipt(parents.hash, &parents.kind, ReceiptStatus::Ok, b""));
    assert_eq!(refusal(&output), "RECEIPT_UNKNOWN", "the parent's receipt is foreign here");
    let output = child.run("emit http again");
    assert_eq!((output.publish.len(), output.publish[0].recorded), (1, None), "new intents are live");
}

#[test]
fn live_publishes_open_intents_anew_under_names_of_its_own() {
    let mut rig = parent();
    let fork = branch(&mut rig, EffectPolicy::Live);
    let labels: std::collections::BTreeSet<_> = fork.publish.iter().map(|p| p.intent.label.as_str()).collect();
    assert_eq!(labels, ["get", "post"].into());
    let parents: Vec<_> = rig.world.open_intents().chain(rig.world.timers()).map(|intent| intent.hash).collect();
    assert!(fork.publish.iter().all(|publish| !parents.contains(&publish.intent.hash)));
    assert!(fork.timers.iter().all(|timer| !parents.contains(&timer.timer)));

    let mut child = child(&rig, &fork);
    let get = fork.publish.iter().find(|publish| publish.intent.label == "get").unwrap();
    child.take(receipt(get.intent.hash, "http", ReceiptStatus::Ok, b"yes"));
    child.take(fired(fork.timers[0].timer));
    assert_eq!(child.text("receipt/get"), "Ok yes");
    assert!(child.cell("timer/wake").is_some());
    assert_eq!(rig.text("receipt/get"), "", "and the parent still waits");
}

#[test]
fn recorded_says_which_of_the_parents_intents_each_is_compared_with() {
    let mut rig = parent();
    let fork = branch(&mut rig, EffectPolicy::Recorded);
    assert_eq!(fork.publish.len(), 2);
    for publish in &fork.publish {
        let Some(Recorded::Open(ancestor)) = publish.recorded else { panic!("{publish:?}") };
        assert!(rig.world.open_intents().any(|intent| intent.hash == ancestor));
    }
    let mut child = child(&rig, &fork);
    let compared = |output: &TurnOutput| output.publish.iter().map(|publish| publish.recorded).collect::<Vec<_>>();
    let first = child.run("emit http a\ntimer t 5\nemit http withdrawn\ncancel withdrawn\nemit http b");
    assert_eq!(compared(&first), [0, 2].map(|nth| Some(Recorded::Nth(nth))), "a timer does not count");
    child.run("emit http lost\nfail now");
    assert_eq!(compared(&child.run("emit http c")), [Some(Recorded::Nth(3))], "nor does what a failed step asked for");
    child.replayed();
}

#[test]
fn a_recording_ends_by_a_record_and_stays_ended_in_replay_and_snapshot() {
    let mut rig = parent();
    let fork = branch(&mut rig, EffectPolicy::RecordedThenLive);
    let mut child = child(&rig, &fork);
    let ended = child.end_recording("emit http other");
    assert!(ended.publish[0].recorded.is_some() && child.world.recording().is_none());
    assert_eq!(child.run("emit http own").publish[0].recorded, None);
    assert!(child.replayed().recording().is_none());
    let taken = child.snapshot();
    assert!(child.restore(&taken.note).recording().is_none());
    let again = Record { height: child.world.head(), prev: child.world.chain(), body: ended_by(&ended) }.seal().0;
    let mut replay = Replay::from_world(child.replayed());
    assert_eq!(replay.apply(&child.objects, &again).unwrap_err().code(), Code::JournalBroken);
}

fn ended_by(output: &TurnOutput) -> Body {
    body(output.records.last().unwrap())
}

#[test]
fn the_genesis_of_a_fork_carries_lineage_and_goes_on_with_the_parents_chain() {
    let mut rig = parent();
    let (head, chain) = (rig.world.head(), rig.world.chain());
    let fork = branch(&mut rig, EffectPolicy::Suppress);
    let record: Record = mundi_model::cbor::decode(&fork.record).unwrap();
    assert_eq!((record.height, record.prev), (head, chain));
    let Body::ForkGenesis(genesis) = record.body else { panic!() };
    assert_eq!((genesis.world, genesis.parent, genesis.forked_at), (CHILD, WORLD, head));
    assert_eq!(genesis.policy, EffectPolicy::Suppress);
    let child = child(&rig, &fork);
    assert_eq!((child.world.id(), child.world.head()), (CHILD, head.next()));
    assert_eq!(child.world.logical_now_ns(), 77_000);
}

#[test]
fn a_child_replays_from_the_parents_genesis_through_the_fork() {
    for policy in EffectPolicy::OFFERED.into_iter().chain([EffectPolicy::Dropped]) {
        let mut rig = parent();
        let fork = branch(&mut rig, policy);
        let mut child = child(&rig, &fork);
        child.run("add n\nemit http new\nrandom r");
        let mut replayed = child.replayed();
        assert_eq!(identity(&mut replayed, &child.objects), identity(&mut child.world, &child.objects));
    }
}

#[test]
fn a_genesis_that_lies_about_its_fork_is_refused() {
    let mut rig = parent();
    let fork = branch(&mut rig, EffectPolicy::Suppress);
    let honest: Record = mundi_model::cbor::decode(&fork.record).unwrap();
    let lies: [fn(&mut mundi_model::record::ForkGenesis); 7] = [
        |genesis| genesis.policy = EffectPolicy::Live,
        |genesis| genesis.policy = EffectPolicy::Sandbox,
        |genesis| genesis.policy = EffectPolicy::Kept,
        |genesis| genesis.answers = Some(Hash::of(b"x")),
        |genesis| genesis.snapshot = Hash::of(b"x"),
        |genesis| genesis.parent_snapshot = Hash::of(b"x"),
        |genesis| genesis.world = WorldId::from_bytes([9; 16]),
    ];
    for lie in lies {
        let mut record = honest.clone();
        let Body::ForkGenesis(genesis) = &mut record.body else { panic!() };
        lie(genesis);
        let mut replay = Replay::from_genesis(&rig.objects, rig.registry.clone(), &rig.journal[0]).unwrap();
        replay.run(&rig.objects, &rig.journal[1..], None).unwrap();
        assert_eq!(replay.apply(&rig.objects, &record.seal().0).unwrap_err().code(), Code::JournalBroken);
    }
}

#[test]
fn a_fork_shares_all_cells_and_branches_are_compared_by_what_differs() {
    let mut rig = parent();
    rig.run("fill x 100\nfill y 2000");
    let objects = rig.objects.len();
    let fork = branch(&mut rig, EffectPolicy::Suppress);
    assert!(rig.objects.len() - objects <= 5, "the parent's snapshot, its few nodes, and the child's snapshot");
    let mut child = child(&rig, &fork);
    child.run("put only-child 1");
    let taken = child.snapshot();
    let ours = KernelSnapshot::from_bytes(&taken.bytes).unwrap().cells();
    let found: Vec<_> =
        diff(&child.objects, fork.snapshot.cells(), ours, |diff| diff.map(|d| d.unwrap().key).collect());
    assert_eq!(found, ["only-child"]);
}

#[test]
fn a_fork_of_a_fork_is_a_fork() {
    let mut rig = parent();
    let fork_of_parent = branch(&mut rig, EffectPolicy::Live);
    let mut child = child(&rig, &fork_of_parent);
    child.run("add n");
    let taken = child.snapshot();
    let snapshot = KernelSnapshot::from_bytes(&taken.bytes).unwrap();
    let grandchild = WorldId::from_bytes([4; 16]);
    let request = ForkRequest::new(grandchild, EffectPolicy::Recorded, 99_000);
    let fork = fork(&snapshot, request).unwrap();
    child.objects.put(fork.bytes.clone());
    child.journal.push(fork.record.clone());
    let world = child.replayed();
    assert_eq!(world.id(), grandchild);
    assert!(World::restore(&child.objects, child.registry.clone(), &fork.note).is_ok());
}

#[test]
fn a_world_is_no_fork_of_itself() {
    let mut rig = parent();
    let taken = rig.snapshot();
    let snapshot = KernelSnapshot::from_bytes(&taken.bytes).unwrap();
    let request = ForkRequest::new(WORLD, EffectPolicy::Live, 0);
    assert_eq!(fork(&snapshot, request).unwrap_err(), ForkError::SameWorld(WORLD));
}

#[test]
fn a_fork_begins_with_an_inbox_of_its_own() {
    let mut rig = parent();
    let fork = branch(&mut rig, EffectPolicy::Suppress);
    let mut child = child(&rig, &fork);
    let first = child.arrival(event("put a 9")); // its place is before the parent's last one
    assert_eq!(child.turn(&[first]).consumed, 1);
    assert_eq!(body(child.journal.last().unwrap()), Body::OutcomeDigest(child.world.digest()));
}

/// A snapshot of a branch, as another branch begins with it.
fn left_by(rig: &mut Rig, policy: EffectPolicy) -> (Rig, KernelSnapshot) {
    let fork = branch(rig, policy);
    let mut child = child(rig, &fork);
    child.run("emit http new");
    let taken = child.snapshot();
    let snapshot = KernelSnapshot::from_bytes(&taken.bytes).unwrap();
    (child, snapshot)
}

#[test]
fn no_fork_leads_out_of_a_sandbox() {
    let mut rig = parent();
    let (mut child, sandboxed) = left_by(&mut rig, EffectPolicy::Sandbox);
    let grandchild = WorldId::from_bytes([4; 16]);
    for policy in EffectPolicy::OFFERED.into_iter().chain([EffectPolicy::Dropped]) {
        let forked = fork(&sandboxed, ForkRequest::new(grandchild, policy, 99_000));
        assert_eq!(forked.is_ok(), policy == EffectPolicy::Sandbox, "{policy:?}");
        assert!(forked.is_ok_and(|fork| fork.snapshot.confined().is_some()) || policy != EffectPolicy::Sandbox);
    }
    // Nor does a record that claims so: replay refuses it.
    let fork = fork(&sandboxed, ForkRequest::new(grandchild, EffectPolicy::Sandbox, 99_000)).unwrap();
    let mut record: Record = mundi_model::cbor::decode(&fork.record).unwrap();
    let Body::ForkGenesis(genesis) = &mut record.body else { panic!() };
    genesis.policy = EffectPolicy::Live;
    let mut replay = Replay::from_world(child.replayed());
    assert_eq!(replay.apply(&child.objects, &record.seal().0).unwrap_err().code(), Code::JournalBroken);
    child.objects.put(fork.bytes.clone());
    child.journal.push(fork.record.clone());
    assert!(child.replayed().confined().is_some());
}

#[test]
fn a_world_that_arrives_elsewhere_stays_confined() {
    let elsewhere = mundi_model::UniverseId::from_bytes([9; 16]);
    for policy in EffectPolicy::OFFERED {
        let mut rig = parent();
        let (mut child, left) = left_by(&mut rig, policy);
        for asked in [EffectPolicy::Suppress, EffectPolicy::Live] {
            let arrived = arrive(&left, elsewhere, ForkRequest::new(CHILD, asked, 99_000)).unwrap();
            assert_eq!(arrived.snapshot.confined(), left.confined());
            assert_eq!(arrived.genesis.policy, if policy.confines() { EffectPolicy::Kept } else { asked });
            let mut moved = child.journal.clone();
            moved.push(arrived.record.clone());
            child.objects.put(arrived.bytes.clone());
            let before = std::mem::replace(&mut child.journal, moved);
            assert_eq!(child.replayed().confined(), left.confined(), "{policy:?}");
            child.journal = before;
        }
    }
}

#[test]
fn a_confined_fork_never_ends_its_recording() {
    for policy in [EffectPolicy::Recorded, EffectPolicy::Sandbox] {
        let mut rig = parent();
        let fork = branch(&mut rig, policy);
        let mut child = child(&rig, &fork);
        let output = child.run("emit http other");
        let body = Body::RecordingEnded(output.publish[0].intent.hash);
        let ended = Record { height: child.world.head(), prev: child.world.chain(), body }.seal().0;
        let mut replay = Replay::from_world(child.replayed());
        assert_eq!(replay.apply(&child.objects, &ended).unwrap_err().code(), Code::JournalBroken);
    }
}

#[test]
fn scripted_answers_belong_to_sandboxes_and_are_part_of_their_snapshots() {
    let mut rig = parent();
    let taken = rig.snapshot();
    let snapshot = KernelSnapshot::from_bytes(&taken.bytes).unwrap();
    let answers = rig.objects.put(b"answers".to_vec());
    for policy in EffectPolicy::OFFERED {
        let forked = fork(&snapshot, ForkRequest { answers: Some(answers), ..ForkRequest::new(CHILD, policy, 0) });
        match forked {
            Ok(fork) => assert!(policy == EffectPolicy::Sandbox && fork.snapshot.roots().contains(&answers)),
            Err(error) => assert_eq!((error, policy != EffectPolicy::Sandbox), (ForkError::AnswersUnused, true)),
        }
    }
}
