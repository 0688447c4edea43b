//! The control surface: what a universe holds can be listed, described and acted upon, while worlds run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, Transaction};
use mundi_model::{
    Code, Coded, Height, IntentHash, Value, WorkerId, WorldId, cbor, limits,
    record::{Body, EffectPolicy, InboxItem, Input, Operator, Origin, ReceiptStatus, Record},
};
use mundi_runtime::{
    Plane, RuntimeError, Services,
    calls::Calls,
    control::{Cause, EffectEnd, EffectName, EffectOrder, FoundEffect, Ops, SortPlace, UniverseChange},
    lifecycle::ForkAt,
    metrics::{Metric, Metrics},
    shell::{Shell, ShellConfig, WorkerCommands},
    testing::{Rig, TestPlane, control, script_event},
    worker::{WorkerConfig, WorldWorker},
    world::{CycleBudget, Progress, WorldHost},
};
use mundi_store::{
    keyspace::{
        Shard,
        dead_letter::{self, DeadLetter},
        effect_pending,
        effect_place::EffectStage,
        queue::{Queue, QueueSeq},
        world_meta::WorldState,
    },
    objects::open,
    protocol::{
        ClaimEffects, ClaimedEffect, CompleteEffect, ExportPolicy, FailEffect, Failure, FindEffect, FoundPlace,
        KindCap, NewItem, QueuedEffect, ReadTurn, Repeat, WokenBy, WorldFilter,
    },
    segments::SegmentStore,
    testing::world_id,
};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

fn operator() -> Operator {
    Operator { token: None, name: "ops".into() }
}

fn ops(rig: &Rig) -> Ops<TestPlane> {
    Ops::new(rig.plane.clone(), rig.universe, Calls::default())
}

fn code<V>(result: Result<V, RuntimeError>) -> Code {
    result.err().expect("refused").code()
}

async fn host(rig: &Rig, world: WorldId) -> WorldHost<TestPlane> {
    rig.host(world, id(1)).await.unwrap()
}

async fn run_scripts(rig: &Rig, host: &mut WorldHost<TestPlane>, scripts: &[&str]) {
    rig.tell(host, scripts).await.unwrap();
}

#[test]
fn worlds_are_listed_in_pages_by_state_parent_and_holder() {
    Rig::run(|rig| async move {
        let ops = ops(&rig);
        for n in 1..=5 {
            rig.create(world_id(n)).await.unwrap();
        }
        let fork = world_id(9);
        ops.world_fork(world_id(1), fork, ForkAt::Newest, EffectPolicy::Suppress, 5).await.unwrap();
        ops.world_archive(world_id(2)).await.unwrap();
        ops.world_delete(world_id(3)).await.unwrap();
        rig.acquire(world_id(4), id(1)).await.unwrap();

        let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = ops.list_worlds(WorldFilter::default(), after, 2).await.unwrap();
            assert!(page.items.len() <= 2);
            found.extend(page.items.iter().map(|item| item.world));
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let mut expected = [1, 2, 4, 5, 9].map(world_id);
        expected.sort();
        assert_eq!(found, expected);
        assert!(pages >= 3);
        let with = async |filter| {
            let page = ops.list_worlds(filter, None, 100).await.unwrap();
            page.items.iter().map(|item| item.world).collect::<Vec<_>>()
        };
        let state = |state| WorldFilter { state: Some(state), ..WorldFilter::default() };
        assert_eq!(with(state(WorldState::Archived)).await, [world_id(2)]);
        assert_eq!(with(state(WorldState::Deleted)).await, [world_id(3)]);
        assert_eq!(with(WorldFilter { parent: Some(world_id(1)), ..WorldFilter::default() }).await, [fork]);
        let leases = ops.list_leases(Some(id(1)), None, 100).await.unwrap().items;
        assert_eq!(leases.iter().map(|(world, _)| *world).collect::<Vec<_>>(), [world_id(4)]);
        assert!(ops.list_leases(Some(id(2)), None, 100).await.unwrap().items.is_empty());
    });
}

