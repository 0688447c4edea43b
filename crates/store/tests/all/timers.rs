//! Timers from the turn that sets them to the one firing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{CommitError, Embedded, Engine, Memory, Transaction};
use mundi_model::{
    Code, Coded, IntentHash, limits,
    record::{Body, Input},
};
use mundi_store::{
    Clock, Fence, Protocol,
    journal::Batch,
    keyspace::{Shard, inbox_depth, queue::Queue, timer_dedupe, timer_due, world_meta},
    protocol::{
        CommitTurn, FireTimers, Fired, InProcess, ListDeadLetters, NextTimers, ReplayDeadLetter, delete_world,
        expire_dedupe,
    },
    testing::{Fixture, Probe, set_timers},
};
use pollster::block_on;
use std::time::Duration;

type Store<E = Memory> = Fixture<Probe<E>>;

const SECOND: u64 = 1_000_000_000;
const WINDOW_NS: u64 = 3_600 * SECOND;

async fn store() -> Store {
    Fixture::new(Probe::new(Memory::new()), 1).await.unwrap()
}

/// Fires whatever is due now, in all shards.
async fn fire<E: Engine>(store: &Store<E>) -> Fired {
    let mut all = Fired::default();
    for shard in Shard::all() {
        let (universe, now_ns) = (store.universe, store.clock.now_ns());
        let fire = FireTimers { universe, shard, items_max: 100, now_ns, dedupe_window_ns: WINDOW_NS };
        let fired = store.run(&fire).await.unwrap().output;
        all.fired += fired.fired;
        all.dropped += fired.dropped;
        all.retrying += fired.retrying;
        all.buried += fired.buried;
    }
    all
}

async fn next(store: &Store) -> Option<u64> {
    let next = store.run(&NextTimers { universe: store.universe }).await.unwrap().output;
    next.into_iter().map(|(_, at_ns)| at_ns).min()
}

/// The timers that fired into a world's inbox, in order.
async fn firings<E: Engine>(store: &Store<E>, fence: Fence) -> Vec<IntentHash> {
    let items = store.read_turn(fence).await.unwrap().items;
    let timer = |input: &Input| match input {
        Input::TimerFired { timer, .. } => Some(*timer),
        _ => None,
    };
    items.iter().filter_map(|item| timer(&item.item.input)).collect()
}

async fn cancel(store: &Store, fence: Fence, intent: IntentHash) {
    let input = store.read_turn(fence).await.unwrap();
    let turn = CommitTurn {
        fence,
        cursor: input.cursor,
        consumed: None,
        records: Batch::from_bodies(input.head, [Body::Cancel(intent)]).unwrap(),
        effects: vec![],
        timers: vec![],
        receipts: Vec::new(),
        expects_end: None,
        in_process: InProcess::default(),
        logs: Vec::new(),
        authorities: Vec::new(),
        paused: None,
        ready: false,
        now_ns: store.clock.now_ns(),
    };
    store.run(&turn).await.unwrap();
}

#[test]
fn a_timer_fires_once_and_never_early() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        let at_ns = 10 * SECOND;
        let timers = set_timers(&store, fence, &[at_ns]).await.unwrap();
        assert_eq!(next(&store).await, Some(at_ns));
        store.clock.advance(Duration::from_nanos(at_ns - 1 - store.clock.now_ns()));
        assert_eq!(fire(&store).await, Fired::default(), "a nanosecond before");
        store.clock.advance(Duration::from_nanos(1));
        assert_eq!(fire(&store).await.fired, 1);
        assert_eq!(fire(&store).await, Fired::default());
        assert_eq!(firings(&store, fence).await, timers);
        assert_eq!(next(&store).await, None);
    });
}

#[test]
fn two_timer_workers_fire_each_timer_once() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        set_timers(&store, fence, &[1; 60]).await.unwrap();
        let (a, b) = futures_util::join!(fire(&store), fire(&store));
        assert_eq!(a.fired + b.fired, 60);
        assert_eq!(firings(&store, fence).await.len(), 60);
    });
}

