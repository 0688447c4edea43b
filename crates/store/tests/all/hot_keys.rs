//! No key is written by every commit: what the worlds of a universe write lies under keys of their own, or spreads over shards.
//!
//! An engine that spreads keys over machines gains nothing from more of them if one key is in every commit.

#![expect(clippy::unwrap_used, reason = "a test")]

use bytes::Bytes;
use mundi_engine::{Engine, Memory, RangeRead, Transaction};
use mundi_model::limits;
use mundi_store::{
    Clock,
    keyspace::effect_pending::EffectTerms,
    testing::{Fixture, ask, event, set_timers},
};
use pollster::block_on;
use std::collections::BTreeMap;

const WORLDS: u64 = 64;

/// Of so many worlds at most this many may share a key: there are sixteen shards, and chance is uneven.
const SHARE_MAX: usize = 16;

/// `universe (16 bytes) | family`: the counters that wake the adapters of a kind and the timer workers, which `docs/operating/foundationdb.md` names.
const WAKES_WORKERS: (usize, u8) = (16, 0x1f);

type Contents = BTreeMap<Bytes, Bytes>;

async fn contents(engine: &Memory) -> Contents {
    let mut tx = engine.begin().await.unwrap();
    let page = tx.range(RangeRead::prefix(b"", limits::RANGE_ITEMS_MAX).snapshot()).await.unwrap();
    assert!(!page.more, "all of it is looked at");
    page.items.into_iter().collect()
}

/// Counts the keys that differ, once for each world.
fn count(before: &Contents, after: &Contents, written: &mut BTreeMap<Bytes, usize>) {
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(value)).map(|(key, _)| key);
    for key in removed.chain(changed) {
        *written.entry(key.clone()).or_default() += 1;
    }
}

#[test]
fn no_key_is_written_for_every_world_but_the_counters_that_wake_workers() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let mut fences = Vec::new();
        for number in 1..=WORLDS {
            fences.push(store.live(number).await.unwrap());
        }
        let mut written = BTreeMap::new();
        for fence in fences {
            let before = contents(&store.engine).await;
            store.send(fence.world, vec![event("a")]).await.unwrap();
            store.drain(fence, 9).await.unwrap();
            ask(&store, fence, &["a"], EffectTerms::default()).await.unwrap();
            set_timers(&store, fence, &[store.clock.now_ns() + 1_000]).await.unwrap();
            count(&before, &contents(&store.engine).await, &mut written);
        }
        let shared: Vec<_> = written.iter().filter(|(_, worlds)| **worlds > SHARE_MAX).collect();
        let (place, family) = WAKES_WORKERS;
        let hot: Vec<_> = shared.iter().filter(|(key, _)| key.get(place) != Some(&family)).collect();
        assert!(hot.is_empty(), "written for many of {WORLDS} worlds: {hot:?}");
        assert_eq!(shared.len(), 2, "one counter for the effect kind, one for timers: {shared:?}");
    });
}