/// The engine answers from memory: without a pause of its own a replay would keep its thread until it is done.
#[test]
fn a_replay_of_a_long_history_lets_other_tasks_run() {
    const EVENTS: usize = 2_000;
    let rig = Rig::new(3);
    let making = rig.clone();
    rig.executor.block_on(async move {
        making.create(world_id(1)).await.unwrap();
        let mut host = host(&making, world_id(1)).await;
        for _ in 0..EVENTS / 200 {
            run_scripts(&making, &mut host, &["add n"; 200]).await;
        }
    });
    let before = rig.executor.polls();
    let asking = rig.clone();
    rig.executor.block_on(async move { ops(&asking).verify_world(world_id(1)).await.unwrap() });
    let polls = rig.executor.polls() - before;
    assert!(polls > EVENTS as u64 / u64::from(limits::REPLAYED_AT_ONCE_MAX), "{EVENTS} events in {polls} polls");
}

#[test]
fn a_world_is_described_asked_and_read_without_its_lease() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig), world_id(1));
        assert_eq!(code(ops.describe_world(world).await), Code::WorldNotFound);
        rig.create(world).await.unwrap();
        let mut host = host(&rig, world).await;
        run_scripts(&rig, &mut host, &["put a 1", "put a 2"]).await;
        let middle = host.head();
        run_scripts(&rig, &mut host, &["put a 3"]).await;
        host.snapshot().await.unwrap();
        rig.send(world, vec![script_event("put a 4")]).await.unwrap();

        let described = ops.describe_world(world).await.unwrap();
        assert_eq!((described.head.unwrap().height, described.inbox.items), (host.head(), 1));
        assert_eq!((described.manifest, described.lease.unwrap().holder), (Some(rig.manifest), id(1)));
        let snapshots = ops.list_snapshots(world, None, 1).await.unwrap();
        assert_eq!(snapshots.items, [described.baseline.unwrap()]);
        let rest = ops.list_snapshots(world, snapshots.next, 10).await.unwrap();
        assert_eq!(rest.items.iter().map(|note| note.height).collect::<Vec<_>>(), [Height::GENESIS]);

        let key = cbor::encode(&Value::Text("a".into()));
        assert_eq!(ops.world_query(world, "cell", &key, None).await.unwrap(), b"3");
        assert_eq!(ops.world_query(world, "cell", &key, Some(middle)).await.unwrap(), b"2");
        assert_eq!(code(ops.world_query(world, "none", &key, None).await), Code::QueryInvalid);

        let (mut from, mut heights) = (Some(Height::GENESIS), Vec::new());
        while let Some(height) = from {
            let page = ops.world_journal(world, height, 3).await.unwrap();
            heights.extend(page.items.iter().map(|record| record.height.get()));
            from = page.next;
        }
        assert_eq!(heights, (0..host.head().get()).collect::<Vec<_>>());
    });
}

async fn claim(rig: &Rig, token: u8) -> Vec<ClaimedEffect> {
    let claim = ClaimEffects {
        universe: rig.universe,
        kind: "http".into(),
        worker: id(5),
        token: [token; 16],
        items_max: 1,
        ttl_ns: 30_000_000_000,
        now_ns: mundi_runtime::Plane::now_ns(&rig.plane),
        first: Shard::FIRST,
        cap: KindCap::default(),
    };
    mundi_runtime::Plane::run(&rig.plane, &claim).await.unwrap().output.effects
}

