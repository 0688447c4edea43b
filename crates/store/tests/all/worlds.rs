//! Worlds from creation to deletion, and the mistakes that systems like this one have really made.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Embedded, Engine, Memory, Transaction};
use mundi_model::{Code, Coded, Height, IntentHash, UniverseId, WorkerId, limits, record::Payload};
use mundi_store::{
    Clock, Fence, StoreError,
    journal::Batch,
    keyspace::{
        Shard,
        assignment::Assignment,
        effect_pending,
        low_water::{self, LowWater},
        notify,
        queue::Queue,
        ready, reply, timer_due, world_change,
        world_index::{self, Indexed},
        world_meta,
    },
    protocol::{
        AcquireLease, AssignWorld, CommitTurn, Consumed, InProcess, InboxEnd, ReadTurn, ReleaseLease, RenewLeases,
        SettleWorld, Settled, TurnItem, WorldCreated, compact_inbox, delete_world, expire_dedupe,
    },
    testing::{AppendBatch, Drained, Fixture, Probe, engine_contents, event, named_event, note_body, world_id},
};
use pollster::block_on;
use std::{sync::Arc, time::Duration};

type Store = Fixture<Memory>;

async fn store() -> Store {
    Fixture::new(Memory::new(), 1).await.unwrap()
}

fn code<T>(result: Result<T, StoreError>) -> Code {
    result.err().expect("refused").code()
}

#[test]
fn a_world_is_created_once() {
    block_on(async {
        let store = store().await;
        assert_eq!(store.create(world_id(1), None).await.unwrap(), WorldCreated::Now);
        assert_eq!(store.create(world_id(1), None).await.unwrap(), WorldCreated::Before);
        let elsewhere = Fixture { universe: UniverseId::from_bytes([9; 16]), ..store.clone() };
        assert_eq!(code(elsewhere.create(world_id(1), None).await), Code::UniverseNotFound);
        assert_eq!(code(elsewhere.send(world_id(1), vec![event("x")]).await), Code::UniverseNotFound);
    });
}

/// Once release deleted the lease, the epoch began again at 1, and tokens of the dead lived again.
#[test]
fn an_epoch_never_restarts_not_even_with_the_world_deleted() {
    block_on(async {
        let store = store().await;
        let first = store.live(1).await.unwrap();
        store.run(&ReleaseLease { fence: first, active_at_ns: None }).await.unwrap();
        assert_eq!(code(store.append(first, 1).await), Code::LeaseFenced, "a released fence is dead");
        let second = store.acquire(first.world, 2).await.unwrap();
        assert_eq!(second.epoch, first.epoch.next());
        assert_eq!(code(store.run(&ReleaseLease { fence: first, active_at_ns: None }).await), Code::LeaseFenced);
        store.clock.advance(Duration::from_secs(60));
        let third = store.acquire(first.world, 1).await.unwrap();
        assert!(third.epoch > second.epoch);
        assert_eq!(code(store.append(second, 1).await), Code::LeaseFenced, "expired, and taken by another");

        delete_world(&store.engine, &store.clock, third).await.unwrap();
        assert_eq!(code(store.acquire(first.world, 1).await), Code::WorldDeleted);
        assert_eq!(code(store.create(first.world, None).await), Code::WorldDeleted, "an id is never used again");
        for fence in [first, second, third] {
            let refused = code(store.append(fence, 1).await);
            assert!(matches!(refused, Code::LeaseFenced | Code::WorldDeleted), "{refused}");
        }
    });
}

#[test]
fn an_assignment_and_an_unexpired_lease_are_respected() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        assert_eq!(code(store.acquire(fence.world, 2).await), Code::LeaseHeld);
        let pin = Assignment { desired: WorkerId::new(3), pinned: true, priority: 0, reason: None };
        let (universe, world) = (store.universe, fence.world);
        store.run(&AssignWorld { universe, world, assignment: pin }).await.unwrap();
        store.run(&ReleaseLease { fence, active_at_ns: None }).await.unwrap();
        assert_eq!(code(store.acquire(world, 2).await), Code::LeaseAssignedElsewhere);
        store.acquire(world, 3).await.unwrap();
    });
}

