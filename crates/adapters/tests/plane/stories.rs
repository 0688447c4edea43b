//! Five stories, told with whole nodes: the same each time.

use crate::rig::{
    Outside, ask, bodies, check, count, id, ops, start, start_around, start_measured, start_with, tell, with_worlds,
};
use mundi_kernel::{
    snapshot::KernelSnapshot,
    verify::{Counted, Verified},
};
use mundi_model::{
    Hash, Height, WorldId,
    record::{Body, EffectPolicy, InboxItem, Ingress, Input},
};
use mundi_runtime::{
    Services,
    calls::Calls,
    lifecycle::ForkAt,
    metrics::{Metric, Metrics},
    testing::{Rig, TestPlane},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{Clock, Entropy, testing::world_id};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);
/// Inputs of the story of a failover.
const EVENTS: u64 = 6;

/// Everything about a world that does not say when, or under which stamp, something happened: those differ with a failover.
#[derive(Debug, PartialEq, Eq)]
struct Whole {
    head: Height,
    /// Over everything that every step produced: cells written, intents with their heights, timers, replies.
    digest: Hash,
    /// Where each turn ended, and with which digest.
    turns: Vec<(Height, Hash)>,
    /// The root of the Merkle tree of all cells.
    cells: Option<Hash>,
    snapshots: Vec<Height>,
    counted: Counted,
}

impl Whole {
    /// Proven on the way: the baseline with the tail gives the same snapshot as genesis with everything, byte for byte.
    fn of(rig: &Rig, world: WorldId) -> Self {
        let ops = ops(rig);
        let proof = rig.executor.block_on(async move { ops.verify_world(world).await.unwrap() });
        let Verified { head, digest, state, counted, .. } = proof.from_genesis;
        assert!(proof.baseline > Height::GENESIS && proof.baseline < head, "a baseline and a tail");
        let state = KernelSnapshot::from_bytes(&state.bytes).unwrap();
        assert!(state.open_intents().is_empty() && state.timers().is_empty());
        let (mut turns, mut snapshots) = (Vec::new(), Vec::new());
        for (height, body) in (0..).map(Height::new).zip(bodies(rig, world)) {
            match body {
                Body::OutcomeDigest(digest) => turns.push((height, digest)),
                Body::Snapshot(note) => snapshots.push(note.height),
                _ => {}
            }
        }
        Self { head, digest, turns, cells: state.cells(), snapshots, counted }
    }
}

/// Randomness that is the same in every run of the story.
struct SameEntropy;

impl Entropy for SameEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// Six inputs, a minute apart, each of which is one turn, with effects and timers between them and a snapshot now and then. With
/// `crash`, the node crashes so many steps after that input was sent, and another one takes over. Says what became of the world, and
/// how far its journal and its baseline were when the node crashed.
fn story(crash: Option<(u64, u64)>) -> (Whole, Option<(Height, Height)>) {
    let (rig, world, outside) = (with_worlds(7, 1), world_id(1), Outside::default());
    let start = |n| {
        let worlds = |plane: TestPlane| {
            let mut config = WorkerConfig::new(rig.universe, id(n));
            config.snapshots.records = 8;
            let plane = Services { entropy: Arc::new(SameEntropy), ..plane };
            WorldWorker::start(plane, config, Calls::default(), Arc::default())
        };
        start_around(&rig, n, &outside, (&Arc::default(), &Default::default()), worlds)
    };
    let (mut node, mut died_at) = (start(1), None);
    let (began_ns, minute_ns) = (rig.executor.now_ns(), 60_000_000_000);
    for n in 0..EVENTS {
        let due_ns = began_ns + n * minute_ns + 40_000_000_000; // when whoever takes over has done so
        let more = [format!("emit e{n}"), format!("timer t{n} {due_ns}"), format!("fill large{n} 700")];
        tell(&rig, world, &format!("add n\nput last {n}\n{}", more[usize::try_from(n % 3).unwrap()]));
        if let Some((_, steps)) = crash.filter(|(at, _)| *at == n) {
            (0..steps).for_each(|_| assert!(rig.executor.step()));
            node.crash();
            let ops = ops(&rig);
            let described = rig.executor.block_on(async move { ops.describe_world(world).await.unwrap() });
            died_at = Some((described.head.unwrap().height, described.baseline.unwrap().height));
            node = start(2);
        }
        let next_ns = began_ns + (n + 1) * minute_ns;
        rig.executor.run_for(Duration::from_nanos(next_ns - rig.executor.now_ns()));
    }
    check(&rig, world);
    assert_eq!((count(&rig, world, "n"), ask(&rig, world, "last")), (EVENTS, (EVENTS - 1).to_string()));
    drop(node);
    (Whole::of(&rig, world), died_at)
}

