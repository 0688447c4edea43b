//! Recorded forks: answered from the parent's receipts while they ask for the same. Here those that are live from the first
//! difference on; those that stop there are in `fork_policies.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_model::{
    Height, Value, WorkerId, WorldId, cbor,
    record::{Body, EffectPolicy, InboxItem, Ingress, Input, Payload, Receipt, ReceiptStatus, Record},
};
use mundi_runtime::{
    Plane,
    calls::Calls,
    control::Ops,
    lifecycle::{ForkAt, ForkWorld, fork},
    testing::{Rig, TestPlane, cell, script_event},
    world::{CycleBudget, Progress, WorldHost},
};
use mundi_store::{
    Fence,
    keyspace::Shard,
    protocol::{Answer, ClaimEffects, KindCap, WokenBy, complete_effect},
    testing::world_id,
};

/// After nothing but its genesis.
const BORN: ForkAt = ForkAt::Height(Height::new(1));

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

async fn host(rig: &Rig, world: WorldId) -> WorldHost<TestPlane> {
    rig.host(world, id(1)).await.unwrap()
}

async fn turns(host: &mut WorldHost<TestPlane>) {
    while host.turn(&CycleBudget::default()).await.unwrap() != Progress::Idle {}
}

async fn tell(rig: &Rig, host: &mut WorldHost<TestPlane>, scripts: &[&str]) {
    rig.tell(host, scripts).await.unwrap();
}

/// Carries out everything that is queued; says for which worlds. The answer is the number of the call.
async fn carry_out(rig: &Rig, calls: &mut u64) -> Vec<WorldId> {
    let mut worlds = Vec::new();
    loop {
        let claim = ClaimEffects {
            universe: rig.universe,
            kind: "http".into(),
            worker: id(5),
            token: rig.plane.random(),
            items_max: 1,
            ttl_ns: 30_000_000_000,
            now_ns: rig.plane.now_ns(),
            first: Shard::FIRST,
            cap: KindCap::default(),
        };
        let claims = rig.plane.run(&claim).await.unwrap().output;
        let Some(claimed) = claims.effects.first() else { return worlds };
        *calls += 1;
        worlds.push(claimed.item.world);
        let payload = Payload::Inline(cbor::encode(&Value::Integer((*calls).into())));
        let answer = Answer::new(ReceiptStatus::Ok, payload, "outside");
        complete_effect(&rig.plane.engine, &*rig.plane.clock, &rig.plane.blobs, claimed, answer, WokenBy::ReadyQueue)
            .await
            .unwrap();
    }
}

async fn records(rig: &Rig, world: WorldId) -> Vec<Record> {
    rig.journal(world).await.unwrap().iter().map(|bytes| cbor::decode(bytes).unwrap()).collect()
}

/// The receipts in a world's own part of its journal: status, payload, who answered.
async fn receipts(rig: &Rig, world: WorldId) -> Vec<Receipt> {
    let mut own = records(rig, world).await;
    if let Some(fork) = own.iter().rposition(|record| matches!(record.body, Body::ForkGenesis(_))) {
        own.drain(..fork);
    }
    let receipt = |record: Record| match record.body {
        Body::Ingress(Ingress { item: InboxItem { input: Input::Receipt(receipt), .. }, .. }) => Some(receipt),
        _ => None,
    };
    own.into_iter().filter_map(receipt).collect()
}

async fn branch(rig: &Rig, parent: WorldId, child: WorldId, at: ForkAt) {
    let policy = EffectPolicy::RecordedThenLive.into();
    let request = ForkWorld { universe: rig.universe, parent, child, at, policy, manifest: None, now_ns: 5 };
    fork(&rig.plane, request).await.unwrap();
}

/// From genesis through the fork: every record gives what it recorded, and the journal is the same bytes.
async fn replays(rig: &Rig, host: &mut WorldHost<TestPlane>) {
    let fence = Fence { epoch: mundi_model::Epoch::INITIAL, ..host.fence() };
    let before = rig.journal(host.id()).await.unwrap();
    let again = WorldHost::restore(rig.plane.clone(), fence).await.unwrap();
    assert_eq!((again.head(), again.chain()), (host.head(), host.chain()));
    let objects = rig.plane.registry().clone();
    let mut all = mundi_kernel::MemoryObjects::new();
    for bytes in [mundi_runtime::testing::manifest().to_bytes(), descriptor()] {
        all.put(bytes);
    }
    let mut replay = mundi_kernel::replay::Replay::from_genesis(&all, objects, &before[0]).unwrap();
    replay.run(&all, &before[1..], None).unwrap();
    assert_eq!(replay.finish().unwrap().chain(), host.chain());
}