#[test]
fn a_renewal_reports_what_was_lost_and_never_disturbs_a_turn() {
    block_on(async {
        let store = store().await;
        let (kept, lost) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
        store.run(&ReleaseLease { fence: lost, active_at_ns: None }).await.unwrap();
        let head = store.read_turn(kept).await.unwrap().head;
        let mut turn = store.engine.begin().await.unwrap();
        let append = AppendBatch { fence: kept, batch: Batch::from_bodies(head, [note_body(1)]).unwrap() };
        mundi_store::Protocol::run(&append, &mut turn).await.unwrap();

        let worker = WorkerId::new(1).unwrap();
        let renew = RenewLeases { worker, fences: vec![kept, lost], now_ns: 5_000, ttl_ns: 1_000 };
        let renewed = store.run(&renew).await.unwrap().output;
        assert_eq!((renewed.renewed, renewed.lost), (vec![kept], vec![lost]));
        turn.commit().await.expect("a renewal in between is no conflict");
    });
}

#[test]
fn an_acquisition_in_between_makes_a_turn_conflict() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        let head = store.read_turn(fence).await.unwrap().head;
        let mut turn = store.engine.begin().await.unwrap();
        let append = AppendBatch { fence, batch: Batch::from_bodies(head, [note_body(1)]).unwrap() };
        mundi_store::Protocol::run(&append, &mut turn).await.unwrap();
        store.clock.advance(Duration::from_secs(60));
        store.acquire(fence.world, 2).await.unwrap();
        assert!(turn.commit().await.is_err(), "check and write are one moment");
        assert_eq!(code(store.run(&append).await), Code::LeaseFenced);
    });
}

/// Once sequence numbers began again at 0 when a queue ran empty.
#[test]
fn a_sequence_never_restarts_when_the_inbox_runs_empty() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = None;
    for round in 0..3u64 {
        let engine = Embedded::open(folder.path()).unwrap();
        block_on(async {
            let store = Fixture::new(engine, 1).await.unwrap();
            let fence = store.live(1).await.unwrap();
            let placed = store.send(fence.world, vec![event("x"); 3]).await.unwrap();
            assert!(placed.iter().all(|place| Some(place.seq) > last), "round {round}");
            last = placed.last().map(|place| place.seq);
            assert!(matches!(store.drain(fence, 10).await.unwrap(), Drained::Moved { items: 3, .. }));
            compact_inbox(&store.engine, &store.clock, fence, 1).await.unwrap();
            store.clock.advance(Duration::from_nanos(1));
            assert_eq!(compact_inbox(&store.engine, &store.clock, fence, 1).await.unwrap(), 3);
        });
    }
}

#[test]
fn compaction_waits_for_the_grace_and_leaves_what_was_not_consumed() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        store.send(fence.world, vec![event("x"); 5]).await.unwrap();
        store.drain(fence, 3).await.unwrap();
        let compact = || compact_inbox(&store.engine, &store.clock, fence, 1_000);
        assert_eq!(compact().await.unwrap(), 0);
        store.clock.advance(Duration::from_nanos(999));
        assert_eq!(compact().await.unwrap(), 0);
        store.clock.advance(Duration::from_nanos(1));
        assert_eq!(compact().await.unwrap(), 3);
        assert_eq!(store.read_turn(fence).await.unwrap().items.len(), 2, "what waits is still there");
    });
}

#[test]
fn a_drained_inbox_is_read_from_its_cursor_and_never_from_its_prefix() {
    block_on(async {
        let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
        let fence = store.live(1).await.unwrap();
        for _ in 0..20 {
            store.send(fence.world, vec![event("x"); 50]).await.unwrap();
        }
        for _ in 0..10 {
            assert_ne!(store.drain(fence, 100).await.unwrap(), Drained::Idle);
        }
        assert_eq!(store.drain(fence, 100).await.unwrap(), Drained::Idle);
        store.engine.revive();
        let input = store.read_turn(fence).await.unwrap();
        assert!(input.items.is_empty());
        assert_eq!(store.engine.counts().items, 0, "none of the consumed items was looked at");
    });
}

