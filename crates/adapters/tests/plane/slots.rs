//! Effects of a world that runs beside the adapter worker: in its slots as they are published, answered into the world's own turn.

use crate::rig::{adapter_worker, ask, check, count, id, ops, with_worlds};
use futures_util::future::{BoxFuture, poll_fn};
use mundi_engine::Engine;
use mundi_model::{
    Code, Coded, Value, cbor,
    record::{Body, Input, Operator, ReceiptStatus, Record},
};
use mundi_runtime::{
    Plane, Spawn,
    calls::Calls,
    control::{EffectName, HandAnswer, Ops},
    effects::{
        Adapter, AdapterWorkerConfig, Call,
        attempts::{AttemptBounds, Attempts},
    },
    metrics::{Metric, Metrics},
    testing::{Node, Rig, TestPlane, call},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    keyspace::{
        QueueShard, Shard,
        effect_dedupe::{self, EffectStatus},
        effect_pending::EffectItem,
        effect_place::EffectStage,
        low_water,
        queue::Queue,
    },
    protocol::{AnsweredByHand, Failure, KindCap, QueuedEffect, ReapEffects},
    testing::{Trouble, world_id},
};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

/// Answers once it is let.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    fn open(&self) {
        let mut gate = self.0.lock();
        gate.0 = true;
        gate.1.drain(..).for_each(Waker::wake);
    }
}

impl Adapter for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn kinds(&self) -> &[&str] {
        &["http"]
    }

    fn call<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(poll_fn(|cx| {
            let mut gate = self.0.lock();
            if gate.0 {
                return Poll::Ready(Ok(Value::Null));
            }
            gate.1.push(cx.waker().clone());
            Poll::Pending
        }))
    }
}

fn operator() -> Operator {
    Operator { token: None, name: "ops".into() }
}

struct Beside {
    rig: Rig,
    /// The world worker and the adapter worker.
    node: Node,
    near: Ops<TestPlane>,
    gate: Gate,
}

/// World 1, which is held, beside an adapter worker that looks into an empty queue.
fn beside(seed: u64, calls_max: usize) -> Beside {
    beside_with(seed, AdapterWorkerConfig { calls_max, ..AdapterWorkerConfig::default() })
}

fn beside_with(seed: u64, config: AdapterWorkerConfig) -> Beside {
    beside_as(with_worlds(seed, 1), Gate::default(), 101, config, Arc::default())
}

fn beside_as(rig: Rig, gate: Gate, worker: u64, config: AdapterWorkerConfig, attempts: Arc<Attempts>) -> Beside {
    let (node, calls) = (rig.executor.node(), Calls::default());
    let plane = rig.on(&node);
    let worlds = WorldWorker::start(
        plane.clone(),
        WorkerConfig::new(rig.universe, id(1)),
        calls.clone(),
        Arc::new(Metrics::default()),
    );
    let near = Ops::new(rig.plane.clone(), rig.universe, calls).beside(worlds.clone());
    let config = AdapterWorkerConfig { claim_ttl: Duration::from_secs(10), ..config };
    let adapters = adapter_worker(&plane, rig.universe, id(worker), config, plane.entropy.clone())
        .with_attempts(attempts)
        .serve(Arc::new(gate.clone()))
        .with_local_worlds(Arc::new(worlds));
    node.spawn(Box::pin(async move { drop(adapters.run(std::future::pending()).await) }));
    let beside = Beside { rig, node, near, gate };
    beside.tell("add n");
    beside.rig.executor.run_for(Duration::from_millis(50));
    beside
}

impl Beside {
    fn tell(&self, script: &str) {
        let (near, item) = (self.near.clone(), call(script).item);
        self.rig.executor.block_on(async move { near.enqueue_ingress(world_id(1), item, None).await.unwrap() });
    }

    fn effects(&self) -> Vec<QueuedEffect> {
        let ops = ops(&self.rig);
        self.rig
            .executor
            .block_on(async move { ops.list_effects(Some(world_id(1)), None, None, 10).await.unwrap().items })
    }

    fn stages(&self) -> Vec<EffectStage> {
        let mut stages: Vec<_> = self.effects().iter().map(|effect| effect.place.stage).collect();
        stages.sort();
        stages
    }

    /// How the receipts came in, in the order of the journal: past the inbox or through it.
    fn receipts(&self) -> Vec<(ReceiptStatus, bool)> {
        let rig = self.rig.clone();
        let journal = self.rig.executor.block_on(async move { rig.journal(world_id(1)).await.unwrap() });
        let receipt = |bytes: &bytes::Bytes| match cbor::decode::<Record>(bytes).unwrap().body {
            Body::Ingress(ingress) => match ingress.item.input {
                Input::Receipt(receipt) => Some((receipt.status, ingress.seq.is_direct())),
                _ => None,
            },
            _ => None,
        };
        journal.iter().filter_map(receipt).collect()
    }
}

