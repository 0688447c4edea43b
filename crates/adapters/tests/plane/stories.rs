//! The five deterministic integration tests of seed 000, with whole nodes.

use crate::rig::{Outside, ask, check, count, ops, start, start_measured, start_with, tell, with_worlds};
use mundi_model::record::EffectPolicy;
use mundi_runtime::{
    lifecycle::ForkAt,
    metrics::{Metric, Metrics},
};
use mundi_store::{Clock, testing::world_id};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn lease_failover_continues_from_baseline_and_tail_with_the_same_bytes() {
    let whole = |crash_at: Option<u64>| {
        let rig = with_worlds(7, 1);
        let first = start(&rig, 1);
        for n in 0..10 {
            if crash_at == Some(n) {
                first.crash();
                let _second = start(&rig, 2);
            }
            tell(&rig, world_id(1), &format!("add n\nput last {n}"));
            rig.executor.run_for(SECOND);
        }
        rig.executor.run_for(SECOND * 60);
        check(&rig, world_id(1));
        (count(&rig, world_id(1), "n"), ask(&rig, world_id(1), "last"))
    };
    for crash_at in 0..10 {
        assert_eq!(whole(Some(crash_at)), (10, "9".to_owned()));
    }
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

#[test]
fn a_fork_boots_at_the_snapshot_and_its_parents_effects_stay_its_parents() {
    let rig = with_worlds(5, 1);
    tell(&rig, world_id(1), "put a 1\nemit e");
    let first = start(&rig, 1);
    for _ in 0..200 {
        rig.executor.poll_one();
    }
    first.crash();
    let ops = ops(&rig);
    let forked = rig.executor.block_on(async move {
        let head = ops.describe_world(world_id(1)).await.unwrap().head.unwrap().height;
        ops.world_fork(world_id(1), world_id(2), ForkAt::Height(head), EffectPolicy::Suppress, 5).await.unwrap()
    });
    let outside = Outside::default();
    let _second = start_with(&rig, 2, &outside);
    rig.executor.run_for(SECOND * 60);
    check(&rig, world_id(1));
    assert!(outside.calls().len() <= 1, "the branch repeats nothing");
    assert_eq!(ask(&rig, world_id(2), "receipt/e"), "");
    assert_eq!(ask(&rig, world_id(2), "a").is_empty(), forked.forked_at.get() <= 1);
}
