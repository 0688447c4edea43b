//! A world whose manifest holds it at a failed input stops there, and continues when an operator retries or skips it. Callers hear of
//! failures at once, whichever step of theirs fails. What programs log is kept with the turn.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_model::{
    CallId, Code, Coded, Hash, Height, InboxSeq, Value, WorkerId, cbor,
    record::{Body, EffectPolicy, InboxItem, Input, Operator, Origin, Receipt, ReceiptStatus, Record, ReplyOutcome},
};
use mundi_runtime::{
    Plane, RuntimeError,
    calls::Calls,
    control::{EffectName, HandAnswer, Ops},
    lifecycle::{ForkAt, NewWorld, create},
    metrics::{Metric, Metrics},
    testing::{Node, Rig, TestPlane, holding_manifests, mended_manifest, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    blob::Blobs,
    keyspace::world_meta::Hold,
    protocol::{NewItem, WorldFilter},
    testing::world_id,
};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

struct Stage {
    rig: Rig,
    holding: Hash,
    mended: Hash,
}

struct Running {
    node: Node,
    worker: WorldWorker<TestPlane>,
    calls: Calls,
}

impl Stage {
    fn new() -> Self {
        let rig = Rig::new(11);
        let setting = rig.clone();
        let [holding, mended] = rig.executor.block_on(async move {
            let (plane, universe) = (&setting.plane, setting.universe);
            plane.blobs().put(universe, Bytes::from(mended_manifest().1), &[]).await.unwrap();
            let mut stored = Vec::new();
            for manifest in holding_manifests() {
                let manifest = plane.blobs().put(universe, Bytes::from(manifest.to_bytes()), &[]).await.unwrap();
                ops(&setting).register_manifest(manifest).await.unwrap();
                stored.push(manifest);
            }
            [stored[0], stored[1]]
        });
        Self { rig, holding, mended }
    }

    fn create(&self, world: u64, manifest: Hash) {
        let (rig, universe) = (self.rig.clone(), self.rig.universe);
        self.rig.executor.block_on(async move {
            let new = NewWorld { universe, world: world_id(world), manifest, inbox: None, now_ns: 1_000 };
            create(&rig.plane, new).await.unwrap();
        });
    }

    fn start(&self, n: u64) -> Running {
        let (node, calls) = (self.rig.executor.node(), Calls::default());
        let config = WorkerConfig::new(self.rig.universe, WorkerId::new(n).unwrap());
        let worker = WorldWorker::start(self.rig.on(&node), config, calls.clone(), Arc::new(Metrics::default()));
        Running { node, worker, calls }
    }

    fn send(&self, world: u64, scripts: &[&str]) -> Vec<InboxSeq> {
        let item = |script: &&str| {
            let origin = Origin { wants_reply: true, ..Origin::new(0) };
            NewItem { item: InboxItem { input: script_event(script), origin }, dedupe: None }
        };
        let (rig, items) = (self.rig.clone(), scripts.iter().map(item).collect());
        let placed = self.rig.executor.block_on(async move { rig.enqueue(world_id(world), items).await.unwrap() });
        placed.into_iter().map(|placed| placed.seq).collect()
    }

    fn ask<V: Send + 'static, F: Future<Output = V> + Send + 'static>(
        &self,
        ask: impl FnOnce(Ops<TestPlane>) -> F,
    ) -> V {
        self.rig.executor.block_on(ask(ops(&self.rig)))
    }

    fn hold_of(&self, world: u64) -> Option<Hold> {
        self.ask(|ops| async move { ops.describe_world(world_id(world)).await.unwrap().meta.hold })
    }

    /// As it is noted beside the world, which must be what its journal says.
    fn is_paused(&self, world: u64) -> Option<bool> {
        let (noted, on_record) = self.ask(|ops| async move {
            let world = world_id(world);
            (ops.describe_world(world).await.unwrap().meta.paused, ops.is_paused_on_record(world).await.unwrap())
        });
        assert_eq!(noted, Some(on_record), "world {world}");
        noted
    }

    fn count(&self, world: u64) -> u64 {
        let key = cbor::encode(&Value::Text("n".into()));
        let found = self.ask(|ops| async move { ops.world_query(world_id(world), "cell", &key, None).await.unwrap() });
        found.try_into().map_or(0, u64::from_be_bytes)
    }

    fn journal(&self, world: u64) -> Vec<Body> {
        let rig = self.rig.clone();
        let records = self.rig.executor.block_on(async move { rig.journal(world_id(world)).await.unwrap() });
        records.iter().map(|bytes| cbor::decode::<Record>(bytes).unwrap().body).collect()
    }

    fn verify(&self, world: u64) {
        self.ask(|ops| async move { ops.verify_world(world_id(world)).await.map(drop).unwrap() });
    }

    fn reply(&self, world: u64, seq: InboxSeq) -> Result<ReplyOutcome, RuntimeError> {
        self.ask(|ops| async move { ops.reply(world_id(world), CallId::from(seq), SECOND).await })
    }

    /// A world that stands at the second of its three inputs.
    fn held(&self) -> (Running, Vec<InboxSeq>) {
        self.create(0, self.holding);
        let seqs = self.send(0, &["add n\nreply one", "add n\nfail", "add n\nreply three"]);
        let running = self.start(1);
        self.rig.executor.run_for(MINUTE);
        (running, seqs)
    }
}

fn ops(rig: &Rig) -> Ops<TestPlane> {
    Ops::new(rig.plane.clone(), rig.universe, Calls::default())
}

fn operator() -> Operator {
    Operator { token: None, name: "ann".to_owned() }
}

fn failed(reply: Result<ReplyOutcome, RuntimeError>) -> (String, Option<Height>) {
    match reply {
        Ok(ReplyOutcome::Failed(code, _, height)) => (code, height),
        other => panic!("{other:?}"),
    }
}

/// The operator that is journaled for each command, by the command's name.
fn commands(bodies: &[Body]) -> Vec<(String, Option<String>)> {
    let command = |body: &Body| match body {
        Body::Ingress(ingress) => match &ingress.item.input {
            Input::Control { command, payload: mundi_model::record::Payload::Inline(bytes) } => {
                let by = cbor::decode::<mundi_kernel::Repair>(bytes).ok().map(|repair| repair.operator.name);
                Some((command.clone(), by))
            }
            _ => None,
        },
        _ => None,
    };
    bodies.iter().filter_map(command).collect()
}

fn codes(bodies: &[Body]) -> Vec<String> {
    let code = |body: &'_ Body| match body {
        Body::StepFailed(failed) => Some(failed.code.clone()),
        _ => None,
    };
    bodies.iter().filter_map(code).collect()
}