#[test]
fn effects_are_sorted_over_all_pages_and_found_in_the_part_of_their_kind() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig), world_id(1));
        rig.create(world).await.unwrap();
        let mut host = host(&rig, world).await;
        for label in ["a", "b", "c", "d", "e"] {
            run_scripts(&rig, &mut host, &[&*format!("emit {label}")]).await;
            rig.plane.clock.sleep(SECOND).await;
        }
        let failing = claim(&rig, 1).await.remove(0);
        let fail = FailEffect {
            claim: failing.proof,
            failure: Failure { code: Code::EffectFailed, reason: "not yet".into(), repeat: Repeat::AfterMs(60_000) },
            adapter: "a".into(),
            signature: None,
            params: None,
            now_ns: rig.plane.now_ns(),
            dedupe_window_ns: 1,
        };
        rig.plane.run(&fail).await.unwrap();
        let sorted = async |order| {
            let (mut labels, mut after) = (Vec::new(), None::<SortPlace>);
            loop {
                let page = ops.sort_effects(order, (None, None, None), after, 2).await.unwrap();
                assert!(page.items.len() <= 2 && !page.is_partial);
                labels.extend(page.items.into_iter().map(|effect| effect.item.label));
                after = page.next.map(|next| next.to_string().parse().unwrap());
                if after.is_none() {
                    return labels;
                }
            }
        };
        assert_eq!(sorted(EffectOrder::Oldest).await, ["a", "b", "c", "d", "e"]);
        assert_eq!(sorted(EffectOrder::Newest).await, ["e", "d", "c", "b", "a"]);
        let by_attempts = sorted(EffectOrder::MostAttempts).await;
        let all = ["a", "b", "c", "d", "e"].map(str::to_owned);
        let rest: Vec<_> = all.into_iter().filter(|label| *label != by_attempts[0]).collect();
        assert_eq!((&*by_attempts[0], &by_attempts[1..]), (&*failing.item.label, &rest[..]));

        let read = async |kind: Option<&str>| {
            rig.plane.engine.revive();
            let found = ops.list_effects(None, kind, None, 100).await.unwrap().items.len();
            (found, rig.plane.engine.counts().items)
        };
        assert_eq!(read(Some("http")).await, (5, 5));
        assert_eq!(read(Some("mail")).await, (0, 0), "nothing of another kind is read");
    });
}

#[test]
fn worlds_that_wait_for_an_effect_or_a_timer_are_counted_once() {
    Rig::run(|rig| async move {
        let ops = ops(&rig);
        for n in 1..=4 {
            rig.create(world_id(n)).await.unwrap();
        }
        for (n, script) in
            [(1, "emit a\nemit b\ntimer t 9000000000000000000"), (2, "timer t 9000000000000000000"), (3, "put a 1")]
        {
            run_scripts(&rig, &mut host(&rig, world_id(n)).await, &[script]).await;
        }
        assert_eq!(ops.count_waiting_worlds().await.unwrap(), (2, false));
        assert_eq!(claim(&rig, 1).await.len(), 1);
        assert_eq!(ops.count_waiting_worlds().await.unwrap(), (2, false), "at every stage");
    });
}

