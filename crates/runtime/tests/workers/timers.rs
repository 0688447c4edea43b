//! Pending timers cost keys and nothing else.
//!
//! `MUNDI_TIMERS=1000000 cargo nextest run --release -p mundi-runtime pending_timers` is the heavy form.

use mundi_engine::Memory;
use mundi_runtime::timers::{TimerWorker, TimerWorkerConfig};
use mundi_store::{
    Clock,
    testing::{Fixture, Probe, set_timers},
};
use pollster::block_on;
use std::sync::Arc;

const DAY_NS: u64 = 86_400_000_000_000;

/// The cost of one look of a timer worker over this many timers that are not due: operations, and items it was handed.
/// A worker holds of a timer only the item that a range gives it, so this is also its memory.
fn look(pending: u64) -> (u64, u64) {
    block_on(async {
        let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
        let clock = Arc::new(store.clock.clone());
        let now_ns = clock.now_ns();
        for first in (0..pending).step_by(1_000) {
            // A thousand timers each, as many as a world may have.
            let fence = store.live(1_000 + first).await.unwrap();
            let times: Vec<u64> = (first..pending.min(first + 1_000)).map(|n| now_ns + DAY_NS + n).collect();
            set_timers(&store, fence, &times).await.unwrap();
        }
        let due = store.live(7).await.unwrap();
        set_timers(&store, due, &[1]).await.unwrap();
        let worker = TimerWorker::new(store.engine.clone(), clock, store.universe, TimerWorkerConfig::default());
        store.engine.revive();
        assert_eq!(worker.fire().await.unwrap().fired, 1);
        let counts = store.engine.counts();
        (counts.awaited(), counts.items)
    })
}

#[test]
fn a_timer_worker_holds_nothing_of_pending_timers() {
    let pending = std::env::var("MUNDI_TIMERS").ok().and_then(|count| count.parse().ok()).unwrap_or(20_000);
    let ((alone, _), (among, items)) = (look(0), look(pending));
    assert_eq!(alone, among, "a look costs the same, whatever waits");
    assert!(items <= 2 + 2 * 16, "{items}: the first of each shard says when it is due");
}