#[test]
fn a_failed_input_is_not_consumed_and_its_caller_hears_why() {
    let stage = Stage::new();
    let (running, seqs) = stage.held();
    let hold = stage.hold_of(0).expect("on hold");
    assert_eq!((hold.code.as_str(), hold.seq, hold.failures), ("PROGRAM_FAILED", Some(seqs[1]), 1));
    assert_eq!(hold.failed_input.as_deref(), Some("event script"));
    assert_eq!(stage.count(0), 1);
    assert!(codes(&stage.journal(0)).is_empty(), "nothing of the failed step is on record");
    assert!(!running.worker.holds(world_id(0)));
    let (code, height) = failed(stage.reply(0, seqs[1]));
    assert!(code == "PROGRAM_FAILED" && height.is_some());
    assert_eq!(stage.reply(0, seqs[2]).unwrap_err().code(), Code::CallTimeout, "it waits behind the failed one");
    let listed = stage.ask(|ops| async move {
        let filter = WorldFilter { failed: Some(true), ..WorldFilter::default() };
        ops.list_worlds(filter, None, 10).await.unwrap().items
    });
    let failure = listed[0].failure.clone().unwrap();
    assert_eq!((listed.len(), failure.count, failure.code.as_str()), (1, 1, "PROGRAM_FAILED"));
    assert_eq!(running.worker.metrics().get(Metric::StepFailures), 1);
    stage.verify(0);
}