#[test]
fn effects_are_listed_brought_forward_and_ended_by_an_operator() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig), world_id(1));
        rig.create(world).await.unwrap();
        rig.create(world_id(2)).await.unwrap();
        let mut host = host(&rig, world).await;
        run_scripts(&rig, &mut host, &["emit a", "emit b", "emit c"]).await;
        let held = claim(&rig, 1).await.remove(0);
        let failing = claim(&rig, 2).await.remove(0);
        let now_ns = mundi_runtime::Plane::now_ns(&rig.plane);
        let failure = Failure { code: Code::EffectFailed, reason: "not yet".into(), repeat: Repeat::AfterMs(60_000) };
        let fail = FailEffect {
            claim: failing.proof,
            failure,
            adapter: "a".into(),
            signature: None,
            params: None,
            now_ns,
            dedupe_window_ns: 1,
        };
        mundi_runtime::Plane::run(&rig.plane, &fail).await.unwrap();

        let depths = ops.queue_depths().await.unwrap();
        assert_eq!((depths.effects, depths.timers, depths.dead_letters), ([1, 1, 1], 0, [0; 3]));
        let list = async |world| ops.list_effects(world, None, None, 10).await.unwrap().items;
        let all = list(None).await;
        let stages: Vec<_> = all.iter().map(|effect| effect.place.stage).collect();
        assert_eq!(stages, [EffectStage::Pending, EffectStage::Waiting, EffectStage::Claimed]);
        assert_eq!(list(Some(world)).await, all);
        assert!(list(Some(world_id(2))).await.is_empty());
        assert!(ops.list_effects(None, Some("mail"), None, 10).await.unwrap().items.is_empty());
        let (mut after, mut paged) = (None, Vec::new());
        loop {
            let page = ops.list_effects(None, None, after, 1).await.unwrap();
            paged.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(paged, all);

        assert!(claim(&rig, 3).await.len() == 1 && claim(&rig, 4).await.is_empty(), "one waits for its time");
        assert!(ops.retry_effect(all[1].place).await.unwrap());
        assert_eq!(code(ops.retry_effect(all[1].place).await), Code::EffectNotFound);
        let retried = claim(&rig, 5).await.remove(0);
        assert_eq!((retried.item.intent, retried.claim.attempt), (failing.item.intent, 2));

        assert!(ops.cancel_effect(all[2].place, "enough", operator()).await.unwrap());
        assert_eq!(code(ops.cancel_effect(all[2].place, "enough", operator()).await), Code::EffectNotFound);
        let payload = mundi_model::record::Payload::Inline(vec![0xf6]);
        let answer = mundi_store::protocol::Answer::new(ReceiptStatus::Ok, payload, "slow");
        let late =
            CompleteEffect { claim: held.proof, answer, now_ns, dedupe_window_ns: 1, woken_by: WokenBy::ReadyQueue };
        let refused = mundi_runtime::Plane::run(&rig.plane, &late).await.unwrap_err();
        assert_eq!(refused.code(), Code::EffectClaimLost, "an operator answered in its place");
        let read = ReadTurn { fence: host.fence(), cursor_seen: None, items_max: 10, bytes_max: 1 << 20 };
        let items = mundi_runtime::Plane::run(&rig.plane, &read).await.unwrap().output.items;
        assert_eq!(items.len(), 1, "one receipt, whatever the slow worker says");
        let Input::Receipt(receipt) = &items[0].item.input else { panic!("no receipt") };
        assert_eq!((receipt.intent, receipt.status), (held.item.intent, ReceiptStatus::Error));
        let mundi_model::record::Payload::Inline(payload) = &receipt.payload else { panic!("inline") };
        assert!(String::from_utf8_lossy(payload).contains("EFFECT_CANCELLED"));
    });
}

#[test]
fn a_reader_that_follows_a_universe_learns_which_worlds_changed() {
    Rig::run(|rig| async move {
        let ops = ops(&rig);
        let before = ops.seen_universe().await.unwrap();
        let nothing = ops.seen_universe().await.unwrap().since(&before);
        assert!(nothing.changed.is_empty() && nothing.worlds.is_empty() && !nothing.more_worlds, "{nothing:?}");
        rig.create(world_id(1)).await.unwrap();
        rig.create(world_id(2)).await.unwrap();
        let now = ops.seen_universe().await.unwrap();
        let since = now.since(&before);
        assert_eq!(since.changed, [UniverseChange::Worlds]);
        assert_eq!((since.worlds, since.more_worlds), ([1, 2].map(world_id).into(), false));

        // A world that changed, and is as it was: the reader looks at all worlds, because another one may have been in between.
        ops.world_archive(world_id(1)).await.unwrap();
        ops.world_unarchive(world_id(1)).await.unwrap();
        let again = ops.seen_universe().await.unwrap();
        assert!(again.since(&now).more_worlds);
        // More worlds than are kept.
        for number in 3..3 + 2 * u64::from(limits::WORLD_CHANGES_KEPT_MAX) {
            rig.create(world_id(number)).await.unwrap();
        }
        let since = ops.seen_universe().await.unwrap().since(&again);
        assert!(since.more_worlds);
        assert!(since.worlds.len() <= usize::from(limits::WORLD_CHANGES_KEPT_MAX), "{}", since.worlds.len());
    });
}