#[test]
fn a_hint_stays_as_long_as_something_waits() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        let settle = async || store.run(&SettleWorld { fence }).await;
        let hinted = async || {
            let key = ready::key(store.universe, ready::PRIORITY_NORMAL, fence.world);
            store.engine.begin().await.unwrap().get(key.as_bytes()).await.unwrap().is_some()
        };
        store.send(fence.world, vec![event("x")]).await.unwrap();
        assert!(settle().await.unwrap().output == Settled::Busy && hinted().await);
        store.drain(fence, 10).await.unwrap();

        // An item arrives between the look and the commit.
        let mut tx = store.engine.begin().await.unwrap();
        mundi_store::Protocol::run(&SettleWorld { fence }, &mut tx).await.unwrap();
        store.send(fence.world, vec![event("y")]).await.unwrap();
        assert!(tx.commit().await.is_err() && hinted().await, "its hint is not taken away");

        store.drain(fence, 10).await.unwrap();
        assert!(settle().await.unwrap().output == Settled::Idle && !hinted().await);
    });
}

#[test]
fn an_enqueue_wakes_who_watches() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        let input = store.read_turn(fence).await.unwrap();
        let changed = notify::changed(&store.engine, store.universe, fence.world, input.notify);
        store.send(fence.world, vec![event("x")]).await.unwrap();
        changed.await.unwrap();
    });
}

#[test]
fn dedupe_ends_with_its_window() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        let send = || store.send(fence.world, vec![named_event("once")]);
        let first = send().await.unwrap()[0];
        let again = send().await.unwrap()[0];
        assert!(again.before && again.seq == first.seq);
        assert_eq!(expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap(), 0);
        assert!(send().await.unwrap()[0].before);
        store.clock.advance(Duration::from_secs(3_600 + 300));
        assert_eq!(expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap(), 1);
        assert!(!send().await.unwrap()[0].before);
    });
}

#[test]
fn expiry_goes_on_from_a_mark_and_finds_what_ends_above_it() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        for round in 1..4u64 {
            store.send(fence.world, vec![named_event(&round.to_string())]).await.unwrap();
            store.clock.advance(Duration::from_secs(3 * 3_600));
            assert_eq!(expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap(), 1, "round {round}");
            let mut tx = store.engine.begin().await.unwrap();
            let mark = low_water::read(
                &mut tx,
                store.universe,
                Queue::Dedupe,
                mundi_store::keyspace::QueueShard::new("dedupe", Shard::FIRST),
            )
            .await
            .unwrap();
            let Some(LowWater::TimeNs(mark_ns)) = mark else { panic!("{mark:?}") };
            assert!(mark_ns < store.clock.now_ns() && mark_ns > (round - 1) * 3 * 3_600_000_000_000);
        }
    });
}

/// Found by the simulator: a paused world whose inbox was full, later one whose inbox was full and took receipts as well, could never be resumed.
#[test]
fn a_full_inbox_takes_some_commands_more_and_no_events() {
    block_on(async {
        let store = store().await;
        let world = world_id(1);
        let inbox = Some(world_meta::InboxBounds { items_max: 2, bytes_max: 200_000 });
        store.create(world, inbox).await.unwrap();
        store.send(world, vec![event("x"), event("y")]).await.unwrap();
        let payload = Payload::Inline(Vec::new());
        let mut resume = event("");
        resume.item.input = mundi_model::record::Input::Control { command: "resume".into(), payload };
        // Receipts are not refused, and may be as many as open intents: commands get in behind all of them.
        let mut left = limits::OPEN_INTENTS_MAX + limits::INBOX_COMMANDS_MAX;
        while left > 0 {
            assert_eq!(code(store.send(world, vec![event("z")]).await), Code::InboxFull);
            let some = left.min(100);
            store.send(world, vec![resume.clone(); some as usize]).await.unwrap();
            left -= some;
        }
        assert_eq!(code(store.send(world, vec![resume]).await), Code::InboxFull, "commands are bounded, too");
    });
}

#[test]
fn large_payloads_go_to_the_content_store_and_still_count() {
    block_on(async {
        let store = store().await;
        let world = world_id(1);
        let inbox = Some(world_meta::InboxBounds { items_max: 100, bytes_max: 200_000 });
        store.create(world, inbox).await.unwrap();
        let fence = store.acquire(world, 1).await.unwrap();
        let large = "x".repeat(limits::PAYLOAD_INLINE_BYTES_MAX + 1);
        store.send(world, vec![event(&large)]).await.unwrap();
        let item = &store.read_turn(fence).await.unwrap().items[0];
        let mundi_model::record::Input::Event { value: Payload::Blob(hash, len), .. } = &item.item.input else {
            panic!("not spilled: {item:?}")
        };
        assert_eq!(*len, large.len() as u64);
        assert_eq!(mundi_store::blob::Blobs::get(&store.blobs, store.universe, *hash).await.unwrap(), large);
        assert_eq!(code(store.send(world, vec![event(&"y".repeat(200_000))]).await), Code::InboxFull);

        let mut wide = event("x");
        wide.item.origin.correlation_id = Some("c".repeat(limits::INBOX_ITEM_BYTES_MAX));
        assert_eq!(code(store.send(world, vec![wide]).await), Code::InboxItemTooLarge);
        assert_eq!(code(store.send(world, vec![]).await), Code::BatchInvalid);
        let many = vec![event("x"); limits::INBOX_BATCH_ITEMS_MAX + 1];
        assert_eq!(code(store.send(world, many).await), Code::BatchInvalid);
    });
}