#[test]
fn lease_failover_continues_from_baseline_and_tail_with_the_same_bytes() {
    let (undisturbed, _) = story(None);
    assert!(undisturbed.snapshots.len() >= 2, "{undisturbed:?}");
    let (mut above_genesis, mut amid) = (0, BTreeSet::new());
    for at in 0..EVENTS {
        for steps in [10 * at, 40 + 13 * at, 110 + 31 * at] {
            let (whole, died_at) = story(Some((at, steps)));
            assert_eq!(whole, undisturbed, "the node died {steps} steps after input {at}");
            let (head, baseline) = died_at.unwrap();
            above_genesis += u32::from(baseline > Height::GENESIS && head > baseline);
            amid.insert(head);
        }
    }
    assert!(above_genesis >= 6, "{above_genesis} restores began at a later baseline, with a tail");
    assert!(amid.len() as u64 > EVENTS, "nodes died at the heights {amid:?}");
}

#[test]
fn duplicate_dispatch_attempts_yield_one_terminal_receipt_per_intent() {
    let mut repeated = 0;
    for seed in 0..10 {
        let rig = with_worlds(seed, 1);
        let outside = Outside::default();
        let nodes: Vec<_> = (1..=3).map(|n| start_with(&rig, n, &outside)).collect();
        rig.executor.run_for(SECOND); // past their first looks, after which they pause
        let labels: Vec<_> = (0..50).map(|n| format!("emit e{n}")).collect();
        tell(&rig, world_id(1), &labels.join("\n"));
        for (node, is_first) in nodes[..2].iter().zip([true, false]) {
            let before = outside.calls().len();
            while outside.calls().len() < before + 10 {
                if !rig.executor.poll_one() {
                    assert!(!is_first, "the first may have had the world, which nobody gets without time");
                    break;
                }
            }
            node.crash(); // with answers on their way
        }
        rig.executor.run_for(SECOND * 60);
        check(&rig, world_id(1));
        let calls = outside.calls();
        assert_eq!(calls.len(), 50);
        repeated += calls.values().filter(|count| **count > 1).count();
    }
    assert!(repeated > 0, "some attempt died with its worker and was repeated");
}

#[test]
fn a_receipt_reaches_a_world_of_the_same_process_without_a_look_into_the_ready_queue() {
    let rig = with_worlds(4, 1);
    let metrics = Arc::new(Metrics::default());
    let _node = start_measured(&rig, 1, &Outside::default(), &metrics, &Default::default());
    tell(&rig, world_id(1), "emit first");
    rig.executor.run_for(SECOND / 10);
    let before = metrics.get(Metric::ReadyScans);
    for n in 0..10 {
        tell(&rig, world_id(1), &format!("emit e{n}"));
        rig.executor.run_for(SECOND / 10); // before it settles: its hint stands
    }
    assert_eq!(metrics.get(Metric::ReadyScans) - before, 10, "one for what came from outside, none for its receipt");
    check(&rig, world_id(1));
}

