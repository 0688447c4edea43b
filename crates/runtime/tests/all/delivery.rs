//! Items that a world takes without an inbox entry: one commit, the order of the inbox, and nothing lost or doubled.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, RangeRead, Transaction};
use mundi_model::{
    CallId, Code, Coded, Height, InboxSeq, Kind, UniverseId, WorkerId, limits,
    record::{Body, Input, Payload, Record, ReplyOutcome},
};
use mundi_runtime::{
    Services, Spawn,
    calls::Calls,
    control::Ops,
    metrics::Metrics,
    testing::{Node, Rig, TestPlane, call, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    Clock,
    keyspace::{inbox_entry, reply},
    protocol::NewItem,
    testing::{Trouble, world_id},
};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const WAIT: Duration = Duration::from_secs(5);

struct Held {
    rig: Rig,
    node: Node,
    worker: WorldWorker<TestPlane>,
    /// Beside the worker.
    near: Ops<TestPlane>,
    /// In another process.
    far: Ops<TestPlane>,
}

/// A worker that holds the world 0, which has taken one script.
fn held(seed: u64) -> Held {
    held_on(seed, |rig, node| rig.on(node))
}

fn held_on(seed: u64, plane: impl FnOnce(&Rig, &Node) -> TestPlane) -> Held {
    let rig = Rig::new(seed);
    let creating = rig.clone();
    rig.executor.block_on(async move { creating.create(world_id(0)).await.unwrap() });
    let (node, calls) = (rig.executor.node(), Calls::default());
    let config = WorkerConfig::new(rig.universe, WorkerId::new(1).unwrap());
    let worker = WorldWorker::start(plane(&rig, &node), config, calls.clone(), Arc::new(Metrics::default()));
    let near = Ops::new(rig.plane.clone(), rig.universe, calls).beside(worker.clone());
    let far = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    let sending = rig.clone();
    rig.executor.block_on(async move { sending.send(world_id(0), vec![script_event("add n")]).await.unwrap() });
    rig.executor.run_for(Duration::from_millis(50));
    assert!(worker.holds(world_id(0)));
    Held { rig, node, worker, near, far }
}

impl Held {
    /// The places of the events in the journal, in its order.
    fn journaled(&self) -> Vec<InboxSeq> {
        let rig = self.rig.clone();
        let records = self.rig.executor.block_on(async move { rig.journal(world_id(0)).await.unwrap() });
        let ingress = |bytes: &bytes::Bytes| match mundi_model::cbor::decode::<Record>(bytes).unwrap().body {
            Body::Ingress(ingress) if matches!(ingress.item.input, Input::Event { .. }) => Some(ingress.seq),
            _ => None,
        };
        records.iter().filter_map(ingress).collect()
    }

    fn inbox_entries(&self) -> usize {
        let rig = self.rig.clone();
        self.rig.executor.block_on(async move {
            let mut tx = rig.plane.engine.begin().await.unwrap();
            let span = inbox_entry::after(rig.universe, world_id(0), None);
            let read = RangeRead::new(span.start.as_bytes().to_vec(), span.end.as_bytes().to_vec(), 100);
            tx.range(read).await.unwrap().items.len()
        })
    }
}

impl Held {
    fn stores_reply(&self, call: InboxSeq) -> bool {
        let rig = self.rig.clone();
        let read = async move {
            let mut tx = rig.plane.engine.begin().await.unwrap();
            reply::read(&mut tx, rig.universe, world_id(0), call).await.unwrap().is_some()
        };
        self.rig.executor.block_on(read)
    }
}

fn text(outcome: ReplyOutcome) -> Vec<u8> {
    let ReplyOutcome::Ok(Payload::Inline(bytes)) = outcome else { panic!("{outcome:?}") };
    bytes
}

#[test]
fn a_call_beside_the_worker_is_one_commit_and_its_reply_can_be_had_again() {
    let held = held(1);
    let (entries, near) = (held.inbox_entries(), held.near.clone());
    let commits = held.rig.plane.engine.counts().commits;
    let begun = held
        .rig
        .executor
        .block_on(async move { near.begin_call(world_id(0), call("reply hello").item, None).await.unwrap() });
    let call = begun.call;
    assert_eq!(text(begun.reply.expect("the turn that took it has replied")), b"hello");
    assert_eq!(held.rig.plane.engine.counts().commits - commits, 1);
    assert!(call.seq.is_direct() && call.replied_at.is_some());
    assert_eq!(held.inbox_entries(), entries, "it never stood in the inbox");
    let far = held.far.clone();
    let again = held.rig.executor.block_on(async move { far.reply(world_id(0), call, WAIT).await.unwrap() });
    assert_eq!(text(again), b"hello");
    assert!(!held.stores_reply(call.seq), "the journal has it");
}

#[test]
fn a_name_of_a_call_that_does_not_fit_its_height_is_no_reply() {
    let held = held(3);
    let (near, far) = (held.near.clone(), held.far.clone());
    held.rig.executor.block_on(async move {
        let first = near.begin_call(world_id(0), call("reply one").item, None).await.unwrap().call;
        let second = near.begin_call(world_id(0), call("reply two").item, None).await.unwrap().call;
        let mixed = CallId { replied_at: first.replied_at, ..second };
        let beside = CallId { replied_at: first.replied_at.map(Height::next), ..first };
        for wrong in [mixed, beside, CallId::from(first.seq)] {
            let refused = far.reply(world_id(0), wrong, Duration::from_millis(10)).await.unwrap_err();
            assert_eq!(refused.code(), Code::CallTimeout, "{wrong}");
        }
        let beyond = CallId { replied_at: Some(Height::new(1_000)), ..first };
        assert_eq!(far.reply(world_id(0), beyond, WAIT).await.unwrap_err().code().kind(), Kind::Invalid);
    });
}

#[test]
fn a_call_that_is_rejected_is_answered_and_its_answer_can_be_had_again() {
    let held = held(5);
    let (near, far) = (held.near.clone(), held.far.clone());
    held.rig.executor.block_on(async move {
        let begun = near.begin_call(world_id(0), unheard_of(true).item, None).await.unwrap();
        let Some(ReplyOutcome::Failed(code, ..)) = &begun.reply else { panic!("{begun:?}") };
        assert_eq!(Code::from_name(code), Some(Code::EventInvalid));
        assert_eq!(Some(far.reply(world_id(0), begun.call, WAIT).await.unwrap()), begun.reply);
    });
}

/// A rejected item gives an answer on record that nobody waits for: the heights of the others must not be taken for its own.
#[test]
fn a_call_is_found_at_its_height_beside_what_was_rejected() {
    for seed in 0..40 {
        let held = held(seed);
        let (rig, near, far) = (held.rig.clone(), held.near.clone(), held.far.clone());
        held.rig.executor.block_on(async move {
            rig.enqueue(world_id(0), vec![unheard_of(false), unheard_of(false)]).await.unwrap();
            let begun = near.begin_call(world_id(0), call("reply hello").item, None).await.unwrap();
            let again = far.reply(world_id(0), begun.call, WAIT).await;
            assert_eq!(text(again.unwrap_or_else(|error| panic!("seed {seed}: {error}"))), b"hello");
        });
    }
}

/// An event that the manifest does not know.
fn unheard_of(wants_reply: bool) -> NewItem {
    let mut new = call("add n");
    let Input::Event { schema, .. } = &mut new.item.input else { panic!() };
    "unheard-of".clone_into(schema);
    new.item.origin.wants_reply = wants_reply;
    new
}

#[test]
fn who_only_sends_finds_the_reply_under_its_place() {
    let held = held(4);
    let (near, far) = (held.near.clone(), held.far.clone());
    let seq = held.rig.executor.block_on(async move {
        let sent = near.enqueue_ingress(world_id(0), call("reply hello").item, None).await.unwrap();
        assert_eq!(text(far.reply(world_id(0), sent.seq.into(), WAIT).await.unwrap()), b"hello");
        sent.seq
    });
    assert!(seq.is_direct() && held.stores_reply(seq));
}

#[test]
fn what_a_world_at_rest_allows_is_not_asked_of_the_journal_and_what_it_refuses_is() {
    let held = held(2);
    let Input::Event { schema, value: Payload::Inline(value), .. } = call("add n").item.input else { panic!() };
    let asked = |ops: &Ops<TestPlane>, schema: &str| {
        let (ops, schema, value) = (ops.clone(), schema.to_owned(), value.clone());
        let before = held.rig.plane.engine.counts();
        let outcome = held
            .rig
            .executor
            .block_on(async move { ops.check_events(world_id(0), [(schema.as_str(), value.as_slice())]).await });
        (outcome.map_err(|error| error.code()), held.rig.plane.engine.counts().ranges - before.ranges)
    };
    assert_eq!(asked(&held.near, &schema), (Ok(()), 0));
    assert_eq!(asked(&held.far, &schema), (Ok(()), 1), "the manifest, and not the inbox");
    let refused = Err(Code::EventInvalid);
    assert_eq!(asked(&held.near, "unheard-of"), (refused, 3), "a newer manifest may know it, or an upgrade that waits");
    assert_eq!(asked(&held.far, "unheard-of"), (refused, 3));
}

#[test]
fn events_are_checked_once_by_each_manifest() {
    let held = held(2);
    let checks = |ops: &Ops<TestPlane>| {
        let passes = Arc::new(AtomicUsize::new(0));
        let (ops, counted) = (ops.clone(), passes.clone());
        let mut noted = false;
        let event = std::iter::once(("unheard-of", &b"\xf6"[..])).inspect(move |_| {
            let first = !std::mem::replace(&mut noted, true);
            counted.fetch_add(usize::from(first), Ordering::SeqCst);
        });
        let refused = held.rig.executor.block_on(async move { ops.check_events(world_id(0), event).await });
        assert_eq!(refused.unwrap_err().code(), Code::EventInvalid);
        passes.load(Ordering::SeqCst) - 1 // it was looked for commands of a pool before
    };
    assert_eq!((checks(&held.near), checks(&held.far)), (1, 1));
}

#[test]
fn behind_more_items_than_are_looked_at_the_newest_manifest_decides() {
    let rig = Rig::new(1);
    let executor = rig.executor.clone();
    let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    executor.block_on(async move {
        let (world, other) = (world_id(0), world_id(1));
        let unheard_of =
            async |world| ops.check_events(world, [("unheard-of", &b"\xf6"[..])]).await.map_err(|e| e.code());
        for world in [world, other] {
            rig.create(world).await.unwrap();
        }
        ops.world_upgrade(other, rig.manifest, true).await.unwrap();
        for _ in 0..limits::TURN_ITEMS_MAX / limits::INBOX_BATCH_ITEMS_MAX {
            let events = || (0..limits::INBOX_BATCH_ITEMS_MAX).map(|_| script_event("add n")).collect();
            rig.send(world, events()).await.unwrap();
            rig.send(other, events()).await.unwrap();
        }
        rig.send(world, vec![script_event("add n")]).await.unwrap();
        assert_eq!(unheard_of(world).await, Err(Code::EventInvalid));
        assert_eq!(unheard_of(other).await, Ok(()), "an upgrade waits, and may know it");
    });
}

#[test]
fn both_ways_in_keep_one_order() {
    for seed in 0..80 {
        let held = held(seed);
        if seed % 2 == 0 {
            // Its process believes that the inbox is empty long after someone else was told that it is not.
            held.rig.plane.engine.remember();
        }
        let (near, far) = (held.near.clone(), held.far.clone());
        let acknowledged = held.rig.executor.block_on(async move {
            let mut places = Vec::new();
            for n in 0..12u64 {
                let ops = if (seed + n * n) % 3 == 0 { &far } else { &near };
                places.push(ops.enqueue_ingress(world_id(0), call("add n").item, None).await.unwrap().seq);
            }
            places
        });
        held.rig.executor.run_for(WAIT);
        assert!(acknowledged.is_sorted(), "who is acknowledged first stands first");
        assert_eq!(held.journaled()[1..], acknowledged[..]);
    }
}

#[test]
fn a_paused_world_keeps_what_comes_in_its_inbox() {
    let held = held(3);
    let near = held.near.clone();
    let seq = held.rig.executor.block_on(async move {
        near.world_pause(world_id(0)).await.unwrap();
        near.enqueue_ingress(world_id(0), call("add n").item, None).await.unwrap().seq
    });
    assert!(!seq.is_direct());
    assert_eq!(held.journaled().len(), 1);
    let near = held.near.clone();
    held.rig.executor.block_on(async move { near.world_resume(world_id(0)).await.unwrap() });
    held.rig.executor.run_for(WAIT);
    assert_eq!(held.journaled()[1..], [seq]);
}

#[test]
fn an_archived_world_takes_nothing_although_it_is_still_in_memory() {
    let held = held(4);
    let near = held.near.clone();
    let refused = held.rig.executor.block_on(async move {
        near.world_archive(world_id(0)).await.unwrap();
        near.enqueue_ingress(world_id(0), call("add n").item, None).await.unwrap_err()
    });
    assert_eq!(refused.code(), Code::WorldArchived);
    assert_eq!(held.journaled().len(), 1);
    let near = held.near.clone();
    held.rig.executor.block_on(async move {
        near.world_unarchive(world_id(0)).await.unwrap();
        near.enqueue_ingress(world_id(0), call("add n").item, None).await.unwrap();
    });
    held.rig.executor.run_for(WAIT);
    assert_eq!(held.journaled().len(), 2, "it is taken up again at once");
}

/// Keeps the runners of a worker apart from its other tasks: they come after the first one.
struct RunnersApart {
    others: Node,
    runners: Node,
    spawned: AtomicUsize,
}

impl Spawn for RunnersApart {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let runners = 1..=WorkerConfig::new(UniverseId::from_bytes([1; 16]), WorkerId::new(1).unwrap()).runners;
        let is_runner = runners.contains(&self.spawned.fetch_add(1, Ordering::Relaxed));
        if is_runner { self.runners.spawn(task) } else { self.others.spawn(task) }
    }
}

