//! The treatment of open effects, new effects, messages and timers by each fork policy.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_model::{
    Code, Coded, Height, Value, WorkerId, WorldId,
    answers::{Answers, ScriptedAnswer},
    cbor, limits,
    record::{Body, EffectPolicy, InboxItem, Ingress, Input, Payload, Receipt, ReceiptStatus, Record},
};
use mundi_runtime::{
    Plane, RuntimeError,
    calls::Calls,
    control::Ops,
    lifecycle::{ForkAt, ForkPolicy, Forked},
    metrics::Metrics,
    testing::{Rig, TestPlane, cell, script_event},
    worker::{WorkerConfig, WorldWorker},
    world::{CycleBudget, Progress, WorldHost},
};
use mundi_store::{
    keyspace::Shard,
    protocol::{Answer, ClaimEffects, KindCap, WokenBy, complete_effect},
    testing::{Trouble, world_id},
};
use std::{sync::Arc, time::Duration};

const PARENT: u64 = 1;
const OTHER: u64 = 9;

/// After nothing but its genesis.
const BORN: ForkAt = ForkAt::Height(Height::new(1));

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

fn ops(rig: &Rig) -> Ops<TestPlane> {
    Ops::new(rig.plane.clone(), rig.universe, Calls::default())
}

async fn host(rig: &Rig, world: u64) -> WorldHost<TestPlane> {
    rig.host(world_id(world), id(1)).await.unwrap()
}

async fn turns(host: &mut WorldHost<TestPlane>) -> Result<(), RuntimeError> {
    while host.turn(&CycleBudget::default()).await? != Progress::Idle {}
    Ok(())
}

/// Carries out everything of a kind that is queued; says for which worlds.
async fn carry_out(rig: &Rig, kind: &str) -> Vec<WorldId> {
    let mut worlds = Vec::new();
    loop {
        let claim = ClaimEffects {
            universe: rig.universe,
            kind: kind.into(),
            worker: id(5),
            token: rig.plane.random(),
            items_max: 1,
            ttl_ns: 30_000_000_000,
            now_ns: rig.plane.now_ns(),
            first: Shard::FIRST,
            cap: KindCap::default(),
        };
        let claims = rig.plane.run(&claim).await.unwrap().output;
        let Some(claimed) = claims.effects.first() else { return worlds };
        worlds.push(claimed.item.world);
        let payload = Payload::Inline(cbor::encode(&Value::Integer((worlds.len() as u64).into())));
        let answer = Answer::new(ReceiptStatus::Ok, payload, "outside");
        complete_effect(&rig.plane.engine, &*rig.plane.clock, &rig.plane.blobs, claimed, answer, WokenBy::ReadyQueue)
            .await
            .unwrap();
    }
}

async fn bodies(rig: &Rig, world: u64) -> Vec<Body> {
    let records = rig.journal(world_id(world)).await.unwrap();
    let mut own: Vec<Body> = records.iter().map(|bytes| cbor::decode::<Record>(bytes).unwrap().body).collect();
    if let Some(fork) = own.iter().rposition(|body| matches!(body, Body::ForkGenesis(_))) {
        own.drain(..fork);
    }
    own
}

/// The receipts in a world's own part of its journal.
async fn receipts(rig: &Rig, world: u64) -> Vec<Receipt> {
    let receipt = |body| match body {
        Body::Ingress(Ingress { item: InboxItem { input: Input::Receipt(receipt), .. }, .. }) => Some(receipt),
        _ => None,
    };
    bodies(rig, world).await.into_iter().filter_map(receipt).collect()
}

/// Receipts as texts: the adapter that answered, the status, and the code if there is one.
fn said(receipts: &[Receipt]) -> Vec<String> {
    let said = |receipt: &Receipt| {
        let Payload::Inline(bytes) = &receipt.payload else { panic!("inline") };
        let code = match cbor::decode::<Value>(bytes) {
            Ok(Value::Map(members)) => match members.get("code") {
                Some(Value::Text(code)) => format!(" {code}"),
                _ => String::new(),
            },
            _ => String::new(),
        };
        format!("{} {:?}{code}", receipt.adapter, receipt.status)
    };
    let mut all: Vec<String> = receipts.iter().map(said).collect();
    all.sort();
    all
}

async fn forked(rig: &Rig, child: u64, at: ForkAt, policy: impl Into<ForkPolicy>) -> Result<Forked, RuntimeError> {
    ops(rig).world_fork(world_id(PARENT), world_id(child), at, policy, 5).await
}

