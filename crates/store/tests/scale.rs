//! Scale: many worlds cost what they do, not what they are.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use futures_util::future::join_all;
use mundi_engine::{Engine, Memory, Transaction};
use mundi_model::{InboxSeq, WorldId};
use mundi_store::{
    Fence,
    keyspace::{Shard, ready},
    protocol::{CommitTurn, Consumed, Drained, InHands, ReleaseLease, SettleWorld},
    testing::{Counts, Fixture, Probe, event, note_body, world_id},
};
use parking_lot::Mutex;
use pollster::block_on;
use std::collections::BTreeMap;

type Store = Fixture<Probe<Memory>>;

/// What each action on one world asks of the engine.
async fn one_of_each(store: &Store, number: u64) -> Vec<(&'static str, Counts)> {
    let world = world_id(number);
    let mut costs = Vec::new();
    let mut count = |name| {
        costs.push((name, store.engine.counts()));
        store.engine.revive();
    };
    store.engine.revive();
    store.create(world, None).await.unwrap();
    count("create");
    let fence = store.acquire(world, 1).await.unwrap();
    count("acquire");
    store.send(world, vec![event("x")]).await.unwrap();
    count("enqueue");
    assert!(matches!(store.drain(fence, 10).await.unwrap(), Drained::Moved { items: 1, .. }));
    count("drain");
    store.run(&SettleWorld { fence }).await.unwrap();
    count("settle");
    store.run(&ReleaseLease { fence }).await.unwrap();
    count("release");
    costs
}

/// 10,000 worlds, most of them asleep: an action on one costs the same with one world as with all of them.
#[test]
fn ten_thousand_sparse_worlds_cost_nothing_but_their_keys() {
    block_on(async {
        let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
        let alone = one_of_each(&store, 0).await;
        for number in 1..10_000 {
            store.create(world_id(number), None).await.unwrap();
            if number % 100 == 0 {
                let fence = store.acquire(world_id(number), 1).await.unwrap();
                store.send(fence.world, vec![event("x")]).await.unwrap();
                store.drain(fence, 1).await.unwrap();
                store.run(&ReleaseLease { fence }).await.unwrap();
            }
        }
        let crowded = one_of_each(&store, 10_000).await;
        for ((name, before), (_, after)) in alone.iter().zip(&crowded) {
            println!("{name}: {after:?}");
            assert_eq!(before, after, "{name} costs more among many");
            assert!(after.awaited() <= 12 && after.items <= 2 && after.writes <= 12, "{name}: {after:?}");
        }
    });
}

/// 1,000 active worlds under sustained ingress, one of them fifty times as busy: no world waits much longer than
/// another. Time is counted in operations of the engine, so the result repeats exactly.
#[test]
fn a_thousand_active_worlds_starve_none() {
    const WORLDS: u64 = 1_000;
    const ROUNDS: usize = 4;
    const WORKERS: u64 = 4;
    block_on(async {
        let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
        let mut fences = BTreeMap::new();
        for number in 0..WORLDS {
            let fence = store.live(number).await.unwrap();
            fences.insert(fence.world, fence);
        }
        let times = Times::default();
        store.engine.revive();
        let writers = join_all((0..8).map(|writer| write(&store, &times, writer, WORLDS, ROUNDS)));
        let workers = join_all((0..WORKERS).map(|worker| work(&store, &times, &fences, worker, WORKERS)));
        let ((), ()) = futures_util::future::join(
            async {
                writers.await;
                times.0.lock().written = true;
            },
            async { drop(workers.await) },
        )
        .await;
        let delays = times.delays();
        assert_eq!(delays.len() as u64, WORLDS);
        let mean = delays.values().sum::<f64>() / delays.len() as f64;
        let worst = delays.values().copied().fold(0.0, f64::max);
        println!("mean delay {mean:.0} operations, worst world {:.2} times that", worst / mean);
        assert!(worst <= 3.0 * mean, "one world waits {:.1} times as long as the mean", worst / mean);
    });
}

/// Who sent what when, and when it was journaled.
#[derive(Default)]
struct Times(Mutex<Ledger>);

#[derive(Default)]
struct Ledger {
    sent: BTreeMap<(WorldId, InboxSeq), u64>,
    taken: BTreeMap<(WorldId, InboxSeq), u64>,
    written: bool,
}

impl Times {
    /// The mean delay of each world.
    fn delays(&self) -> BTreeMap<WorldId, f64> {
        let ledger = self.0.lock();
        assert_eq!(ledger.sent.len(), ledger.taken.len(), "everything was taken");
        let mut sums: BTreeMap<WorldId, (f64, f64)> = BTreeMap::new();
        for (place, sent) in &ledger.sent {
            let delay = ledger.taken[place].saturating_sub(*sent);
            let sum = sums.entry(place.0).or_default();
            *sum = (sum.0 + delay as f64, sum.1 + 1.0);
        }
        sums.into_iter().map(|(world, (sum, count))| (world, sum / count)).collect()
    }
}

async fn write(store: &Store, times: &Times, writer: u64, worlds: u64, rounds: usize) {
    for _ in 0..rounds {
        for number in (writer..worlds).step_by(8) {
            let items = if number == 0 { 50 } else { 1 };
            let world = world_id(number);
            let placed = store.send(world, vec![event("x"); items]).await.unwrap();
            let now = store.engine.operations();
            times.0.lock().sent.extend(placed.iter().map(|place| ((world, place.seq), now)));
        }
    }
}

/// Takes the worlds of its shards in turn, a few items each, as long as there are hints.
async fn work(store: &Store, times: &Times, fences: &BTreeMap<WorldId, Fence>, worker: u64, workers: u64) {
    let shards: Vec<_> = Shard::all().filter(|shard| u64::from(shard.get()) % workers == worker).collect();
    loop {
        let written = times.0.lock().written;
        let mut idle = true;
        for shard in &shards {
            for world in hinted(store, *shard).await {
                idle = false;
                turn(store, times, fences[&world]).await;
                store.run(&SettleWorld { fence: fences[&world] }).await.unwrap();
            }
        }
        if idle && written {
            return;
        }
    }
}

async fn hinted(store: &Store, shard: Shard) -> Vec<WorldId> {
    let prefix = ready::prefix(store.universe, shard);
    let read = mundi_engine::RangeRead::prefix(prefix.as_bytes(), 1_000).snapshot();
    let page = store.engine.begin().await.unwrap().range(read).await.unwrap();
    page.items.iter().map(|(key, _)| ready::parse(store.universe, shard, key).unwrap().1).collect()
}

async fn turn(store: &Store, times: &Times, fence: Fence) {
    let input = store.read_turn(fence).await.unwrap();
    let items = &input.items[..input.items.len().min(8)];
    if items.is_empty() {
        return;
    }
    let bodies = (0..).map(note_body).take(items.len());
    let commit = CommitTurn {
        fence,
        cursor: input.cursor,
        consumed: Consumed::of(items, None),
        records: mundi_store::journal::Batch::from_bodies(input.head, bodies).unwrap(),
        effects: vec![],
        timers: vec![],
        receipts: Vec::new(),
        in_hands: InHands::default(),
        ready: false,
        now_ns: 1,
    };
    store.run(&commit).await.unwrap();
    let now = store.engine.operations();
    times.0.lock().taken.extend(items.iter().map(|item| ((fence.world, item.seq), now)));
}