#[test]
fn who_waits_too_long_for_a_lane_goes_through_the_inbox() {
    let mut runners = None;
    let held = held_on(5, |rig, node| {
        let apart = runners.insert(rig.executor.node()).clone();
        let spawner = RunnersApart { others: node.clone(), runners: apart, spawned: AtomicUsize::new(0) };
        Services { spawner: Arc::new(spawner), ..rig.plane.clone() }
    });
    runners.unwrap().crash();
    for _ in 0..2 {
        let (near, begun_ns) = (held.near.clone(), held.rig.executor.now_ns());
        let enqueued = held
            .rig
            .executor
            .block_on(async move { near.enqueue_ingress(world_id(0), call("add n").item, None).await.unwrap() });
        let waited_ms = (held.rig.executor.now_ns() - begun_ns) / 1_000_000;
        assert!(!enqueued.seq.is_direct() && (100..200).contains(&waited_ms), "after {waited_ms} ms");
        held.rig.executor.run_for(WAIT); // nobody waits, and somebody will again
    }
}

#[test]
fn a_worker_that_dies_leaves_each_item_taken_once_or_not_at_all() {
    for polls in 0..120 {
        let held = held(polls);
        let near = held.near.clone();
        let (told, outcome) = futures_channel::oneshot::channel();
        held.rig.executor.node().spawn(Box::pin(async move {
            drop(told.send(near.enqueue_ingress(world_id(0), call("add n").item, None).await));
        }));
        for _ in 0..polls {
            held.rig.executor.poll_one();
        }
        held.node.crash();
        held.worker.stop();
        held.rig.executor.run_for(WAIT);
        let outcome = held.rig.executor.block_on(outcome).unwrap();
        let second = held.rig.executor.node();
        let config = WorkerConfig::new(held.rig.universe, WorkerId::new(2).unwrap());
        let _other = WorldWorker::start(held.rig.on(&second), config, Calls::default(), Arc::new(Metrics::default()));
        held.rig.executor.run_for(Duration::from_secs(60));
        let journaled = held.journaled().len() - 1;
        match outcome {
            Ok(placed) => assert_eq!(held.journaled()[1..], [placed.seq], "after {polls} polls"),
            Err(error) => {
                assert_eq!(error.code(), Code::CommitUnknown, "after {polls} polls");
                assert!(journaled <= 1);
            }
        }
    }
}