#[test]
fn an_effect_that_its_world_has_withdrawn_is_listed_as_such_and_is_no_reason_to_wait() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig), world_id(1));
        rig.create(world).await.unwrap();
        let mut host = host(&rig, world).await;
        run_scripts(&rig, &mut host, &["emit a", "emit b"]).await;
        run_scripts(&rig, &mut host, &["cancel a"]).await;
        let listed = ops.list_effects(None, None, None, 10).await.unwrap().items;
        let mut withdrawn: Vec<_> = listed.iter().map(|effect| (&*effect.item.label, effect.is_withdrawn)).collect();
        withdrawn.sort_unstable();
        assert_eq!(withdrawn, [("a", true), ("b", false)], "whoever claims the first one drops it");
        let causes = ops.why(world).await.unwrap().causes;
        let effects = causes.iter().filter(|cause| matches!(cause, Cause::Effect(_)));
        assert_eq!(effects.count(), 1, "{causes:?}");
    });
}

/// Makes a pending effect the dead letter that a damaged world would have made of it.
async fn bury(rig: &Rig, intent: IntentHash) {
    let found = ops(rig).list_effects(None, None, None, 10).await.unwrap().items;
    let QueuedEffect { place, item, .. } = found.into_iter().find(|found| found.item.intent == intent).unwrap();
    let mut tx = rig.plane.engine().begin().await.unwrap();
    tx.delete(effect_pending::key(rig.universe, place.queue_shard, place.seq).as_bytes()).unwrap();
    let letter = DeadLetter {
        world: Some(item.world),
        code: Code::StoreCorrupt.to_string(),
        reason: "why".into(),
        attempts: 3,
        item: cbor::encode(&item),
        at_ns: 1,
        worker: None,
    };
    dead_letter::write(&mut tx, rig.universe, Queue::Effects, 0, &letter).unwrap();
    tx.commit().await.unwrap();
}

#[test]
fn an_effect_is_found_retried_and_ended_by_its_intent_wherever_it_is() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig), world_id(1));
        rig.create(world).await.unwrap();
        rig.create(world_id(2)).await.unwrap();
        let mut host = host(&rig, world).await;
        run_scripts(&rig, &mut host, &["emit a"]).await;
        let intent = ops.list_effects(None, None, None, 10).await.unwrap().items[0].item.intent;
        let name: EffectName = intent.to_string().parse().unwrap();
        assert_eq!(name, EffectName::Intent(intent));
        assert!(matches!(ops.find_effect(name, None).await.unwrap(), FoundEffect::Queued(_)));
        assert_eq!(code(ops.find_effect(name, Some(world_id(2))).await), Code::EffectNotFound);

        bury(&rig, intent).await;
        let FoundEffect::DeadLetter { letter, .. } = ops.find_effect(name, None).await.unwrap() else {
            panic!("buried")
        };
        assert_eq!((letter.attempts, letter.reason.as_str()), (3, "why"));
        assert!(ops.retry_effect_named(name, None).await.unwrap(), "it is put back");
        assert!(matches!(ops.find_effect(name, None).await.unwrap(), FoundEffect::Queued(_)));

        bury(&rig, intent).await;
        assert!(ops.cancel_effect_named(name, None, "enough", operator()).await.unwrap());
        assert!(ops.list_dead_letters(Queue::Effects, None, None, 10).await.unwrap().items.is_empty());
        let FoundEffect::Journaled(open) = ops.find_effect(name, Some(world)).await.unwrap() else {
            panic!("in no queue")
        };
        assert!(matches!(open.ended, EffectEnd::Open), "the world has not taken its receipt yet");
        run_scripts(&rig, &mut host, &["add n"]).await;
        let FoundEffect::Journaled(over) = ops.find_effect(name, Some(world)).await.unwrap() else {
            panic!("it is over")
        };
        let EffectEnd::Receipt { receipt, .. } = &over.ended else { panic!("{:?}", over.ended) };
        assert_eq!((receipt.status, receipt.operator.as_ref()), (ReceiptStatus::Error, Some(&operator())));
        assert_eq!(code(ops.find_effect(name, None).await), Code::EffectNotFound);
        assert_eq!(code(ops.retry_effect_named(name, Some(world)).await), Code::ReceiptClosed);
        assert_eq!(code(ops.cancel_effect_named(name, Some(world), "x", operator()).await), Code::ReceiptClosed);
    });
}