#[test]
fn a_skip_passes_the_failed_input_and_no_other_and_is_on_record() {
    let stage = Stage::new();
    let (_running, seqs) = stage.held();
    stage.ask(|ops| async move { ops.world_skip(world_id(0), operator()).await.unwrap() });
    stage.rig.executor.run_for(MINUTE);
    assert_eq!((stage.hold_of(0), stage.count(0)), (None, 2));
    let bodies = stage.journal(0);
    assert_eq!(codes(&bodies), ["STEP_SKIPPED"]);
    assert_eq!(commands(&bodies), [("skip".to_owned(), Some("ann".to_owned()))]);
    assert_eq!(failed(stage.reply(0, seqs[1])).0, "STEP_SKIPPED");
    assert!(matches!(stage.reply(0, seqs[2]), Ok(ReplyOutcome::Ok(_))));
    let again = stage.ask(|ops| async move { ops.world_skip(world_id(0), operator()).await.unwrap_err().code() });
    assert_eq!(again, Code::WorldNotOnHold);
    let failure = stage.ask(|ops| async move { ops.describe_world(world_id(0)).await.unwrap().failure });
    assert_eq!(failure, None, "somebody dealt with it");
    stage.verify(0);
}

#[test]
fn a_retry_is_held_again_until_an_upgrade_mends_the_program() {
    let stage = Stage::new();
    let (_running, seqs) = stage.held();
    stage.ask(|ops| async move { ops.world_retry(world_id(0), operator()).await.unwrap() });
    stage.rig.executor.run_for(MINUTE);
    assert_eq!(stage.hold_of(0).unwrap().seq, Some(seqs[1]));
    let mended = stage.mended;
    stage.ask(|ops| async move { ops.world_upgrade(world_id(0), mended, true).await.unwrap() });
    stage.rig.executor.run_for(MINUTE);
    let hold = stage.hold_of(0).expect("an upgrade alone takes nothing again");
    assert_eq!((hold.code.as_str(), stage.count(0)), ("PROGRAM_FAILED", 1));
    stage.ask(|ops| async move { ops.world_retry(world_id(0), operator()).await.unwrap() });
    stage.rig.executor.run_for(MINUTE);
    assert_eq!((stage.hold_of(0), stage.count(0)), (None, 3), "every input was taken, once and in order");
    assert!(matches!(stage.reply(0, seqs[2]), Ok(ReplyOutcome::Ok(_))));
    let names: Vec<String> = commands(&stage.journal(0)).into_iter().map(|(command, _)| command).collect();
    assert_eq!(names, ["retry", "upgrade", "retry"]);
    stage.verify(0);
}

/// The command reaches the worker before the hold is released: it finds the world on hold once more, and must not wait for the next look
/// at such worlds, which is a lease's time away.
#[test]
fn a_skip_takes_effect_at_once() {
    let stage = Stage::new();
    let (running, seqs) = stage.held();
    stage.rig.executor.run_for(SECOND); // the worker has looked, and found it on hold
    let beside = ops(&stage.rig).beside(running.worker.clone());
    stage.rig.executor.block_on(async move { beside.world_skip(world_id(0), operator()).await.unwrap() });
    stage.rig.executor.run_for(SECOND);
    assert_eq!((stage.hold_of(0), stage.count(0)), (None, 2), "skipped one of {seqs:?}, and took the others");
}