#[test]
fn an_effect_and_its_answer_are_two_commits() {
    let beside = beside(1, 8);
    beside.gate.open();
    let before = beside.rig.plane.engine.counts().commits;
    beside.tell("emit e");
    beside.rig.executor.run_for(Duration::from_millis(50));
    assert_eq!(beside.receipts(), [(ReceiptStatus::Ok, true)]);
    assert_eq!(beside.rig.plane.engine.counts().commits - before, 2);
    assert!(beside.effects().is_empty(), "it left nothing behind");
    assert_eq!(ask(&beside.rig, world_id(1), "receipt/e"), "got");
    check(&beside.rig, world_id(1));
}

#[test]
fn what_finds_no_free_hand_waits_in_the_queue_and_comes_first() {
    let beside = beside(2, 1);
    beside.tell("emit a\nemit b\nemit c");
    assert_eq!(beside.stages(), [EffectStage::Pending, EffectStage::Pending, EffectStage::Claimed]);
    beside.gate.open();
    beside.rig.executor.run_for(Duration::from_secs(1));
    assert_eq!(beside.receipts().len(), 3);
    beside.tell("emit d");
    beside.rig.executor.run_for(Duration::from_millis(50));
    assert_eq!(beside.receipts().last(), Some(&(ReceiptStatus::Ok, true)), "slots are offered again");
    check(&beside.rig, world_id(1));
}

#[test]
fn an_answer_whose_claim_was_lost_is_left_out_of_the_turn_and_no_event_is() {
    let beside = beside(3, 8);
    beside.tell("emit lost\nemit kept");
    let (ops, effects) = (ops(&beside.rig), beside.effects());
    let lost = effects.iter().find(|effect| effect.item.label == "lost").unwrap().place;
    beside.rig.executor.block_on(async move { assert!(ops.cancel_effect(lost, "enough", operator()).await.unwrap()) });
    // Both calls end before their worker is notified, and both answers are handed to the world, with an event.
    beside.gate.open();
    beside.tell("add n");
    beside.rig.executor.run_for(Duration::from_secs(1));
    assert_eq!(count(&beside.rig, world_id(1), "n"), 2);
    let statuses: Vec<_> = beside.receipts().into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ReceiptStatus::Error, ReceiptStatus::Ok]);
    check(&beside.rig, world_id(1));
}