async fn verified(rig: &Rig, world: u64) {
    ops(rig).verify_world(world_id(world)).await.unwrap();
}

/// A parent with one effect that was open at the fork and answered since, one that is still open, and a timer. Says where the
/// fork begins.
async fn parent(rig: &Rig) -> ForkAt {
    rig.create(world_id(PARENT)).await.unwrap();
    rig.create(world_id(OTHER)).await.unwrap();
    let mut original = host(rig, PARENT).await;
    rig.tell(&mut original, &["emit early 1\ntimer wake 99"]).await.unwrap();
    let at = ForkAt::Height(original.head());
    assert_eq!(carry_out(rig, "http").await, [world_id(PARENT)]);
    turns(&mut original).await.unwrap();
    rig.tell(&mut original, &["emit a 1", "emit b 2"]).await.unwrap();
    carry_out(rig, "http").await;
    turns(&mut original).await.unwrap();
    at
}

#[test]
fn an_open_effect_becomes_what_the_policy_says() {
    for (policy, heard, repeated) in [
        (EffectPolicy::Suppress, "fork Error EFFECT_CANCELLED", 0),
        (EffectPolicy::Sandbox, "outside Ok", 0),
        (EffectPolicy::Recorded, "outside Ok", 0),
        (EffectPolicy::RecordedThenLive, "outside Ok", 0),
        (EffectPolicy::Live, "outside Ok", 1),
    ] {
        Rig::run(move |rig| async move {
            let at = parent(&rig).await;
            forked(&rig, 2, at, policy).await.unwrap();
            forked(&rig, 2, at, policy).await.unwrap(); // once more changes nothing
            let mut fork = host(&rig, 2).await;
            turns(&mut fork).await.unwrap();
            assert_eq!(carry_out(&rig, "http").await.len(), repeated, "{policy:?}");
            turns(&mut fork).await.unwrap();
            assert_eq!(said(&receipts(&rig, 2).await), [heard], "{policy:?}");
            assert_eq!(cell(&mut fork, "receipt/early").await.unwrap(), b"got", "the program hears of it");
            let timers = ops(&rig).list_timers(Some(world_id(2)), None, 10).await.unwrap().items;
            assert_eq!(timers.len(), 1, "its timer runs on under {policy:?}");
            assert_eq!(ops(&rig).describe_world(world_id(2)).await.unwrap().meta.policy, Some(policy));
            verified(&rig, 2).await;
        });
    }
}

#[test]
fn a_recorded_fork_stops_at_the_first_difference_and_says_where() {
    Rig::run(|rig| async move {
        let at = parent(&rig).await;
        forked(&rig, 2, at, EffectPolicy::Recorded).await.unwrap();
        let mut fork = host(&rig, 2).await;
        turns(&mut fork).await.unwrap();
        // All in one page of the inbox: what comes before the difference is taken.
        let scripts = ["emit a 1", "add n", "add n\nemit b other", "add n"].map(script_event);
        rig.send(world_id(2), scripts.into()).await.unwrap();
        let error = turns(&mut fork).await.unwrap_err();
        assert_eq!(error.code(), Code::ForkDiverged);
        let RuntimeError::ForkDiverged(diverged) = error else { panic!("{error}") };
        assert_eq!((diverged.kind.as_str(), diverged.label.as_str()), ("http", "b"));
        assert_eq!(diverged.expected.as_ref().map(|(_, kind)| kind.as_str()), Some("http"));
        let mut fork = host(&rig, 2).await;
        assert_eq!(diverged.height, Height::new(fork.head().get() + 1), "behind the record that would ask for it");
        assert_eq!(cell(&mut fork, "n").await.unwrap(), 1u64.to_be_bytes());
        assert!(carry_out(&rig, "http").await.is_empty());
        assert!(!bodies(&rig, 2).await.iter().any(|body| matches!(body, Body::RecordingEnded(_))));
        verified(&rig, 2).await;
    });
}