/// A direct item that passed items which its turn had not read lost them.
#[test]
fn a_turn_whose_cursor_would_pass_unread_items_is_refused() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        let direct = Arc::new(event("direct").item);
        let drained = store.read_turn(fence).await.unwrap().end.expect("an empty inbox was read to its end");
        store.send(fence.world, vec![event("a"), event("b"), event("c")]).await.unwrap();
        let page = ReadTurn { fence, cursor_seen: None, items_max: 2, bytes_max: limits::TURN_BYTES_MAX };
        let input = store.run(&page).await.unwrap().output;
        assert_eq!((input.items.len(), &input.end), (2, &None), "there is more than a page");
        let all = store.read_turn(fence).await.unwrap();
        let end = all.end.as_ref().expect("all of it was read");
        let turn = |items: &[TurnItem], end| CommitTurn {
            fence,
            cursor: input.cursor,
            consumed: Consumed::of(items, end),
            records: Batch::from_bodies(input.head, [note_body(1)]).unwrap(),
            effects: vec![],
            timers: vec![],
            receipts: Vec::new(),
            expects_end: None,
            in_process: InProcess::default(),
            logs: Vec::new(),
            authorities: Vec::new(),
            paused: None,
            ready: false,
            now_ns: 1,
        };
        let with_direct = |items: &[TurnItem], end: &InboxEnd| [items, &[end.direct(0, direct.clone())]].concat();
        let before = engine_contents(&store.engine).await.unwrap();
        let without_proof = turn(&with_direct(&all.items, end), None);
        let older_proof = turn(&with_direct(&all.items, end), Some(&drained));
        let items_left_out = turn(&with_direct(&input.items, end), Some(end));
        let nothing_read = turn(&with_direct(&[], end), Some(end));
        for refused in [without_proof, older_proof, items_left_out, nothing_read] {
            assert_eq!(code(store.run(&refused).await), Code::TurnInvalid, "{:?}", refused.consumed);
            // Nor by the way that does not read the inbox.
            let unread = CommitTurn { expects_end: Some(end.clone()), ..refused.clone() };
            assert_eq!(code(store.run(&unread).await), Code::TurnInvalid, "{:?}", refused.consumed);
        }
        assert_eq!(engine_contents(&store.engine).await.unwrap(), before, "nothing was changed");
        store.run(&turn(&with_direct(&all.items, end), Some(end))).await.unwrap();
        assert!(store.read_turn(fence).await.unwrap().items.is_empty());
    });
}