#[test]
fn a_timer_that_is_due_when_it_is_set_fires_although_the_mark_has_passed_it() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        store.clock.advance(Duration::from_secs(1_000));
        set_timers(&store, fence, &[900 * SECOND; 40]).await.unwrap();
        assert_eq!(fire(&store).await.fired, 40);
        set_timers(&store, fence, &[5; 40]).await.unwrap();
        assert_eq!(fire(&store).await.fired, 40);
    });
}

/// The process is another, the world was moved: the timer is in the store.
#[test]
fn timers_survive_restart_and_migration() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let before = Fixture::new(Probe::new(Embedded::open(folder.path()).unwrap()), 1).await.unwrap();
        let fence = before.live(1).await.unwrap();
        let timers = set_timers(&before, fence, &[50 * SECOND]).await.unwrap();
        let Fixture { engine, blobs, clock, universe, manifest } = before;
        drop(engine);

        let engine = Probe::new(Embedded::open(folder.path()).unwrap());
        let after = Fixture { engine, blobs, clock, universe, manifest };
        after.clock.advance(Duration::from_secs(60));
        let moved = after.acquire(fence.world, 2).await.unwrap();
        assert!(moved.epoch > fence.epoch);
        assert_eq!(fire(&after).await.fired, 1);
        assert_eq!(firings(&after, moved).await, timers);
    });
}

#[test]
fn a_cancelled_timer_and_one_of_a_deleted_world_do_not_fire() {
    block_on(async {
        let store = store().await;
        let (fence, gone) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
        let timers = set_timers(&store, fence, &[1, 1]).await.unwrap();
        set_timers(&store, gone, &[1]).await.unwrap();
        cancel(&store, fence, timers[0]).await;
        delete_world(&store.engine, &store.clock, gone).await.unwrap();
        let fired = fire(&store).await;
        assert_eq!((fired.fired, fired.dropped), (1, 1));
        assert_eq!(firings(&store, fence).await, timers[1..]);
        store.clock.advance(Duration::from_secs(2 * 3_600));
        expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap();
        assert_eq!(fire(&store).await, Fired::default());
    });
}

/// A failing timer with no retry budget must not block the timers behind it.
#[test]
fn a_failing_timer_blocks_nobody_and_ends_as_a_dead_letter() {
    block_on(async {
        let store = store().await;
        let (bad, good) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
        set_timers(&store, bad, &[1; 20]).await.unwrap();
        set_timers(&store, good, &[2; 20]).await.unwrap();
        let meta = world_meta::key(store.universe, bad.world);
        let mut tx = store.engine.begin().await.unwrap();
        let healthy = tx.get(meta.as_bytes()).await.unwrap().unwrap();
        tx.put(meta.as_bytes(), vec![0xff]).unwrap();
        tx.commit().await.unwrap();

        let fired = fire(&store).await;
        assert_eq!((fired.fired, fired.retrying, fired.buried), (20, 20, 0));
        assert_eq!(fire(&store).await, Fired::default(), "they wait");
        let mut buried = 0;
        while let Some(at_ns) = next(&store).await {
            store.clock.advance(Duration::from_nanos(at_ns.saturating_sub(store.clock.now_ns())));
            buried += fire(&store).await.buried;
        }
        assert_eq!(buried, 20);

        let (universe, queue) = (store.universe, Queue::Timers);
        let letters = store
            .run(&ListDeadLetters { universe, queue, world: None, after: None, items_max: 100 })
            .await
            .unwrap()
            .output;
        assert_eq!(letters.items.len(), 20);
        let mut tx = store.engine.begin().await.unwrap();
        tx.put(meta.as_bytes(), healthy).unwrap();
        tx.commit().await.unwrap();
        for letter in letters.items {
            let replay = ReplayDeadLetter { universe, queue, seq: letter.seq, now_ns: store.clock.now_ns() };
            store.run(&replay).await.unwrap();
            assert_eq!(store.run(&replay).await.unwrap_err().code(), Code::DeadLetterNotFound);
        }
        assert_eq!(fire(&store).await.fired, 20, "once the damage is repaired they are delivered");
    });
}