#[test]
fn a_worker_puts_a_recorded_fork_on_hold_and_it_goes_on_once_its_parent_did_the_same() {
    let rig = Rig::new(3);
    let preparing = rig.clone();
    rig.executor.block_on(async move {
        rig_with_recorded_fork(&preparing).await;
        preparing.send(world_id(2), vec![script_event("emit c 3")]).await.unwrap();
    });
    let node = rig.executor.node();
    let mut config = WorkerConfig::new(rig.universe, id(3));
    config.runners = 2;
    let _worker = WorldWorker::start(rig.on(&node), config, Calls::default(), Arc::new(Metrics::default()));
    rig.executor.run_for(Duration::from_secs(60));
    let hold = hold_of(&rig, 2).expect("on hold");
    assert_eq!((hold.code.as_str(), hold.failures), ("FORK_DIVERGED", 2));
    for part in ["at height", "`http`", "i_", "nothing more since the fork"] {
        assert!(hold.reason.contains(part), "{hold:?}");
    }
    // Its parent asks for the same, and the fork is released.
    let going_on = rig.clone();
    rig.executor.block_on(async move {
        going_on.send(world_id(PARENT), vec![script_event("emit c 3")]).await.unwrap();
    });
    rig.executor.run_for(Duration::from_secs(5));
    let carrying = rig.clone();
    let done = rig.executor.block_on(async move { carry_out(&carrying, "http").await });
    assert_eq!(done, [world_id(PARENT)]);
    rig.executor.run_for(Duration::from_secs(5));
    let resuming = rig.clone();
    rig.executor.block_on(async move { ops(&resuming).world_resume(world_id(2)).await.unwrap() });
    rig.executor.run_for(Duration::from_secs(60));
    assert_eq!(hold_of(&rig, 2), None);
    let looking = rig.clone();
    rig.executor.block_on(async move {
        assert_eq!(said(&receipts(&looking, 2).await), ["outside Ok"; 4]);
        assert!(carry_out(&looking, "http").await.is_empty(), "and nothing of it was carried out");
    });
}

/// A fork that has asked for all that its parent asked for since its birth.
async fn rig_with_recorded_fork(rig: &Rig) {
    parent(rig).await;
    forked(rig, 2, BORN, EffectPolicy::Recorded).await.unwrap();
    let mut fork = host(rig, 2).await;
    rig.tell(&mut fork, &["emit early 1", "emit a 1", "emit b 2"]).await.unwrap();
    assert_eq!(receipts(rig, 2).await.len(), 3);
}

fn hold_of(rig: &Rig, world: u64) -> Option<mundi_store::keyspace::world_meta::Hold> {
    let ops = ops(rig);
    rig.executor.block_on(async move { ops.describe_world(world_id(world)).await.unwrap().meta.hold })
}

fn answer(kind: &str, nth: Option<u64>, payload: &str) -> ScriptedAnswer {
    let payload = cbor::encode(&Value::Text(payload.to_owned()));
    ScriptedAnswer { kind: kind.to_owned(), nth, params: None, status: ReceiptStatus::Ok, payload }
}

#[test]
fn nothing_leaves_a_sandbox_and_everything_is_answered() {
    Rig::run(|rig| async move {
        let at = parent(&rig).await;
        forked(&rig, 2, at, EffectPolicy::Sandbox).await.unwrap();
        let mut fork = host(&rig, 2).await;
        let send = format!("send {} s hello", world_id(OTHER));
        // What the parent asked for, in another order, with something between; once more; and a message.
        rig.tell(&mut fork, &["emit b 2\nemit new 7", "emit a 1", "emit again 1", &send]).await.unwrap();
        let heard = said(&receipts(&rig, 2).await);
        let (outside, inside) = ("outside Ok", "sandbox Error EFFECT_SANDBOXED");
        assert_eq!(heard, [outside, outside, outside, inside, inside, inside], "early, b and a are the parent's");
        assert!(carry_out(&rig, "http").await.is_empty() && carry_out(&rig, "fabric.send").await.is_empty());
        let waiting = ops(&rig).describe_world(world_id(OTHER)).await.unwrap().inbox.items;
        assert_eq!(waiting, 0, "the other world got nothing");
        verified(&rig, 2).await;
        // A worker that restores it, from its journal or from a snapshot, knows what was asked before.
        let mut fork = host(&rig, 2).await;
        rig.tell(&mut fork, &["emit third 1"]).await.unwrap();
        fork.snapshot().await.unwrap();
        let mut fork = host(&rig, 2).await;
        rig.tell(&mut fork, &["emit fourth 2"]).await.unwrap();
        assert_eq!(said(&receipts(&rig, 2).await)[6..], [inside, inside], "the parent asked for each of them once");
        assert!(carry_out(&rig, "http").await.is_empty());
    });
}

