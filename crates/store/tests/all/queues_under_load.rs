//! The queues with everyone at work at once: nothing is lost, nothing is answered or fired twice.
//!
//! The engine lets every other task go first at each of its operations, so that claims, failures, reapers and turns
//! interleave wherever they can. What these tests are after are the low-water marks: a mark that is raised past
//! something that another task has just put below it would lose that for good.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use futures_util::future::join_all;
use mundi_engine::Memory;
use mundi_model::{
    Code, IntentHash, WorkerId,
    record::{Input, Payload, ReceiptStatus},
};
use mundi_store::{
    Clock, Fence,
    keyspace::{
        QueueShard, Shard,
        effect_pending::{EffectTerms, RateTerms},
    },
    protocol::{
        Answer, ClaimEffects, FailEffect, Failure, FireTimers, KindCap, NextTimers, ReapEffects, Repeat, WokenBy,
        complete_effect,
    },
    testing::{Fixture, Probe, Rng, ask, set_timers},
};
use pollster::block_on;
use std::time::Duration;

type Store = Fixture<Probe<Memory>>;

const TTL_NS: u64 = 1_000_000_000;

const TERMS: EffectTerms = EffectTerms {
    timeout_ms: 1_000,
    attempts_max: 1_000,
    backoff_ms: 700,
    backoff_ms_max: 3_000,
    rate: None,
    children_active_max: None,
};

/// One round of a worker that succeeds, fails and crashes at random.
async fn work(store: &Store, worker: u64, random: &mut Rng) {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&random.number().to_be_bytes());
    let claim = ClaimEffects {
        universe: store.universe,
        kind: "a".into(),
        worker: WorkerId::new(worker).unwrap(),
        token,
        items_max: 7,
        ttl_ns: TTL_NS,
        now_ns: store.clock.now_ns(),
        first: Shard::of(&token),
        cap: KindCap::default(),
    };
    for claimed in store.run(&claim).await.unwrap().output.effects {
        match random.below(4) {
            0 => {
                let failure = Failure { code: Code::EffectFailed, reason: String::new(), repeat: Repeat::Backoff };
                let (claim, adapter, now_ns) = (claimed.proof, String::new(), store.clock.now_ns());
                store
                    .run(&FailEffect {
                        claim,
                        failure,
                        adapter,
                        signature: None,
                        params: None,
                        now_ns,
                        dedupe_window_ns: 1,
                    })
                    .await
                    .unwrap();
            }
            1 => {} // it dies, and the reaper finds what it held
            _ => {
                let payload = Payload::Inline(vec![0xf6]);
                let answer = Answer::new(ReceiptStatus::Ok, payload, "");
                // A claim may have been reaped meanwhile; then someone else answers.
                let _ =
                    complete_effect(&store.engine, &store.clock, &store.blobs, &claimed, answer, WokenBy::ReadyQueue)
                        .await;
            }
        }
    }
    store.clock.advance(Duration::from_millis(random.below(500)));
}

async fn reap(store: &Store) {
    for queue_shard in QueueShard::all("a", Shard::new(0).unwrap()) {
        let reap = ReapEffects {
            universe: store.universe,
            queue_shard,
            touched: false,
            items_max: 5,
            now_ns: store.clock.now_ns(),
            gone: None,
        };
        store.run(&reap).await.unwrap();
    }
}

#[test]
fn every_effect_is_answered_once_whoever_fails_or_dies() {
    for seed in 0..4 {
        block_on(async {
            let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
            let fence = store.live(1).await.unwrap();
            let mut asked = Vec::new();
            let mut randoms: Vec<_> = (0..4).map(|worker| Rng::new(seed * 10 + worker)).collect();
            for round in 0..400 {
                let workers = join_all((1u64..).zip(&mut randoms).map(|(worker, random)| work(&store, worker, random)));
                let asking = async {
                    if round >= 15 {
                        return Vec::new();
                    }
                    let rate = (round % 3 == 0).then_some(RateTerms { per_second: 5, burst: 2 });
                    ask(&store, fence, &["a"; 12], EffectTerms { rate, ..TERMS }).await.unwrap()
                };
                let (_, (), new) = futures_util::join!(workers, reap(&store), asking);
                asked.extend(new);
                if round >= 15 && delivered(&store, fence).await.len() == asked.len() {
                    break;
                }
            }
            let mut answered = delivered(&store, fence).await;
            answered.sort();
            asked.sort();
            assert_eq!(answered, asked, "seed {seed}");
        });
    }
}

/// The intents whose receipt or firing is in the inbox.
async fn delivered(store: &Store, fence: Fence) -> Vec<IntentHash> {
    let read = mundi_store::protocol::ReadTurn { fence, cursor_seen: None, items_max: 4_000, bytes_max: 2_000_000 };
    let items = store.run(&read).await.unwrap().output.items;
    let intent = |input: &Input| match input {
        Input::Receipt(receipt) => Some(receipt.intent),
        Input::TimerFired { timer, .. } => Some(*timer),
        _ => None,
    };
    items.iter().filter_map(|item| intent(&item.item.input)).collect()
}

#[test]
fn every_timer_fires_once_while_others_are_set() {
    for seed in 0..4 {
        block_on(async {
            let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
            let worlds = [store.live(1).await.unwrap(), store.live(2).await.unwrap()];
            let mut random = Rng::new(seed);
            let mut set: [Vec<IntentHash>; 2] = Default::default();
            for _ in 0..25 {
                // Many are due already when they are set: those are what a mark could pass by.
                let now_ns = store.clock.now_ns();
                let mut times =
                    || [(); 6].map(|()| (now_ns + random.below(6_000_000_000)).saturating_sub(4_000_000_000));
                let (one, two) = (times(), times());
                let (a, b, (), ()) = futures_util::join!(
                    set_timers(&store, worlds[0], &one),
                    set_timers(&store, worlds[1], &two),
                    fire(&store),
                    fire(&store)
                );
                set[0].extend(a.unwrap());
                set[1].extend(b.unwrap());
                store.clock.advance(Duration::from_millis(random.below(2_000)));
            }
            store.clock.advance(Duration::from_secs(10));
            fire(&store).await;
            for (world, mut set) in worlds.into_iter().zip(set) {
                let mut fired = delivered(&store, world).await;
                fired.sort();
                set.sort();
                assert_eq!(fired, set, "seed {seed}");
            }
            assert_eq!(store.run(&NextTimers { universe: store.universe }).await.unwrap().output, []);
        });
    }
}

async fn fire(store: &Store) {
    for shard in Shard::all() {
        let (universe, now_ns) = (store.universe, store.clock.now_ns());
        store.run(&FireTimers { universe, shard, items_max: 50, now_ns, dedupe_window_ns: 1 }).await.unwrap();
    }
}