#[test]
fn an_item_whose_commit_lost_its_answer_is_not_sent_again() {
    for operation in 0..24 {
        let held = held(6);
        let near = held.near.clone();
        held.rig.plane.engine.arm(operation, Trouble::LoseAnswer);
        let outcome = held
            .rig
            .executor
            .block_on(async move { near.enqueue_ingress(world_id(0), call("add n").item, None).await });
        held.rig.executor.run_for(WAIT);
        assert_eq!(held.journaled()[1..], [outcome.unwrap().seq], "operation {operation}");
    }
}

#[test]
fn a_call_ends_in_its_time_while_the_engine_does_not_answer() {
    let held = held(4);
    held.rig.plane.engine.stall();
    for ops in [held.near.clone(), held.far.clone()] {
        let clock = held.rig.executor.clone();
        let (waited_ns, refused) = held.rig.executor.block_on(async move {
            let began_ns = clock.now_ns();
            let refused = ops.call(world_id(0), call("reply hello").item, None, WAIT).await.unwrap_err();
            (clock.now_ns() - began_ns, refused)
        });
        assert_eq!(refused.code(), Code::CallTimeout, "{refused}");
        assert!(Duration::from_nanos(waited_ns) < 2 * WAIT, "virtual time: {waited_ns} ns");
    }
}