#[test]
fn a_script_answers_what_the_parent_cannot() {
    Rig::run(|rig| async move {
        let at = parent(&rig).await;
        let answers =
            Answers::new(vec![answer("http", Some(2), "second"), answer("fabric.send", None, "any")]).unwrap();
        let answers = Some(ops(&rig).store_answers(&answers).await.unwrap());
        let policy = ForkPolicy { effects: Some(EffectPolicy::Sandbox), answers };
        forked(&rig, 2, at, policy).await.unwrap();
        let mut fork = host(&rig, 2).await;
        let send = format!("send {} s hello", world_id(OTHER));
        rig.tell(&mut fork, &["emit x 7", "emit y 8", &send, "emit z 9"]).await.unwrap();
        let (outside, inside, script) = ("outside Ok", "sandbox Error EFFECT_SANDBOXED", "script Ok");
        assert_eq!(said(&receipts(&rig, 2).await), [outside, inside, inside, script, script]);
        // A fork of it is one, with the same script; it can be nothing else.
        let grandchild = ops(&rig).world_fork(world_id(2), world_id(3), ForkAt::Head, ForkPolicy::default(), 6).await;
        assert_eq!(grandchild.unwrap().policy, EffectPolicy::Sandbox);
        let mut grandchild = host(&rig, 3).await;
        rig.tell(&mut grandchild, &[&send]).await.unwrap();
        assert_eq!(said(&receipts(&rig, 3).await), [script]);
        for policy in EffectPolicy::OFFERED.into_iter().filter(|policy| *policy != EffectPolicy::Sandbox) {
            let refused = ops(&rig).world_fork(world_id(2), world_id(4), ForkAt::Head, policy, 6).await;
            assert_eq!(refused.unwrap_err().code(), Code::ForkSandboxed);
        }
        assert!(carry_out(&rig, "http").await.is_empty() && carry_out(&rig, "fabric.send").await.is_empty());
        verified(&rig, 3).await;
    });
}

#[test]
fn a_fork_of_a_recorded_fork_is_recorded_unless_it_asks_for_something_else() {
    Rig::run(|rig| async move {
        let at = parent(&rig).await;
        forked(&rig, 2, at, EffectPolicy::Recorded).await.unwrap();
        let fork = |child, policy: ForkPolicy| {
            let ops = ops(&rig);
            async move { ops.world_fork(world_id(2), world_id(child), ForkAt::Head, policy, 6).await.unwrap().policy }
        };
        assert_eq!(fork(3, ForkPolicy::default()).await, EffectPolicy::Recorded);
        assert_eq!(fork(4, EffectPolicy::Suppress.into()).await, EffectPolicy::Suppress);
    });
}

/// A fork is made, and runs, and crashes at every await of both: each intent is answered once, and nothing is carried out.
#[test]
fn a_confined_fork_that_dies_at_any_await_is_answered_once_and_lets_nothing_out() {
    for policy in [EffectPolicy::Sandbox, EffectPolicy::Suppress, EffectPolicy::Recorded] {
        let prepare = || {
            let rig = Rig::new(1);
            let preparing = rig.clone();
            let at = rig.executor.block_on(async move { parent(&preparing).await });
            rig.plane.engine.revive();
            (rig, at)
        };
        let live = |rig: Rig, at: ForkAt| async move {
            forked(&rig, 2, at, policy).await?;
            if policy != EffectPolicy::Suppress {
                rig.send(world_id(2), ["emit a 1", "emit b 2"].map(script_event).into()).await?;
            }
            let fence = rig.acquire(world_id(2), id(1)).await?;
            let mut host = WorldHost::restore(rig.plane.clone(), fence).await?;
            turns(&mut host).await
        };
        let (whole, at) = prepare();
        let living = live(whole.clone(), at);
        whole.executor.block_on(living).unwrap();
        let operations = whole.plane.engine.operations();
        assert!(operations > 10);
        for trouble in mundi_store::testing::Trouble::ALL {
            for operation in 0..operations {
                let (rig, at) = prepare();
                rig.plane.engine.arm(operation, trouble);
                let dying = live(rig.clone(), at);
                let _ = rig.executor.block_on(dying);
                rig.plane.engine.revive();
                let finishing = rig.clone();
                rig.executor.block_on(async move {
                    forked(&finishing, 2, at, policy).await.unwrap();
                    let mut fork = host(&finishing, 2).await;
                    turns(&mut fork).await.unwrap();
                    assert!(carry_out(&finishing, "http").await.is_empty(), "{policy:?} {trouble:?} at {operation}");
                    let asked = bodies(&finishing, 2).await;
                    let asked = asked.iter().filter(|body| matches!(body, Body::Intent(_))).count();
                    let answered = receipts(&finishing, 2).await.len();
                    assert_eq!(answered, asked + 1, "{policy:?} {trouble:?} at {operation}");
                    verified(&finishing, 2).await;
                });
            }
        }
    }
}