/// Wherever a worker crashes, the input stays until someone says what becomes of it, and then exactly that happens.
#[test]
fn repairs_survive_a_crash_at_any_time() {
    for skip in [true, false] {
        for step in 0..40 {
            let stage = Stage::new();
            stage.create(0, stage.holding);
            let seqs = stage.send(0, &["add n", "add n\nfail", "add n"]);
            let first = stage.start(1);
            stage.rig.executor.run_for(Duration::from_micros(step * 50));
            first.node.crash();
            let second = stage.start(2);
            stage.rig.executor.run_for(MINUTE);
            assert_eq!(stage.hold_of(0).and_then(|hold| hold.seq), Some(seqs[1]), "step {step}");
            let mended = stage.mended;
            stage.ask(|ops| async move {
                if skip {
                    return ops.world_skip(world_id(0), operator()).await.map(drop).unwrap();
                }
                ops.world_upgrade(world_id(0), mended, true).await.unwrap();
            });
            stage.rig.executor.run_for(Duration::from_micros(step * 50));
            second.node.crash();
            let _third = stage.start(3);
            stage.rig.executor.run_for(MINUTE);
            if !skip {
                stage.ask(|ops| async move { ops.world_retry(world_id(0), operator()).await.map(drop).unwrap() });
                stage.rig.executor.run_for(MINUTE);
            }
            let expected = if skip { 2 } else { 3 };
            assert_eq!((stage.hold_of(0), stage.count(0)), (None, expected), "skip {skip}, step {step}");
            assert_eq!(codes(&stage.journal(0)).len(), usize::from(skip), "skip {skip}, step {step}");
            stage.verify(0);
        }
    }
}

#[test]
fn a_caller_hears_at_once_when_the_step_of_a_receipt_fails() {
    let stage = Stage::new();
    stage.create(0, stage.rig.manifest);
    let running = stage.start(1);
    let seqs = stage.send(0, &["add n\nemit bad", "emit good\nreply early"]);
    stage.rig.executor.run_for(SECOND);
    assert_eq!(stage.reply(0, seqs[0]).unwrap_err().code(), Code::CallTimeout);
    stage.ask(|ops| async move {
        for effect in ops.list_effects(Some(world_id(0)), None, None, 10).await.unwrap().items {
            let answer =
                HandAnswer { status: ReceiptStatus::Ok, payload: cbor::encode(&Value::Null), operator: operator() };
            ops.answer_effect(EffectName::Intent(effect.item.intent), Some(world_id(0)), answer).await.unwrap();
        }
    });
    stage.rig.executor.run_for(SECOND);
    let (code, height) = failed(stage.reply(0, seqs[0]));
    let bodies = stage.journal(0);
    let at = bodies.iter().position(|body| {
        matches!(body, Body::Ingress(it) if matches!(&it.item.input,
        Input::Receipt(Receipt { kind, .. }) if kind == "http") && it.item.origin.call == Some(seqs[0]))
    });
    assert_eq!((code.as_str(), height.map(Height::get)), ("PROGRAM_FAILED", at.map(|at| at as u64)));
    assert!(matches!(stage.reply(0, seqs[1]), Ok(ReplyOutcome::Ok(_))), "a reply that was given stays");
    assert_eq!(running.worker.metrics().failures().len(), 1);
    drop(running.calls);
    stage.verify(0);
}

#[test]
fn a_fork_runs_other_code_from_its_first_input_on() {
    let stage = Stage::new();
    let (_running, _) = stage.held();
    let mended = stage.mended;
    let forked = stage.ask(|ops| async move {
        let fork = |child| {
            ops.world_fork_on(Some(mended), world_id(0), world_id(child), ForkAt::Head, EffectPolicy::Suppress, 9)
        };
        let first = fork(7).await.unwrap();
        assert_eq!(fork(7).await.unwrap().forked_at, first.forked_at, "asked again, it answers the same");
        first
    });
    stage.send(7, &["add n\nfail"]);
    stage.rig.executor.run_for(MINUTE);
    assert_eq!((stage.count(7), stage.hold_of(7)), (2, None), "what fails there does not fail here");
    let bodies = stage.journal(7);
    let first = usize::try_from(forked.forked_at.get()).unwrap();
    assert!(matches!(&bodies[first], Body::ForkGenesis(genesis) if genesis.manifest == Some(mended)));
    let changed = bodies.iter().position(|body| matches!(body, Body::ManifestChange(change) if change.to == mended));
    assert_eq!(changed, Some(first + 2), "the command comes before everything else");
    stage.verify(7);
    assert!(stage.hold_of(0).is_some(), "the parent was only read");
}