fn descriptor() -> Vec<u8> {
    mundi_kernel::registry::native_descriptor("script", 1).into_bytes()
}

#[test]
fn a_fork_that_asks_for_the_same_is_answered_by_its_parent_and_nothing_is_carried_out_twice() {
    Rig::run(|rig| async move {
        let (parent, child, mut calls) = (world_id(1), world_id(2), 0);
        rig.create(parent).await.unwrap();
        let mut original = host(&rig, parent).await;
        tell(&rig, &mut original, &["add n"]).await;
        let at = ForkAt::Height(original.head());
        for script in ["emit a 1\nemit b 2", "timer t 99\nemit c 3"] {
            tell(&rig, &mut original, &[script]).await;
            assert_eq!(carry_out(&rig, &mut calls).await.len(), script.matches("emit").count());
            turns(&mut original).await;
        }
        original.snapshot().await.unwrap();
        branch(&rig, parent, child, at).await;
        let mut fork = host(&rig, child).await;
        // Packed into turns of another size, in a world of another name, at other heights.
        rig.send(child, vec![script_event("emit a 1\nemit b 2"), script_event("timer t 99\nemit c 3")]).await.unwrap();
        turns(&mut fork).await;
        assert!(carry_out(&rig, &mut calls).await.is_empty(), "nothing was carried out again");
        let answer = |receipt: Receipt| (receipt.status, receipt.payload, receipt.adapter);
        let theirs: Vec<_> = receipts(&rig, parent).await.into_iter().map(answer).collect();
        let ours: Vec<_> = receipts(&rig, child).await.into_iter().map(answer).collect();
        assert!(ours.len() == 3 && theirs.iter().all(|receipt| ours.contains(receipt)));
        for label in ["a", "b", "c"] {
            assert_eq!(cell(&mut fork, &format!("receipt/{label}")).await.unwrap(), b"got");
        }
        replays(&rig, &mut fork).await;

        // It has caught up with its parent: from here on it is on its own.
        tell(&rig, &mut fork, &["emit d 4"]).await;
        assert_eq!(carry_out(&rig, &mut calls).await, [child]);
        turns(&mut fork).await;
        assert_eq!(cell(&mut fork, "receipt/d").await.unwrap(), b"got");
        replays(&rig, &mut fork).await;
    });
}

#[test]
fn the_first_difference_ends_the_recording_by_a_record_and_for_good() {
    Rig::run(|rig| async move {
        let (parent, child, mut calls) = (world_id(1), world_id(2), 0);
        rig.create(parent).await.unwrap();
        let mut original = host(&rig, parent).await;
        tell(&rig, &mut original, &["emit a 1", "emit b 2", "emit c 3"]).await;
        carry_out(&rig, &mut calls).await;
        turns(&mut original).await;
        branch(&rig, parent, child, BORN).await;
        let mut fork = host(&rig, child).await;
        tell(&rig, &mut fork, &["emit a 1\nemit b other\nemit c 3"]).await;
        assert_eq!(carry_out(&rig, &mut calls).await, [child, child], "what comes after a difference is its own, too");
        turns(&mut fork).await;
        assert_eq!(receipts(&rig, child).await.len(), 3);
        let ended = |record: &Record| matches!(record.body, Body::RecordingEnded(_));
        assert_eq!(records(&rig, child).await.iter().filter(|record| ended(record)).count(), 1);
        // Also for a worker that restores it, from its journal or from a snapshot.
        let mut fork = host(&rig, child).await;
        tell(&rig, &mut fork, &["emit d 2"]).await;
        fork.snapshot().await.unwrap();
        let mut fork = host(&rig, child).await;
        tell(&rig, &mut fork, &["emit e 3"]).await;
        assert_eq!(carry_out(&rig, &mut calls).await, [child, child]);
        replays(&rig, &mut fork).await;
    });
}

#[test]
fn what_was_open_at_the_fork_is_answered_with_what_the_parent_got_or_with_an_error() {
    Rig::run(|rig| async move {
        let (parent, mut calls) = (world_id(1), 0);
        rig.create(parent).await.unwrap();
        let mut original = host(&rig, parent).await;
        tell(&rig, &mut original, &["emit a 1"]).await;
        let at = ForkAt::Height(original.head());
        carry_out(&rig, &mut calls).await;
        turns(&mut original).await;
        tell(&rig, &mut original, &["emit b 2"]).await;
        let open = ForkAt::Height(original.head());
        for (n, at, status) in [(2, at, ReceiptStatus::Ok), (3, open, ReceiptStatus::Error)] {
            branch(&rig, parent, world_id(n), at).await;
            branch(&rig, parent, world_id(n), at).await; // once more changes nothing
            let mut fork = host(&rig, world_id(n)).await;
            turns(&mut fork).await;
            let found = receipts(&rig, world_id(n)).await;
            assert_eq!(found.iter().map(|receipt| receipt.status).collect::<Vec<_>>(), [status]);
            let Payload::Inline(payload) = &found[0].payload else { panic!("inline") };
            assert_eq!(String::from_utf8_lossy(payload).contains("EFFECT_NOT_RECORDED"), n == 3);
            replays(&rig, &mut fork).await;
        }
        assert_eq!(carry_out(&rig, &mut calls).await, [parent], "only the parent's own is left");
    });
}