#[test]
fn an_operator_answers_in_place_of_the_slot_that_holds_the_effect() {
    let beside = beside(3, 8);
    beside.tell("emit by_hand\nemit by_slot");
    let (ops, effects) = (ops(&beside.rig), beside.effects());
    let item = &effects.iter().find(|effect| effect.item.label == "by_hand").unwrap().item;
    let (intent, name) = (item.intent, EffectName::Intent(item.intent));
    let answer =
        |payload: u8| HandAnswer { status: ReceiptStatus::Timeout, payload: vec![payload], operator: operator() };
    let (asking, given) = (ops.clone(), answer(0xf6));
    let answered = beside.rig.executor.block_on(async move { asking.answer_effect(name, None, given).await.unwrap() });
    assert_eq!(answered, AnsweredByHand::Delivered);
    beside.gate.open();
    beside.tell("add n");
    beside.rig.executor.run_for(Duration::from_secs(1));
    let statuses: Vec<_> = beside.receipts().into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ReceiptStatus::Timeout, ReceiptStatus::Ok], "the slot's own answer was refused");
    let of_hand = crate::rig::bodies(&beside.rig, world_id(1)).into_iter().find_map(|body| match body {
        Body::Ingress(ingress) => match ingress.item.input {
            Input::Receipt(receipt) if receipt.intent == intent => Some(receipt),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(of_hand.unwrap().operator, Some(operator()), "on record with who did it");
    check(&beside.rig, world_id(1));

    // The same answer again is the same; another one comes too late.
    let (again, other) = (answer(0xf6), answer(0xf5));
    let (again, other) = beside.rig.executor.block_on(async move {
        let again = ops.answer_effect(name, Some(world_id(1)), again).await.unwrap();
        (again, ops.answer_effect(name, Some(world_id(1)), other).await.unwrap_err())
    });
    assert_eq!((again, other.code()), (AnsweredByHand::Before, Code::ReceiptClosed));
}

#[test]
fn an_answer_whose_claim_was_reaped_is_left_out_of_the_turn_and_comes_from_another_attempt() {
    let beside = beside(3, 8);
    beside.tell("emit lost\nemit kept");
    let effects = beside.effects();
    let queue_shard = effects.iter().find(|effect| effect.item.label == "lost").unwrap().place.queue_shard;
    assert!(effects.iter().any(|effect| effect.place.queue_shard != queue_shard), "another seed is needed");
    let (universe, plane) = (beside.rig.universe, beside.rig.plane.clone());
    let reap = ReapEffects { universe, queue_shard, touched: false, items_max: 8, now_ns: u64::MAX / 2, gone: None };
    beside.rig.executor.block_on(async move { assert_eq!(plane.run(&reap).await.unwrap().output.retrying, 1) });
    beside.gate.open();
    beside.tell("add n");
    beside.rig.executor.run_for(Duration::from_secs(1));
    assert_eq!(count(&beside.rig, world_id(1), "n"), 2);
    assert_eq!(beside.receipts(), [(ReceiptStatus::Ok, false)], "no receipt of that turn was taken from a hand");
    let (ops, waiting) = (ops(&beside.rig), beside.effects().remove(0).place);
    beside.rig.executor.block_on(async move { assert!(ops.retry_effect(waiting).await.unwrap()) });
    beside.rig.executor.run_for(Duration::from_secs(1));
    assert_eq!(beside.receipts().len(), 2);
    check(&beside.rig, world_id(1));
}

#[test]
fn an_effect_whose_hands_died_is_carried_out_by_others() {
    let beside = beside(4, 8);
    beside.tell("emit e");
    assert_eq!(beside.stages(), [EffectStage::Claimed]);
    beside.node.crash();
    let second = crate::rig::start(&beside.rig, 2);
    beside.rig.executor.run_for(Duration::from_secs(35));
    assert_eq!(beside.receipts().len(), 1);
    check(&beside.rig, world_id(1));
    drop(second);
}

/// Its claim lasts ten seconds, and nobody else serves the kind.
#[test]
fn a_worker_that_starts_again_ends_the_claims_of_its_own_number_at_once_and_no_others() {
    // As which worker it comes back, whether nobody else can have its number, and whether the effect is answered at once.
    for (worker, is_alone, answered) in [(101, true, 1), (101, false, 0), (102, true, 0)] {
        let first = beside(4, 8);
        first.tell("emit e");
        assert_eq!(first.stages(), [EffectStage::Claimed]);
        first.node.crash();
        first.gate.open();
        let config = AdapterWorkerConfig { is_alone, ..AdapterWorkerConfig::default() };
        let Beside { rig, gate, .. } = first;
        let second = beside_as(rig, gate, worker, config, Arc::default());
        second.rig.executor.run_for(Duration::from_secs(4));
        assert_eq!(second.receipts().len(), answered, "{worker} {is_alone}");
        second.rig.executor.run_for(Duration::from_secs(31));
        assert_eq!(second.receipts().len(), 1);
        check(&second.rig, world_id(1));
    }
}

/// Whatever commit is applied without an answer, past the queue or through it: the claim that it made is used, and does not expire
/// first.
#[test]
fn an_effect_that_was_claimed_by_a_commit_of_unknown_fate_is_carried_out_at_once() {
    let through_the_queue = KindCap { calls_max: Some(8), rate: None };
    for cap in [KindCap::default(), through_the_queue] {
        for operation in 0..60 {
            let universe_caps = [("http".to_owned(), cap)].into();
            let beside = beside_with(9, AdapterWorkerConfig { universe_caps, ..AdapterWorkerConfig::default() });
            beside.gate.open();
            let (near, item) = (beside.near.clone(), call("emit e").item);
            beside.rig.plane.engine.arm(operation, Trouble::LoseAnswer);
            let sent = async move { drop(near.enqueue_ingress(world_id(1), item, None).await) };
            beside.rig.executor.block_on(sent); // it may hear that nothing is known
            beside.rig.executor.run_for(Duration::from_secs(4));
            assert_eq!(beside.receipts().len(), 1, "{cap:?} {operation}: {:?}", beside.stages());
            check(&beside.rig, world_id(1));
        }
    }
}

#[test]
fn a_process_begins_no_more_attempts_than_it_may() {
    let bounds = AttemptBounds { at_a_time_max: 100, per_second_max: 4 };
    let metrics = Arc::new(Metrics::default());
    let attempts = Arc::new(Attempts::new(bounds).with_metrics(metrics.clone()));
    let beside = beside_as(with_worlds(10, 1), Gate::default(), 101, AdapterWorkerConfig::default(), attempts);
    beside.gate.open();
    let script: Vec<_> = (0..10).map(|n| format!("emit e{n}")).collect();
    beside.tell(&script.join("\n"));
    let mut answered = Vec::new();
    for _ in 0..3 {
        beside.rig.executor.run_for(Duration::from_millis(900));
        answered.push(beside.receipts().len());
    }
    assert_eq!(answered, [7, 10, 10], "four at once, and then one in 250 ms");
    assert!(metrics.get(Metric::EffectsLimited) > 0);
    check(&beside.rig, world_id(1));
}

#[test]
fn a_process_makes_no_more_attempts_at_a_time_than_it_may() {
    let bounds = AttemptBounds { at_a_time_max: 2, per_second_max: 1_000 };
    let attempts = Arc::new(Attempts::new(bounds));
    let beside = beside_as(with_worlds(11, 1), Gate::default(), 101, AdapterWorkerConfig::default(), attempts);
    beside.tell("emit a\nemit b\nemit c\nemit d");
    beside.rig.executor.run_for(Duration::from_secs(1));
    let claimed = beside.stages().iter().filter(|stage| **stage == EffectStage::Claimed).count();
    assert_eq!(claimed, 2, "the others wait in the queue, and not under a claim");
    beside.gate.open();
    beside.rig.executor.run_for(Duration::from_secs(1));
    assert_eq!(beside.receipts().len(), 4);
    check(&beside.rig, world_id(1));
}

#[test]
fn a_cancelled_effect_is_not_answered_by_the_hand_that_holds_it() {
    let beside = beside(5, 8);
    beside.tell("emit e");
    let EffectItem { world, intent, .. } = beside.effects().remove(0).item;
    let status = || {
        let rig = beside.rig.clone();
        let dedupe = beside.rig.executor.block_on(async move {
            let mut tx = rig.plane.engine.begin().await.unwrap();
            effect_dedupe::read(&mut tx, rig.universe, world, intent).await.unwrap()
        });
        dedupe.map(|dedupe| dedupe.status)
    };
    assert_eq!(status(), None, "its claim says that it is pending");
    beside.tell("cancel e");
    assert_eq!(status(), Some(EffectStatus::Cancelled));
    beside.gate.open();
    beside.rig.executor.run_for(Duration::from_secs(15));
    assert_eq!(beside.receipts(), []);
    assert!(beside.effects().is_empty() && status().is_none());
}

#[test]
fn a_turn_that_is_made_again_finds_the_hand_that_it_had() {
    for seed in 0..20 {
        let beside = beside(seed, 1);
        beside.rig.plane.engine.remember();
        beside.tell("add n");
        // Its process believes that the inbox is empty when someone else was told that it is not: the first try is refused.
        let (near, far) = (beside.near.clone(), ops(&beside.rig));
        beside.rig.executor.block_on(async move {
            far.enqueue_ingress(world_id(1), call("add n").item, None).await.unwrap();
            near.enqueue_ingress(world_id(1), call("emit e").item, None).await.unwrap();
        });
        assert_eq!(beside.stages(), [EffectStage::Claimed]);
        assert_eq!(count(&beside.rig, world_id(1), "n"), 3);
    }
}

#[test]
fn a_limit_of_this_process_alone_leaves_the_hands_open_and_one_of_the_universe_does_not() {
    let universe = KindCap { calls_max: Some(8), rate: None };
    for (cap, stage) in [(KindCap::default(), EffectStage::Claimed), (universe, EffectStage::Pending)] {
        let universe_caps = [("http".to_owned(), cap)].into();
        let beside = beside_with(7, AdapterWorkerConfig { universe_caps, ..AdapterWorkerConfig::default() });
        beside.tell("emit e");
        assert_eq!(beside.stages(), [stage]);
    }
}

/// Else every look for dead claims would walk over all that was ever held.
#[test]
fn the_mark_of_the_reaper_follows_what_went_by_hand() {
    let beside = beside(8, 8);
    beside.gate.open();
    beside.tell("emit e");
    beside.rig.executor.run_for(Duration::from_secs(10));
    let rig = beside.rig.clone();
    let marks = beside.rig.executor.block_on(async move {
        let (mut tx, mut marks) = (rig.plane.engine.begin().await.unwrap(), 0);
        for shard in Shard::all() {
            let queue_shard = QueueShard::new("http", shard);
            let mark = low_water::read(&mut tx, rig.universe, Queue::EffectClaims, queue_shard).await.unwrap();
            marks += usize::from(mark.is_some());
        }
        marks
    });
    assert_eq!(marks, 1, "where one was held");
}