#[test]
fn a_fork_of_a_world_that_stands_at_a_failed_input_is_not_paused() {
    let stage = Stage::new();
    let (_running, _) = stage.held();
    let paused = stage.ask(|ops| async move {
        let policy = EffectPolicy::Suppress;
        ops.world_fork(world_id(0), world_id(7), ForkAt::Head, policy, 9).await.unwrap();
        let (parent, child) = (ops.is_paused_on_record(world_id(0)), ops.is_paused_on_record(world_id(7)));
        (parent.await.unwrap(), child.await.unwrap())
    });
    assert_eq!(paused, (true, false));
    assert_eq!([0, 7].map(|world| stage.is_paused(world)), [Some(true), Some(false)]);
    stage.send(7, &["add n"]);
    stage.rig.executor.run_for(MINUTE);
    assert_eq!(stage.count(7), 2, "it goes on");
}

/// So that a list of worlds need not read their journals.
#[test]
fn whether_a_world_is_paused_stands_beside_it() {
    let stage = Stage::new();
    let (_running, _) = stage.held();
    stage.create(1, stage.holding);
    assert_eq!([0, 1].map(|world| stage.is_paused(world)), [Some(true), Some(false)], "held at an input; just made");
    stage.ask(|ops| async move {
        ops.world_pause(world_id(1)).await.unwrap();
        ops.world_skip(world_id(0), operator()).await.unwrap();
    });
    stage.rig.executor.run_for(MINUTE);
    assert_eq!([0, 1].map(|world| stage.is_paused(world)), [Some(false), Some(true)]);
    stage.ask(|ops| async move {
        ops.world_fork(world_id(1), world_id(2), ForkAt::Head, EffectPolicy::Suppress, 9).await.unwrap();
        ops.world_resume(world_id(1)).await.unwrap();
    });
    stage.rig.executor.run_for(MINUTE);
    assert_eq!([1, 2].map(|world| stage.is_paused(world)), [Some(false), Some(true)], "the fork is as its parent was");
}

#[test]
fn what_a_program_logs_is_kept_with_its_turn_and_within_bounds() {
    let stage = Stage::new();
    stage.create(0, stage.holding);
    let first = stage.start(1);
    stage.send(0, &["log one\nadd n", "log two\nlog three"]);
    stage.rig.executor.run_for(SECOND);
    first.node.crash();
    let _second = stage.start(2);
    stage.send(0, &["log four", "log five\nfail"]);
    stage.rig.executor.run_for(MINUTE);
    let lines = stage.ask(|ops| async move {
        let kept = ops.world_logs(world_id(0)).await.unwrap();
        kept.lines().map(|(number, line)| (number, line.text.clone(), line.height)).collect::<Vec<_>>()
    });
    let texts: Vec<&str> = lines.iter().map(|(_, text, _)| text.as_str()).collect();
    assert_eq!(
        texts,
        ["one", "two", "three", "four", "five"],
        "each once, the failed step's too; a replay logs nothing"
    );
    assert!(lines.iter().map(|(number, ..)| *number).eq(0..5));
    let bodies = stage.journal(0);
    let logged_at =
        |at: Height| matches!(&bodies[usize::try_from(at.get()).unwrap()], Body::Ingress(_) | Body::Held(_));
    assert!(lines.iter().all(|(_, _, height)| logged_at(*height)));
}