#[test]
fn a_parent_without_a_receipt_gives_an_error_and_the_recording_goes_on() {
    Rig::run(|rig| async move {
        let (parent, child, mut calls) = (world_id(1), world_id(2), 0);
        rig.create(parent).await.unwrap();
        let mut original = host(&rig, parent).await;
        tell(&rig, &mut original, &["emit a 1\ncancel a\nemit b 2", "emit c 3"]).await;
        carry_out(&rig, &mut calls).await;
        turns(&mut original).await;
        tell(&rig, &mut original, &["emit d 4"]).await;
        branch(&rig, parent, child, BORN).await;
        let mut fork = host(&rig, child).await;
        // It does not withdraw the first one, whose answer nobody knows; the others are as they were.
        tell(&rig, &mut fork, &["emit a 1\nemit b 2", "emit c 3", "emit d 4"]).await;
        let statuses: Vec<_> = receipts(&rig, child).await.iter().map(|receipt| receipt.status).collect();
        use ReceiptStatus::{Error, Ok};
        assert_eq!(statuses, [Error, Ok, Ok, Error], "nobody answered the first and, so far, the last");
        assert_eq!(carry_out(&rig, &mut calls).await, [parent]);
        replays(&rig, &mut fork).await;
    });
}

/// A recorded fork crashes at every await of its turns: its receipts come with the turn that asked, once.
#[test]
fn a_recorded_fork_that_dies_at_any_await_is_answered_once() {
    let prepare = || {
        let rig = Rig::new(1);
        let preparing = rig.clone();
        rig.executor.block_on(async move {
            let (parent, child) = (world_id(1), world_id(2));
            preparing.create(parent).await.unwrap();
            let mut original = host(&preparing, parent).await;
            tell(&preparing, &mut original, &["emit a 1", "emit b 2"]).await;
            carry_out(&preparing, &mut 0).await;
            turns(&mut original).await;
            branch(&preparing, parent, child, BORN).await;
            let scripts = ["emit a 1", "emit b other"].map(script_event);
            preparing.send(child, scripts.into()).await.unwrap();
        });
        rig.plane.engine.revive();
        rig
    };
    let live = |rig: Rig| async move {
        let fence = rig.acquire(world_id(2), id(1)).await?;
        let mut host = WorldHost::restore(rig.plane.clone(), fence).await?;
        while host.turn(&CycleBudget::default()).await? != Progress::Idle {}
        Ok::<_, mundi_runtime::RuntimeError>(())
    };
    let whole = prepare();
    let living = live(whole.clone());
    whole.executor.block_on(living).unwrap();
    let operations = whole.plane.engine.operations();
    assert!(operations > 20);
    for trouble in mundi_store::testing::Trouble::ALL {
        for operation in 0..operations {
            let rig = prepare();
            rig.plane.engine.arm(operation, trouble);
            let dying = live(rig.clone());
            let _ = rig.executor.block_on(dying);
            rig.plane.engine.revive();
            let finishing = rig.clone();
            rig.executor.block_on(async move {
                live(finishing.clone()).await.unwrap();
                let mut calls = 0;
                assert_eq!(carry_out(&finishing, &mut calls).await, [world_id(2)], "{trouble:?} at {operation}");
                let mut fork = host(&finishing, world_id(2)).await;
                turns(&mut fork).await;
                assert_eq!(receipts(&finishing, world_id(2)).await.len(), 2, "{trouble:?} at {operation}");
                replays(&finishing, &mut fork).await;
            });
        }
    }
}

#[test]
fn the_policy_is_in_the_lineage_of_the_control_surface() {
    Rig::run(|rig| async move {
        let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
        rig.create(world_id(1)).await.unwrap();
        let forked = ops.world_fork(world_id(1), world_id(2), ForkAt::Newest, EffectPolicy::Recorded, 5).await;
        assert_eq!(forked.unwrap().created, mundi_store::protocol::WorldCreated::Now);
        let recorded = |record: &Record| matches!(&record.body, Body::ForkGenesis(genesis) if genesis.policy == EffectPolicy::Recorded);
        assert!(records(&rig, world_id(2)).await.iter().any(recorded));
    });
}