#[test]
fn a_timer_that_cannot_be_read_is_buried() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        let timers = set_timers(&store, fence, &[7]).await.unwrap();
        let place = timer_due::TimerPlace { place_ns: 6, intent: timers[0] };
        let mut tx = store.engine.begin().await.unwrap();
        let key = timer_due::key(store.universe, timer_due::shard(timers[0]), place);
        tx.put(key.as_bytes(), vec![0xff]).unwrap();
        tx.commit().await.unwrap();
        let fired = fire(&store).await;
        assert_eq!((fired.fired, fired.buried), (1, 1));
    });
}

/// Whatever becomes of a timer, two workers that take it at the same time do it once: one of them commits, the other takes it again.
#[test]
fn of_two_workers_that_take_a_timer_one_conflicts() {
    block_on(async {
        let cases = ["fires", "cannot be read", "has a damaged record", "cannot be delivered"];
        for case in cases {
            let store = store().await;
            let fence = store.live(1).await.unwrap();
            let intent = set_timers(&store, fence, &[7]).await.unwrap()[0];
            let shard = timer_due::shard(intent);
            let place = timer_due::TimerPlace { place_ns: 7, intent };
            let damaged = match case {
                "cannot be read" => Some(timer_due::key(store.universe, shard, place)),
                "has a damaged record" => Some(timer_dedupe::key(store.universe, fence.world, intent)),
                "cannot be delivered" => Some(world_meta::key(store.universe, fence.world)),
                _ => None,
            };
            if let Some(key) = damaged {
                let mut tx = store.engine.begin().await.unwrap();
                tx.put(key.as_bytes(), vec![0xff]).unwrap();
                tx.commit().await.unwrap();
            }
            let (universe, now_ns) = (store.universe, store.clock.now_ns());
            let fire = FireTimers { universe, shard, items_max: 100, now_ns, dedupe_window_ns: WINDOW_NS };
            let (mut one, mut other) = (store.engine.begin().await.unwrap(), store.engine.begin().await.unwrap());
            let done = fire.run(&mut one).await.unwrap();
            assert_eq!(done.fired + done.buried + done.retrying, 1, "a timer that {case}");
            assert_eq!(fire.run(&mut other).await.unwrap(), done, "a timer that {case}");
            one.commit().await.unwrap();
            let late = other.commit().await;
            assert!(matches!(late, Err(CommitError::Conflict)), "a timer that {case}: {late:?}");
        }
    });
}

/// Thousands of timers of a few worlds, due at one moment: one transaction for each shard puts all of them into the inboxes, each once.
#[test]
fn due_timers_are_enqueued_together() {
    block_on(async {
        let store = store().await;
        let mut fences = Vec::new();
        for world in 1..=6 {
            let fence = store.live(world).await.unwrap();
            set_timers(&store, fence, &[1; 1_000]).await.unwrap();
            fences.push(fence);
        }
        let mut transactions = 0;
        for shard in Shard::all() {
            loop {
                let (universe, now_ns) = (store.universe, store.clock.now_ns());
                let items_max = limits::TIMERS_FIRED_MAX;
                let fire = FireTimers { universe, shard, items_max, now_ns, dedupe_window_ns: WINDOW_NS };
                transactions += 1;
                if !store.run(&fire).await.unwrap().output.more {
                    break;
                }
            }
        }
        assert_eq!(transactions, 16, "one for each shard");
        let mut tx = store.engine.begin().await.unwrap();
        for fence in fences {
            assert_eq!(inbox_depth::read(&mut tx, fence.universe, fence.world).await.unwrap().items, 1_000);
        }
    });
}

/// Many pending timers cost only keys: a look for what is due reads nothing that is not.
#[test]
fn pending_timers_are_not_looked_at() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        for hour in 1..=20 {
            set_timers(&store, fence, &[hour * 3_600 * SECOND; 500]).await.unwrap();
        }
        store.engine.revive();
        assert_eq!(fire(&store).await, Fired::default());
        assert_eq!(next(&store).await, Some(3_600 * SECOND));
        let counts = store.engine.counts();
        assert!(counts.items <= 16, "{counts:?}");
    });
}
