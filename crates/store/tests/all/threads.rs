//! The inbox under real threads: many writers, one worker, one disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Embedded, Engine, Memory};
use mundi_model::{Code, Coded, Height, record::Body};
use mundi_store::{
    keyspace::{inbox_depth, world_meta::InboxBounds},
    protocol::Enqueued,
    testing::{Drained, Fixture, Probe, event, world_id},
};
use pollster::block_on;
use std::{sync::Mutex, thread};

const WRITERS: usize = 8;
const BATCHES: usize = 40;

/// While writers race, the worker must never find an item behind the cursor that it moved.
fn nothing_is_lost_between_threads(engine: impl Engine) {
    let store = block_on(Fixture::new(engine, 1)).unwrap();
    let fence = block_on(store.live(1)).unwrap();
    let acknowledged = Mutex::new(Vec::<Enqueued>::new());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, acknowledged) = (&store, &acknowledged);
            scope.spawn(move || {
                for batch in 0..BATCHES {
                    let items = (0..3).map(|n| event(&format!("{writer}:{batch}:{n}"))).collect();
                    let placed = block_on(store.send(fence.world, items)).unwrap();
                    acknowledged.lock().unwrap().extend(placed);
                }
            });
        }
        let mut taken = 0;
        while taken < WRITERS * BATCHES * 3 {
            if let Drained::Moved { items, .. } = block_on(store.drain(fence, 16)).unwrap() {
                taken += items;
            }
        }
    });
    let mut expected: Vec<_> = acknowledged.into_inner().unwrap().iter().map(|place| place.seq).collect();
    expected.sort_unstable();
    let history = block_on(store.history(fence.world, Height::GENESIS)).unwrap();
    let journaled: Vec<_> = history
        .iter()
        .filter_map(|stored| match stored.decode().unwrap().body {
            Body::Ingress(ingress) => Some(ingress.seq),
            _ => None,
        })
        .collect();
    assert_eq!(journaled, expected, "each acknowledged item once, in the order of sequences");
}

#[test]
fn in_memory_nothing_is_lost_between_threads() {
    nothing_is_lost_between_threads(Memory::new());
}

#[test]
fn on_disk_nothing_is_lost_between_threads() {
    let folder = tempfile::tempdir().unwrap();
    nothing_is_lost_between_threads(Embedded::open(folder.path()).unwrap());
}

/// A bound is checked without a conflict, so writers may overshoot it, by what they have in flight and no more.
#[test]
fn writers_overshoot_a_bound_by_at_most_one_batch_each() {
    const BOUND: u64 = 20;
    block_on(async {
        let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
        store.create(world_id(1), Some(InboxBounds { items_max: BOUND, bytes_max: u64::MAX })).await.unwrap();
        let write = |_| async {
            for _ in 0..10 {
                match store.send(world_id(1), vec![event("x"); 3]).await {
                    Ok(_) => {}
                    Err(error) => return assert_eq!(error.code(), Code::InboxFull),
                }
            }
            panic!("the bound never held");
        };
        futures_util::future::join_all((0..WRITERS).map(write)).await;
        let depth =
            inbox_depth::read(&mut store.engine.begin().await.unwrap(), store.universe, world_id(1)).await.unwrap();
        println!("{} items wait in an inbox bounded at {BOUND}", depth.items);
        assert!(depth.items > BOUND - 3 && depth.items <= BOUND + 3 * WRITERS as u64, "{depth:?}");
    });
}