/// Once intents were published in another transaction than their records, and a crash between lost them.
#[test]
fn a_turn_publishes_only_what_its_records_announce_and_only_once() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        store.send(fence.world, vec![event("x")]).await.unwrap();
        let input = store.read_turn(fence).await.unwrap();
        let intent = IntentHash::of(b"intent");
        let height = input.head.height;
        let announce = mundi_model::record::Intent {
            hash: intent,
            kind: "http".into(),
            params: Payload::Inline(vec![]),
            label: String::new(),
        };
        let body = mundi_model::record::Body::Intent(announce);
        let effect = |height: Height| effect_pending::EffectItem {
            world: fence.world,
            intent,
            height,
            kind: "http".into(),
            params: Payload::Inline(vec![]),
            label: String::new(),
            policy_context: None,
            published_at_ns: 1,
            trace: None,
            correlation_id: None,
            call: None,
            terms: effect_pending::EffectTerms::default(),
            lease: None,
        };
        let turn = |body, effect| CommitTurn {
            fence,
            cursor: input.cursor,
            consumed: Consumed::of(&input.items, None),
            records: Batch::from_bodies(input.head, [body]).unwrap(),
            effects: vec![effect],
            timers: vec![],
            receipts: Vec::new(),
            expects_end: None,
            in_process: InProcess::default(),
            logs: Vec::new(),
            authorities: Vec::new(),
            paused: None,
            ready: false,
            now_ns: 1,
        };
        let before = engine_contents(&store.engine).await.unwrap();
        assert_eq!(code(store.run(&turn(note_body(1), effect(height))).await), Code::IntentNotJournaled);
        assert_eq!(code(store.run(&turn(body.clone(), effect(height.next()))).await), Code::IntentNotJournaled);
        assert_eq!(engine_contents(&store.engine).await.unwrap(), before, "nothing was changed");

        store.run(&turn(body.clone(), effect(height))).await.unwrap();
        store.run(&turn(body, effect(height))).await.unwrap();
        let span = effect_pending::from(store.universe, mundi_store::keyspace::QueueShard::of("http", intent), None);
        let read = mundi_engine::RangeRead::new(span.start.as_bytes().to_vec(), span.end.as_bytes().to_vec(), 10);
        let pending = store.engine.begin().await.unwrap().range(read).await.unwrap().items;
        assert_eq!(pending.len(), 1);
        assert_eq!(effect_pending::decode(&pending[0].0, &pending[0].1).unwrap().intent, intent);
    });
}

#[test]
fn a_deleted_world_leaves_only_its_tombstone() {
    block_on(async {
        let store = store().await;
        let survivor = store.live(2).await.unwrap();
        let before = engine_contents(&store.engine).await.unwrap();
        let fence = store.live(1).await.unwrap();
        for _ in 0..5 {
            store.send(fence.world, vec![event("x"); 900]).await.unwrap();
        }
        store.drain(fence, 4_000).await.unwrap();
        store.snapshot(fence, &store.facts(Height::new(7)), true).await.unwrap();
        delete_world(&store.engine, &store.clock, fence).await.unwrap();

        let after = engine_contents(&store.engine).await.unwrap();
        let left: Vec<_> = after.keys().filter(|key| !before.contains_key(*key)).collect();
        let change = world_change::key(store.universe, world_change::slot(fence.world));
        let kept = [
            world_meta::key(store.universe, fence.world),
            mundi_store::keyspace::lease::key(store.universe, fence.world),
            mundi_store::keyspace::lease_term::key(store.universe, fence.world),
            // Deleted worlds can be listed.
            world_index::key(store.universe, Indexed::State(world_meta::ListedState::Deleted), fence.world),
            // Readers that follow the universe hear of it.
            change.clone(),
        ];
        let expected_counter = mundi_store::keyspace::ready_notify::key(store.universe, ready::shard(fence.world));
        assert!(left.iter().all(|key| {
            kept.iter().any(|kept| kept.as_bytes() == &key[..]) || expected_counter.as_bytes() == &key[..]
        }));
        let changes =
            mundi_store::keyspace::queue_notify::key(store.universe, mundi_store::keyspace::queue_notify::WORLDS); // a world went
        let others =
            before.iter().filter(|(key, _)| ![&changes, &change].iter().any(|of_many| of_many.as_bytes() == &key[..]));
        assert!(others.into_iter().all(|(key, value)| after.get(key) == Some(value)), "no other world was touched");
        assert_eq!(code(store.send(fence.world, vec![event("x")]).await), Code::WorldDeleted);
        store.append(survivor, 1).await.unwrap();
    });
}

#[test]
fn nothing_of_another_universe_can_be_reached() {
    block_on(async {
        let engine = Memory::new();
        let (ours, theirs) = (Fixture::new(engine.clone(), 1).await.unwrap(), Fixture::new(engine, 2).await.unwrap());
        let fence = ours.live(1).await.unwrap();
        assert_eq!(code(theirs.send(fence.world, vec![event("x")]).await), Code::WorldNotFound);
        let foreign = Fence { universe: theirs.universe, ..fence };
        assert_eq!(code(theirs.append(foreign, 1).await), Code::WorldNotFound);
        let request = AcquireLease {
            universe: theirs.universe,
            world: fence.world,
            worker: WorkerId::new(1).unwrap(),
            now_ns: 0,
            ttl_ns: 1,
            opening: None,
        };
        assert_eq!(code(theirs.run(&request).await), Code::WorldNotFound);
    });
}