#[test]
fn timers_and_dead_letters_are_listed_in_pages() {
    Rig::run(|rig| async move {
        let ops = ops(&rig);
        for n in 1..=2 {
            rig.create(world_id(n)).await.unwrap();
            let mut host = host(&rig, world_id(n)).await;
            let due_ns = 1_000_000_000_000_000_000u64;
            let scripts: Vec<_> = (0..5).map(|t| format!("timer t{t} {}", due_ns + t)).collect();
            run_scripts(&rig, &mut host, &scripts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        for (world, expected) in [(None, 10), (Some(world_id(2)), 5), (Some(world_id(3)), 0)] {
            let (mut after, mut found) = (None, Vec::new());
            loop {
                let page = ops.list_timers(world, after, 3).await.unwrap();
                found.extend(page.items);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            found.sort_by_key(|timer| timer.item.intent);
            found.dedup();
            assert_eq!(found.len(), expected);
            assert!(found.iter().all(|timer| world.is_none_or(|world| timer.item.world == world)));
        }
        let letters = ops.list_dead_letters(Queue::Effects, None, None, 10).await.unwrap();
        assert!(letters.items.is_empty() && letters.next.is_none());
        let seq: QueueSeq = "q_000000000000000000000000".parse().unwrap();
        assert_eq!(code(ops.read_dead_letter(Queue::Timers, seq).await), Code::DeadLetterNotFound);
        assert_eq!(code(ops.replay_dead_letter(Queue::Timers, seq).await), Code::DeadLetterNotFound);
        ops.drop_dead_letter(Queue::Timers, seq).await.unwrap();
    });
}

/// An event whose sender said when it was sent.
fn sent_at(enqueued_at_ns: u64) -> NewItem {
    let origin = Origin::new(enqueued_at_ns);
    NewItem { item: InboxItem { input: script_event("add n"), origin }, dedupe: None }
}

#[test]
fn the_age_of_an_inbox_is_that_of_its_oldest_item_and_a_paused_one_has_none() {
    let rig = Rig::new(1);
    let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    let (acting, world) = (rig.clone(), world_id(1));
    rig.executor.block_on(async move {
        acting.create(world).await.unwrap();
        assert_eq!(ops.inbox_age_ns(world).await.unwrap(), 0);
        let mut host = host(&acting, world).await;
        let now_ns = acting.plane.now_ns();
        acting.enqueue(world, vec![sent_at(now_ns - 7), sent_at(now_ns - 5)]).await.unwrap();
        assert_eq!(ops.inbox_age_ns(world).await.unwrap(), 7);
        let one = CycleBudget { items_max: 1, ..CycleBudget::default() };
        host.turn(&one).await.unwrap();
        assert_eq!(ops.inbox_age_ns(world).await.unwrap(), 5, "the first one was taken");
        acting.send(world, vec![control("pause")]).await.unwrap();
        while host.turn(&one).await.unwrap() != Progress::Idle {}
        acting.enqueue(world, vec![sent_at(now_ns - 3)]).await.unwrap();
        host.turn(&one).await.unwrap();
        assert_eq!(ops.inbox_age_ns(world).await.unwrap(), 0, "what waits for a paused world is meant to");
        acting.send(world, vec![control("resume")]).await.unwrap();
        host.turn(&one).await.unwrap();
        assert_eq!(ops.inbox_age_ns(world).await.unwrap(), 3, "and is late again once it goes on");
    });
}

/// A page of a journal ends with a segment: what lies behind that belongs to the answer.
#[test]
fn how_an_effect_ended_is_found_behind_the_segment_that_it_was_asked_for_in() {
    let rig = Rig::new(1);
    let segments = SegmentStore::new(rig.plane.engine.clone(), open("memory:///").unwrap());
    let Services { engine, blobs, clock, entropy, registry, spawner, retry, .. } = rig.plane.clone();
    let plane = Services { engine, blobs, segments, clock, entropy, registry, spawner, retry };
    let (ops, acting, world) = (Ops::new(plane, rig.universe, Calls::default()), rig.clone(), world_id(1));
    rig.executor.block_on(async move {
        acting.create(world).await.unwrap();
        let mut first = host(&acting, world).await;
        run_scripts(&acting, &mut first, &["emit a"]).await;
        run_scripts(&acting, &mut first, &["add n"; 20]).await;
        ops.release_lease(world, first.fence().epoch).await.unwrap();
        let note = ops.take_snapshot(world).await.unwrap().expect("not taken");
        ops.promote_baseline(world, note.height).await.unwrap();
        let policy = ExportPolicy { margin: 5, records_min: 10, ..ExportPolicy::DEFAULT };
        assert_eq!(ops.export_segments(world, policy).await.unwrap(), 1);
        let intent = ops.list_effects(None, None, None, 10).await.unwrap().items[0].item.intent;
        let name = EffectName::Intent(intent);
        assert!(ops.cancel_effect_named(name, None, "enough", operator()).await.unwrap());
        let mut second = host(&acting, world).await;
        run_scripts(&acting, &mut second, &["add n"]).await;
        let FoundEffect::Journaled(over) = ops.find_effect(name, Some(world)).await.unwrap() else {
            panic!("it is over")
        };
        assert!(over.height < ops.describe_world(world).await.unwrap().exported_to.unwrap());
        assert!(matches!(over.ended, EffectEnd::Receipt { .. }), "{:?}", over.ended);
    });
}

#[test]
fn upkeep_is_done_here_for_a_world_that_nobody_runs_and_asked_of_the_worker_that_does() {
    let rig = Rig::new(1);
    let segments = SegmentStore::new(rig.plane.engine.clone(), open("memory:///").unwrap());
    let Services { engine, blobs, clock, entropy, registry, spawner, retry, .. } = rig.plane.clone();
    let plane = Services { engine, blobs, segments, clock, entropy, registry, spawner, retry };
    let ops = Ops::new(plane.clone(), rig.universe, Calls::default());
    let (preparing, asking, world) = (rig.clone(), ops.clone(), world_id(1));
    rig.executor.block_on(async move {
        preparing.create(world).await.unwrap();
        let mut host = host(&preparing, world).await;
        run_scripts(&preparing, &mut host, &["add n"; 20]).await;
        asking.release_lease(world, host.fence().epoch).await.unwrap();
        let note = asking.take_snapshot(world).await.unwrap().expect("not taken");
        assert_eq!(note.height, host.head());
        assert_eq!(asking.take_snapshot(world).await.unwrap(), None);
        let again = asking.promote_baseline(world, note.height).await.unwrap();
        assert_eq!(again, note);
        assert_eq!(code(asking.promote_baseline(world, Height::GENESIS).await), Code::BaselineRegressed);
        let policy = ExportPolicy { margin: 5, records_min: 10, ..ExportPolicy::DEFAULT };
        assert_eq!(asking.export_segments(world, policy).await.unwrap(), 1);
        assert_eq!(asking.export_segments(world, policy).await.unwrap(), 0);
        assert!(asking.describe_world(world).await.unwrap().exported_to.unwrap() > Height::new(10));
        preparing.send(world, vec![script_event("add n")]).await.unwrap();
    });

    let metrics = Arc::new(Metrics::default());
    let mut config = WorkerConfig::new(rig.universe, id(1));
    config.segments.enabled = false;
    let worker = WorldWorker::start(plane.clone(), config, Calls::default(), metrics.clone());
    let handler = WorkerCommands { plane: plane.clone(), worker };
    let shell = ShellConfig { bootstrap: true, ..ShellConfig::new(rig.universe, id(1)) };
    let boot = async move { Shell::boot(plane, shell, handler, Arc::default()).await.unwrap().0 };
    let _stop = rig.executor.block_on(boot).start();
    rig.executor.run_for(SECOND);
    assert_eq!(metrics.get(Metric::Snapshots), 0);
    let asking = ops.clone();
    rig.executor.block_on(async move {
        let head = asking.describe_world(world).await.unwrap().head.unwrap().height;
        assert_eq!(asking.take_snapshot(world).await.unwrap().map(|note| note.height), Some(head));
        assert_eq!(asking.take_snapshot(world).await.unwrap(), None);
        let policy = ExportPolicy { margin: 0, records_min: 1, ..ExportPolicy::DEFAULT };
        assert_eq!(asking.export_segments(world, policy).await.unwrap(), 1);
    });
    assert_eq!(
        (metrics.get(Metric::Snapshots), metrics.get(Metric::SegmentsExported)),
        (1, 1),
        "by the one that runs it"
    );
    assert_eq!((metrics.get(Metric::LeasesReleased), metrics.get(Metric::LeasesLost)), (0, 0), "which goes on");
    rig.executor.block_on(async move {
        let described = ops.describe_world(world).await.unwrap();
        assert_eq!(described.exported_to, described.baseline.map(|note| note.height));
        let page = ops.world_journal(world, Height::GENESIS, 1_000).await.unwrap();
        let first: Record = page.items[0].decode().unwrap();
        assert!(matches!(first.body, Body::Genesis(_)), "a journal is read across its segments");
    });
}

#[test]
fn an_effect_is_found_by_its_intent_in_its_own_shard_only() {
    const EFFECTS: usize = 400;
    Rig::run(|rig| async move {
        let ops = ops(&rig);
        rig.create(world_id(1)).await.unwrap();
        let mut host = host(&rig, world_id(1)).await;
        for first in (0..EFFECTS).step_by(50) {
            let script: Vec<String> = (first..first + 50).map(|n| format!("emit label{n} {n}")).collect();
            run_scripts(&rig, &mut host, &[&script.join("\n")]).await;
        }
        let all = ops.list_effects(None, None, None, EFFECTS).await.unwrap().items;
        assert_eq!(all.len(), EFFECTS);
        for queued in &all {
            let (intent, before) = (queued.item.intent, rig.plane.engine.counts().items);
            let FoundEffect::Queued(found) = ops.find_effect(EffectName::Intent(intent), None).await.unwrap() else {
                panic!("it is queued")
            };
            assert_eq!(found.place, queued.place);
            let read = rig.plane.engine.counts().items - before;
            assert!(read < EFFECTS as u64 / 4, "{read} items were read");
            let (universe, mut after) = (rig.universe, None);
            let found = loop {
                let part = FindEffect { universe, intent, after, looks_max: 1 };
                match rig.plane.run(&part).await.unwrap().output {
                    FoundPlace::Here(found) => break found,
                    FoundPlace::NotYet(place) => after = Some(place),
                    FoundPlace::Nowhere => panic!("one by one it is passed over"),
                }
            };
            assert_eq!(found.place, queued.place);
        }
        let unknown = EffectName::Intent(IntentHash::of(b"unknown"));
        assert_eq!(code(ops.find_effect(unknown, None).await), Code::EffectNotFound);
    });
}