#[test]
fn a_timer_that_was_set_before_a_crash_fires_after_it_and_never_early() {
    let rig = with_worlds(3, 1);
    let first = start(&rig, 1);
    let due_ns = rig.executor.now_ns() + 90_000_000_000;
    tell(&rig, world_id(1), &format!("timer t {due_ns}"));
    rig.executor.run_for(SECOND);
    first.crash();
    let second = start(&rig, 2);
    rig.executor.run_for(SECOND * 88);
    assert_eq!(ask(&rig, world_id(1), "timer/t"), "");
    second.crash();
    let _third = start(&rig, 3);
    rig.executor.run_for(SECOND * 60);
    assert_eq!(ask(&rig, world_id(1), "timer/t"), "fired");
    check(&rig, world_id(1));
    let fired = bodies(&rig, world_id(1)).into_iter().find_map(|body| match body {
        Body::Ingress(Ingress { stamps, item, .. }) if matches!(item.input, Input::TimerFired { .. }) => Some(stamps),
        _ => None,
    });
    let fired_ns = fired.unwrap().now_ns;
    assert!((due_ns..due_ns + 30_000_000_000).contains(&fired_ns), "due {due_ns}, fired {fired_ns}");
}

#[test]
fn a_message_whose_sender_is_killed_again_and_again_arrives_once() {
    for seed in 0..8 {
        let rig = with_worlds(seed, 2);
        tell(&rig, world_id(1), &format!("send {} m hello", world_id(2)));
        for n in 1..=3 {
            let node = start(&rig, n);
            for _ in 0..60 + 41 * seed {
                rig.executor.poll_one();
            }
            node.crash();
            rig.executor.run_for(SECOND * 25);
        }
        let _last = start(&rig, 9);
        rig.executor.run_for(SECOND * 60);
        check(&rig, world_id(1));
        let messages = crate::rig::bodies(&rig, world_id(2)).into_iter().filter(|body| {
            matches!(body, mundi_model::record::Body::Ingress(ingress)
                if matches!(ingress.item.input, mundi_model::record::Input::Message { .. }))
        });
        assert_eq!(messages.count(), 1, "seed {seed}");
    }
}

/// The parent crashes with its effect published and unanswered, and is forked right there.
#[test]
fn a_fork_boots_at_the_snapshot_and_its_parents_effects_stay_its_parents() {
    let (rig, parent, child, outside) = (with_worlds(5, 1), world_id(1), world_id(2), Outside::default());
    tell(&rig, parent, "put a 1\nadd n\nemit e");
    let metrics = Arc::new(Metrics::default());
    let first = start_measured(&rig, 1, &outside, &metrics, &Default::default());
    while metrics.get(Metric::Turns) == 0 {
        assert!(rig.executor.step());
    }
    first.crash();
    assert!(outside.calls().is_empty(), "nobody has carried the effect out yet");
    let asking = ops(&rig);
    let forked = rig.executor.block_on(async move {
        let head = asking.describe_world(parent).await.unwrap().head.unwrap().height;
        asking.world_fork(parent, child, ForkAt::Height(head), EffectPolicy::Suppress, 5).await.unwrap()
    });
    let below = bodies(&rig, parent);
    assert_eq!(forked.forked_at.get(), below.len() as u64, "at the head of a parent that has taken its turn");

    let _second = start_with(&rig, 2, &outside);
    tell(&rig, child, "add n");
    rig.executor.run_for(SECOND * 60);
    check(&rig, parent);
    assert_eq!(ask(&rig, parent, "receipt/e"), "got");
    assert_eq!(
        (ask(&rig, child, "a"), count(&rig, child, "n")),
        ("1".to_owned(), 2),
        "what its parent had, and its own"
    );
    assert_eq!(count(&rig, parent, "n"), 1, "the parent has nothing of its child");
    assert_eq!(ask(&rig, child, "receipt/e"), "got", "the effect is its parent's, and the child hears so");
    assert_eq!(outside.calls().len(), 1, "and was asked for by one world");
    let own = bodies(&rig, child).split_off(below.len());
    assert!(matches!(own[0], Body::ForkGenesis(_)));
    let adapter = |body: &Body| match body {
        Body::Ingress(Ingress { item: InboxItem { input: Input::Receipt(receipt), .. }, .. }) => {
            Some(receipt.adapter.clone())
        }
        _ => None,
    };
    assert_eq!(own.iter().filter_map(adapter).collect::<Vec<_>>(), ["fork"], "{own:?}");
    assert!(!own.iter().any(|body| matches!(body, Body::Intent(_))), "{own:?}");
}
