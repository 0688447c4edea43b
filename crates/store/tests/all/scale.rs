//! Scale: many worlds cost what they do, not what they are. That none of many active worlds starves is a matter of the worker:
//! `crates/runtime/tests/all/scale.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::Memory;
use mundi_store::{
    protocol::{ReleaseLease, SettleWorld},
    testing::{Counts, Drained, Fixture, Probe, event, world_id},
};
use pollster::block_on;

type Store = Fixture<Probe<Memory>>;

/// The engine operations of each action on one world.
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
    store.run(&ReleaseLease { fence, active_at_ns: None }).await.unwrap();
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
                store.run(&ReleaseLease { fence, active_at_ns: None }).await.unwrap();
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