/// The places of queued items are in keys: pinned here as they are stored.
#[test]
fn keys_are_stored_as_they_always_were() {
    let universe = UniverseId::from_bytes([0xaa; 16]);
    let world = mundi_model::WorldId::from_bytes([0xbb; 16]);
    let hex = |key: mundi_store::keyspace::Key| format!("{key:?}");
    let u = "aa".repeat(16);
    let w = format!("{u}7f{}", "bb".repeat(16));
    let intent = IntentHash::from_bytes([0xcc; 32]);
    let seq = mundi_model::InboxSeq::from_bytes([0xdd; 12]);
    use mundi_store::keyspace as k;
    let queue_seq = k::queue::QueueSeq::from_bytes([0xee; 12]);
    let shard = Shard::new(5).unwrap();
    let queue_shard = k::QueueShard::new("k", shard);
    let retry = k::effect_retry::RetryPlace { place_ns: 258, seq: queue_seq };
    let place = timer_due::TimerPlace { place_ns: 25_000_000_000, intent };
    let worker = WorkerId::new(7).unwrap();
    let (i, s, q) = ("cc".repeat(32), "dd".repeat(12), "ee".repeat(12));
    let kind = "a921e3704fda881d";
    let expected = [
        (hex(k::universe_meta::key(universe)), format!("{u}01")),
        (hex(k::effect_pending::key(universe, queue_shard, queue_seq)), format!("{u}10{kind}05{q}")),
        (hex(k::effect_inflight::key(universe, queue_shard, queue_seq)), format!("{u}11{kind}05{q}")),
        (hex(k::effect_attempt::key(universe, shard, queue_seq)), format!("{u}1205{q}")),
        (hex(k::effect_dedupe::key(universe, world, intent)), format!("{u}13{}{i}", "bb".repeat(16))),
        (hex(k::effect_retry::key(universe, queue_shard, retry)), format!("{u}14{kind}050000000000000102{q}")),
        (hex(timer_due::key(universe, shard, place)), format!("{u}1805000000000000000200000005d21dba00{i}")),
        (hex(k::timer_dedupe::key(universe, world, intent)), format!("{u}1a{}{i}", "bb".repeat(16))),
        (hex(k::low_water::key(universe, Queue::Effects, queue_shard)), format!("{u}1d01{kind}05")),
        (hex(k::dead_letter::key(universe, Queue::Effects, queue_seq)), format!("{u}1e01{q}")),
        (hex(k::queue_notify::key(universe, "k")), format!("{u}1f{kind}")),
        (hex(k::worker::key(universe, worker)), format!("{u}200000000000000007")),
        (hex(k::assignment::key(universe, world)), format!("{u}21{}", "bb".repeat(16))),
        (hex(k::assigned_world::key(universe, worker, world)), format!("{u}220000000000000007{}", "bb".repeat(16))),
        (hex(ready::key(universe, 128, world)), format!("{u}23{:02x}80{}", ready::shard(world).get(), "bb".repeat(16))),
        (hex(k::ready_notify::key(universe, shard)), format!("{u}2405")),
        (hex(k::forked_world::key(universe, world, world)), format!("{u}28{}{}", "bb".repeat(16), "bb".repeat(16))),
        (hex(world_meta::key(universe, world)), format!("{w}80")),
        (hex(k::journal_head::key(universe, world)), format!("{w}81")),
        (hex(k::journal_entry::key(universe, world, Height::new(258))), format!("{w}820000000000000102")),
        (hex(k::manifest_at::key(universe, world, Height::new(1))), format!("{w}830000000000000001")),
        (hex(k::snapshot::key(universe, world, Height::new(1))), format!("{w}840000000000000001")),
        (hex(k::baseline::key(universe, world)), format!("{w}85")),
        (hex(k::inbox_entry::key(universe, world, seq)), format!("{w}86{s}")),
        (hex(k::inbox_compaction::key(universe, world)), format!("{w}8a")),
        (hex(notify::key(universe, world)), format!("{w}8b")),
        (hex(reply::key(universe, world, seq)), format!("{w}8c{s}")),
        (hex(k::effect_rate::key(universe, world, "k")), format!("{w}8d{kind}")),
        (hex(k::lease::key(universe, world)), format!("{w}90")),
        (hex(k::lease_term::key(universe, world)), format!("{w}91")),
    ];
    for (found, expected) in expected {
        assert_eq!(found, expected);
    }
}