/// More than one transaction publishes of what a fork inherits.
const MANY: usize = limits::INHERITED_ITEMS_MAX + 100;

/// Where the rest of what a fork inherits begins.
async fn inherits_from(rig: &Rig, child: u64) -> Option<u64> {
    ops(rig).describe_world(world_id(child)).await.unwrap().meta.inherits_from
}

/// The number of inherited effects of a fork that were answered or queued.
async fn inherited(rig: &Rig, child: u64) -> usize {
    let mut child_host = host(rig, child).await;
    turns(&mut child_host).await.unwrap();
    assert_eq!(inherits_from(rig, child).await, None);
    let (mut queued, mut after) = (0, None);
    loop {
        let page = ops(rig).list_effects(Some(world_id(child)), None, after, 500).await.unwrap();
        (queued, after) = (queued + page.items.len(), page.next);
        if after.is_none() {
            return queued + receipts(rig, child).await.len();
        }
    }
}

#[test]
fn what_is_inherited_beyond_one_transaction_is_published_by_the_creator_or_by_the_holder() {
    for policy in [EffectPolicy::Suppress, EffectPolicy::Live, EffectPolicy::Sandbox] {
        Rig::run(move |rig| async move {
            rig.create(world_id(PARENT)).await.unwrap();
            let mut original = host(&rig, PARENT).await;
            for first in (0..MANY).step_by(50) {
                let script: Vec<String> = (first..first + 50).map(|n| format!("emit label{n} {n}")).collect();
                rig.tell(&mut original, &[&script.join("\n")]).await.unwrap();
            }
            let engine = &rig.plane.engine;
            engine.revive();
            forked(&rig, 2, ForkAt::Head, policy).await.unwrap();
            let operations = engine.operations();
            engine.arm(operations - 1, Trouble::DieBefore);
            forked(&rig, 3, ForkAt::Head, policy).await.unwrap_err();
            engine.revive();
            assert_eq!(inherits_from(&rig, 2).await, None);
            assert!(inherits_from(&rig, 3).await.is_some(), "its creator died before the last part");
            assert_eq!((inherited(&rig, 2).await, inherited(&rig, 3).await), (MANY, MANY), "{policy:?}");
            verified(&rig, 3).await;
        });
    }
}

/// A sandbox that rested for a while does not read the records of its parent again that it had read before.
#[test]
fn a_sandbox_that_comes_back_reads_only_what_its_parent_added() {
    /// The records of a turn of the parent are one item.
    const TURNS: u64 = 100;
    let rig = Rig::new(8);
    let making = rig.clone();
    rig.executor.block_on(async move {
        making.create(world_id(PARENT)).await.unwrap();
        forked(&making, 2, BORN, EffectPolicy::Sandbox).await.unwrap();
        let mut original = host(&making, PARENT).await;
        for _ in 0..TURNS {
            making.send(world_id(PARENT), vec![script_event("add n"); 3]).await.unwrap();
            turns(&mut original).await.unwrap();
        }
    });
    let node = rig.executor.node();
    let config = WorkerConfig { idle_release_ns: 1_000_000_000, ..WorkerConfig::new(rig.universe, id(2)) };
    let worker = WorldWorker::start(rig.on(&node), config, Calls::default(), Arc::new(Metrics::default()));
    let items_of_cycle = || {
        let before = rig.plane.engine.counts().items;
        let sending = rig.clone();
        rig.executor
            .block_on(async move { sending.send(world_id(2), vec![script_event("emit some 1")]).await.unwrap() });
        rig.executor.run_for(Duration::from_millis(500));
        assert!(worker.holds(world_id(2)));
        let read = rig.plane.engine.counts().items - before;
        rig.executor.run_for(Duration::from_secs(10));
        assert!(!worker.holds(world_id(2)), "it is released");
        read
    };
    let (first, second) = (items_of_cycle(), items_of_cycle());
    assert!(first > TURNS && second < TURNS / 2, "{first}, then {second}");
    let looking = rig.clone();
    let heard = rig.executor.block_on(async move { said(&receipts(&looking, 2).await) });
    assert_eq!(heard, ["sandbox Error EFFECT_SANDBOXED"; 2]);
}
