//! Children: a parent's program spawns them, executors run them, crash, and come back; forks have none of their parent's.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use futures_util::future::BoxFuture;
use mundi_engine::{Engine, Memory, Transaction};
use mundi_kernel::{
    Registry,
    children::Lifecycle,
    manifest::EffectRule,
    program::{Cause, Event, Failure, Host, Program, View},
};
use mundi_model::{
    Code, Coded, Hash, Value, WorkerId, WorldId, cbor,
    child::{CHILD_SPAWN, ChildEvent, ChildId, ChildOutcome, Lane, Phase, Spend, spec_params},
    json::to_canonical,
    record::{EffectPolicy, Operator},
};
use mundi_runtime::{
    RuntimeError, Services, Spawn,
    calls::Calls,
    children::{ChildExecutor, ChildExecutorConfig, ChildKind, ChildReport, ChildRun},
    control::{ClientRequest, Ops},
    lifecycle::{ForkAt, ForkPolicy, NewWorld, create, register_trusted},
    metrics::Metrics,
    shell::{Shell, ShellConfig},
    testing::{Node, Rig, Script, TestPlane, manifest, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    Clock,
    blob::Blobs,
    keyspace::{child_event, child_order, child_state},
    protocol::{CancelOutcome, ChildClaim, ChildFinish},
    testing::{Probe, Trouble, world_id},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

const MINUTE: Duration = Duration::from_secs(60);

type TestEngine = Probe<Memory>;

/// Spawns a child per line `child LABEL KIND`, perhaps with the tokens that it may spend, and notes in a cell what becomes of it.
struct Parent;

impl Program for Parent {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        if let Some(child) = event.cause.child() {
            let key = format!("child/{}", child.label);
            let before = host.get(&key)?.unwrap_or_default();
            let what = match child.lifecycle {
                Lifecycle::Started => "started".to_owned(),
                Lifecycle::Passed => format!("passed {:?}", child.result()),
                Lifecycle::Failed | Lifecycle::Cancelled => {
                    format!("{:?} {}", child.lifecycle, child.code().unwrap_or_default())
                }
            };
            return Ok(host.put(&key, &[&before[..], b";", what.as_bytes()].concat())?);
        }
        let Cause::Event { value, .. } = event.cause else { return Ok(()) };
        let Ok(Value::Text(text)) = cbor::decode(value) else { return Ok(()) };
        for line in text.lines() {
            if let ["child", label, kind, ref tokens @ ..] = line.split(' ').collect::<Vec<_>>()[..] {
                let mut budget = Spend::default();
                budget.set(Lane::Tokens, tokens.first().and_then(|tokens| tokens.parse().ok()));
                let params = spec_params(kind, &Value::Text(label.to_owned()), &budget);
                host.spawn_child(&params, label)?;
            }
            if let Some(label) = line.strip_prefix("withdraw ") {
                host.cancel(label)?;
            }
        }
        Ok(())
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        Script.query(view, name, params)
    }
}

/// Runs for a second, and counts how often each child ran and how many at a time.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    runs: BTreeMap<ChildId, u32>,
    now: usize,
    most: usize,
}

struct Slow {
    counting: Counting,
    clock: Arc<dyn Clock>,
}

struct Leaving(Counting);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.0.lock().now -= 1;
    }
}

impl ChildKind for Slow {
    fn kind(&self) -> &str {
        "slow"
    }

    fn check(&self, params: &Value) -> Result<(), String> {
        if *params == Value::Text("bad".into()) { Err("bad parameters".into()) } else { Ok(()) }
    }

    fn run<'a>(&'a self, run: &'a ChildRun) -> BoxFuture<'a, ChildReport> {
        Box::pin(async move {
            {
                let mut counts = self.counting.0.lock();
                *counts.runs.entry(run.child).or_default() += 1;
                counts.now += 1;
                counts.most = counts.most.max(counts.now);
            }
            let _leaving = Leaving(self.counting.clone());
            let secs = if run.params == Value::Text("long".into()) { 3_600 } else { 1 };
            self.clock.sleep(Duration::from_secs(secs)).await;
            let finish = match &run.params {
                Value::Text(label) if label.starts_with("fail") => {
                    ChildFinish::Failed { code: Code::UrmChildFailed, reason: "as it was told".into() }
                }
                params => ChildFinish::Passed(params.clone()),
            };
            ChildReport { finish, spent: Spend::default().with(Lane::Tokens, 10) }
        })
    }
}

/// A process: its worlds, its children.
struct Process {
    node: Node,
    metrics: Arc<Metrics>,
    ops: Ops<TestPlane>,
}

struct House {
    rig: Rig,
    counting: Counting,
    manifest: Hash,
}

impl House {
    fn new() -> Self {
        Self::of_seed(1)
    }

    /// The seed decides in which order tasks run.
    fn of_seed(seed: u64) -> Self {
        let rig = Rig::new(seed);
        let mut children = manifest();
        for kind in [CHILD_SPAWN, "child.cancel"] {
            children.effects.insert(kind.into(), EffectRule::default());
        }
        let bytes = children.to_bytes();
        let house = Self { manifest: Hash::of(&bytes), counting: Counting::default(), rig };
        let setting = house.rig.clone();
        house.rig.executor.block_on(async move {
            let manifest = setting.plane.blobs.put(setting.universe, Bytes::from(bytes), &[]).await.unwrap();
            register_trusted(&setting.plane, setting.universe, &[manifest]).await.unwrap();
        });
        house
    }

    fn create(&self, world: u64) -> WorldId {
        let (plane, universe, manifest) = (self.rig.plane.clone(), self.rig.universe, self.manifest);
        let new = NewWorld { universe, world: world_id(world), manifest, inbox: None, now_ns: 1_000 };
        self.rig.executor.block_on(async move { create(&plane, new).await }).unwrap();
        world_id(world)
    }

    fn start(&self, worker: u64) -> Process {
        self.rig.plane.engine.revive();
        let node = self.rig.executor.node();
        let mut registry = Registry::new();
        registry.register_native("script", 1, Parent);
        let plane = Services { registry: Arc::new(registry), ..self.rig.on(&node) };
        let (calls, worker) = (Calls::default(), WorkerId::new(worker).unwrap());
        let config = WorkerConfig::new(self.rig.universe, worker);
        let worlds = WorldWorker::start(plane.clone(), config, calls.clone(), Arc::new(Metrics::default()));
        let slow = Slow { counting: self.counting.clone(), clock: plane.clock.clone() };
        let config = ChildExecutorConfig { is_alone: true, ..ChildExecutorConfig::default() };
        let metrics = Arc::new(Metrics::default());
        let executor = ChildExecutor::new(plane.clone(), self.rig.universe, worker, config).serve(Arc::new(slow));
        let executor = executor.with_metrics(metrics.clone());
        let (booting, universe) = (plane.clone(), self.rig.universe);
        node.spawn(Box::pin(async move {
            if executor.recover_earlier().await.is_ok() {
                let config = ShellConfig { bootstrap: true, ..ShellConfig::new(universe, worker) };
                Shell::launch(booting, config, executor).join().await;
            }
        }));
        Process { node, metrics, ops: Ops::new(plane, self.rig.universe, calls).beside(worlds) }
    }

    fn send(&self, world: WorldId, script: &str) {
        let (rig, event) = (self.rig.clone(), script_event(script));
        self.rig.executor.block_on(async move { rig.send(world, vec![event]).await }).unwrap();
    }

    fn run(&self, time: Duration) {
        self.rig.executor.run_for(time);
    }

    fn ask<V: Send + 'static, F: Future<Output = V> + Send + 'static>(
        &self,
        process: &Process,
        ask: impl FnOnce(Ops<TestPlane>) -> F,
    ) -> V {
        self.rig.executor.block_on(ask(process.ops.clone()))
    }

    fn cell(&self, process: &Process, world: WorldId, key: &str) -> String {
        let params = cbor::encode(&Value::Text(key.into()));
        let answer = self.ask(process, move |ops| async move { ops.world_query(world, "cell", &params, None).await });
        String::from_utf8(answer.unwrap()).unwrap()
    }

    /// The code under which a world is on hold.
    fn held(&self, process: &Process, world: WorldId) -> Option<String> {
        let described = self.ask(process, move |ops| async move { ops.describe_world(world).await }).unwrap();
        described.meta.hold.map(|hold| hold.code)
    }

    /// Changes what is stored, past every protocol.
    fn tamper(&self, change: impl FnOnce(&mut <TestEngine as Engine>::Transaction) + Send + 'static) {
        let engine = self.rig.plane.engine.clone();
        let done = self.rig.executor.block_on(async move {
            let mut tx = engine.begin().await?;
            change(&mut tx);
            tx.commit().await.map(drop).map_err(Box::<dyn std::error::Error + Send + Sync>::from)
        });
        done.unwrap();
    }

    fn children(&self, process: &Process, world: WorldId) -> Vec<mundi_model::child::DispatchToken> {
        self.ask(process, move |ops| async move { ops.children(world, None, 1_000).await }).unwrap()
    }
}

#[test]
fn a_program_spawns_children_two_run_at_a_time_and_it_learns_how_each_ends() {
    let house = House::new();
    let world = house.create(1);
    let process = house.start(1);
    house.send(world, "child a slow\nchild b slow\nchild fail slow\nchild bad slow\nchild x unknown");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, world, "child/a"), ";started;passed Some(Text(\"a\"))");
    assert_eq!(house.cell(&process, world, "child/b"), ";started;passed Some(Text(\"b\"))");
    assert_eq!(house.cell(&process, world, "child/fail"), ";started;Failed URM_CHILD_FAILED");
    assert_eq!(house.cell(&process, world, "child/bad"), ";Failed URM_CHILD_KIND_INVALID");
    assert_eq!(house.cell(&process, world, "child/x"), ";Failed URM_CHILD_KIND_INVALID");
    let counts = house.counting.0.lock();
    assert_eq!((counts.runs.len(), counts.most), (3, 2));
    drop(counts);
    let budget = house.ask(&process, move |ops| async move { ops.budget(world).await }).unwrap();
    let total = |lane| budget.iter().find(|(of, _)| *of == lane).unwrap().1.total;
    assert_eq!((total(Lane::Tokens), total(Lane::DurationSecs)), (30, 3));
}

#[test]
fn a_request_to_spawn_is_journaled_by_the_parent_and_answers_the_same_again() {
    let house = House::new();
    let world = house.create(1);
    let process = house.start(1);
    let spawn = |payload: &'static str| {
        move |ops: Ops<TestPlane>| async move {
            let params = spec_params("slow", &Value::Text(payload.to_owned()), &Spend::default());
            let request = ClientRequest { client_request_id: "r1".into(), payload: Hash::of(payload.as_bytes()) };
            let operator = Operator { token: None, name: "ada".into() };
            ops.child_spawn(world, params, &request, (operator, MINUTE)).await
        }
    };
    let first = house.ask(&process, spawn("a")).unwrap();
    assert_eq!(house.ask(&process, spawn("a")).unwrap(), first);
    assert_eq!(house.ask(&process, spawn("b")).unwrap_err().code(), Code::UrmRequestConflict);
    house.run(MINUTE);
    let children = house.children(&process, world);
    assert_eq!(children.iter().map(|token| token.child).collect::<Vec<_>>(), [first]);
    assert_eq!(house.cell(&process, world, "child/request:r1"), ";started;passed Some(Text(\"a\"))");
    // A world whose manifest does not allow children refuses it.
    let rig = house.rig.clone();
    house.ask(&process, move |_| async move { rig.create(world_id(9)).await }).unwrap();
    let refused: Result<ChildId, RuntimeError> = house.ask(&process, |ops| async move {
        let params = spec_params("slow", &Value::Null, &Spend::default());
        let request = ClientRequest { client_request_id: "r2".into(), payload: Hash::of(b"") };
        let operator = Operator { token: None, name: "ada".into() };
        ops.child_spawn(world_id(9), params, &request, (operator, MINUTE)).await
    });
    assert_eq!(refused.unwrap_err().code(), Code::OutputRefused);
}

#[test]
fn a_cancel_stops_what_runs_and_a_withdrawn_child_tells_nothing() {
    let house = House::new();
    let world = house.create(1);
    let process = house.start(1);
    house.send(world, "child long slow\nchild b slow\nchild c slow");
    house.run(Duration::from_millis(500));
    let long = house.children(&process, world)[0].child;
    assert_eq!(house.counting.0.lock().now, 2);
    let request = ClientRequest { client_request_id: "enough".into(), payload: Hash::of(b"") };
    let first = request.clone();
    let cancel = move |ops: Ops<TestPlane>| async move { ops.child_cancel(world, long, &first).await };
    assert_eq!(house.ask(&process, cancel).unwrap().outcome, CancelOutcome::Requested);
    house.send(world, "withdraw c");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, world, "child/long"), ";started;Cancelled URM_CHILD_CANCELLED");
    assert_eq!(house.cell(&process, world, "child/c"), "");
    let children = house.children(&process, world);
    assert!(children.iter().all(|token| token.phase == Phase::Terminal));
    assert_eq!(house.counting.0.lock().now, 0, "the work was stopped");
    let again = move |ops: Ops<TestPlane>| async move { ops.child_cancel(world, long, &request).await };
    let again = house.ask(&process, again).unwrap();
    assert_eq!(again.outcome, CancelOutcome::Requested, "the same request, the same answer");
}

#[test]
fn an_archived_parent_has_its_children_cancelled() {
    let house = House::new();
    let world = house.create(1);
    let process = house.start(1);
    house.send(world, "child long slow\nchild b slow\nchild c slow");
    house.run(Duration::from_millis(500));
    house.ask(&process, move |ops| async move { ops.world_archive(world).await }).unwrap();
    house.run(MINUTE);
    let children = house.children(&process, world);
    let cancelled = children.iter().filter(|it| it.end.as_ref().unwrap().outcome == ChildOutcome::Cancelled).count();
    assert_eq!((children.len(), cancelled), (3, 3));
    house.ask(&process, move |ops| async move { ops.world_unarchive(world).await }).unwrap();
    house.run(MINUTE);
    assert!(house.cell(&process, world, "child/c").contains("Cancelled"), "it learns so when it comes back");
}

#[test]
fn a_deleted_parent_takes_its_children_with_it_and_other_parents_go_on() {
    let house = House::new();
    let (world, other) = (house.create(1), house.create(2));
    let process = house.start(1);
    house.send(world, "child long slow\nchild b slow\nchild c slow");
    house.run(Duration::from_millis(500));
    assert_eq!(house.counting.0.lock().now, 2);
    house.ask(&process, move |ops| async move { ops.world_delete(world).await }).unwrap();
    house.run(2 * MINUTE);
    assert_eq!(house.counting.0.lock().now, 0, "what ran was stopped");
    assert_eq!(house.counting.0.lock().runs.len(), 2, "what waited was not started");
    assert!(house.ask(&process, move |ops| async move { ops.children(world, None, 10).await }).unwrap().is_empty());
    house.send(other, "child d slow");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, other, "child/d"), ";started;passed Some(Text(\"d\"))");
}

#[test]
fn a_parent_whose_children_cannot_be_read_stops_no_other_one() {
    let house = House::new();
    let (broken, other) = (house.create(1), house.create(2));
    let process = house.start(1);
    house.send(broken, "child long slow");
    house.send(other, "child a slow");
    house.run(Duration::from_millis(500));
    let universe = house.rig.universe;
    house.tamper(move |tx| tx.put(child_state::key(universe, broken).as_bytes(), "no state").unwrap());
    house.run(MINUTE);
    house.send(other, "child b slow");
    house.run(MINUTE);
    for label in ["a", "b"] {
        assert!(house.cell(&process, other, &format!("child/{label}")).starts_with(";started;passed"), "{label}");
    }
}

/// The turn that spawns finds it. The same attempt finds it again wherever it is made, so nobody tries it again.
#[test]
fn a_queue_number_that_is_taken_holds_the_world_and_others_go_on() {
    let house = House::new();
    let (broken, other) = (house.create(1), house.create(2));
    let process = house.start(1);
    let row = cbor::encode(&child_order::ChildRow { child: ChildId::from_bytes([9; 16]) });
    let key = child_order::queue_key(house.rig.universe, broken, 1);
    house.tamper(move |tx| tx.put(key.as_bytes(), row).unwrap());
    house.send(broken, "child a slow");
    house.send(other, "child a slow");
    house.run(MINUTE);
    assert_eq!(house.held(&process, broken).as_deref(), Some("URM_DISPATCH_LEASE_CONFLICT"));
    assert!(house.children(&process, broken).is_empty());
    assert!(house.cell(&process, other, "child/a").starts_with(";started;passed"));
    house.rig.plane.engine.revive();
    house.run(MINUTE);
    let begins = house.rig.plane.engine.counts().begins;
    assert!(begins < 600, "{begins} transactions in a minute: it is tried again");
}

/// Each change of a child looks whether what is stored belongs together, whoever asks for the change.
#[test]
fn a_contradiction_that_a_change_of_a_child_finds_holds_the_parent() {
    type Change = fn(Ops<TestPlane>, ChildClaim) -> BoxFuture<'static, Result<(), RuntimeError>>;
    let changes: [(&str, Change); 6] = [
        ("start", |ops, claim| Box::pin(async move { ops.child_start(claim).await.map(drop) })),
        ("report", |ops, claim| {
            let spent = Spend::default().with(Lane::Tokens, 1);
            Box::pin(async move { ops.child_report(claim, spent).await.map(drop) })
        }),
        ("finish", |ops, claim| {
            let passed = ChildFinish::Passed(Value::Null);
            Box::pin(async move { ops.child_finish(claim, passed, Spend::default()).await.map(drop) })
        }),
        ("cancel", |ops, claim| {
            let request = ClientRequest { client_request_id: "r".into(), payload: Hash::of(b"") };
            Box::pin(async move { ops.child_cancel(claim.parent, claim.child, &request).await.map(drop) })
        }),
        ("cancel all", |ops, claim| {
            let request = ClientRequest { client_request_id: "r".into(), payload: Hash::of(b"") };
            Box::pin(async move { ops.children_cancel_requested(claim.parent, &request).await.map(drop) })
        }),
        ("archive", |ops, claim| Box::pin(async move { ops.children_cancel(claim.parent, "why").await.map(drop) })),
    ];
    let house = House::new();
    let process = house.start(1);
    for (number, (name, change)) in (1..).zip(changes) {
        let world = house.create(number);
        house.send(world, "child a external");
        house.run(Duration::from_secs(1));
        let hour_ns = 3_600_000_000_000;
        let claim = house.ask(&process, move |ops| async move {
            let claimed = ops.children_claim(&["external".to_owned()], 1, hour_ns).await.unwrap();
            ops.child_start(claimed[0].0).await.unwrap();
            claimed[0].0
        });
        let key = child_event::key(claim.universe, claim.parent, claim.child, 0);
        house.tamper(move |tx| tx.delete(key.as_bytes()).unwrap());
        assert_eq!(house.held(&process, world), None, "{name}");
        let refused = house.ask(&process, move |ops| change(ops, claim)).unwrap_err();
        assert_eq!(refused.code(), Code::UrmSchedulerPhaseEventAtomicityViolation, "{name}");
        let held = house.held(&process, world);
        assert_eq!(held.as_deref(), Some("URM_SCHEDULER_PHASE_EVENT_ATOMICITY_VIOLATION"), "{name}");
    }
}

/// The records of executors that run at the same time, except for times: the events of each child in their order, the budget totals of each world, and
/// the number of dispatches of each process.
struct Left {
    events: BTreeMap<String, Vec<String>>,
    totals: Vec<(WorldId, Lane, u64)>,
    /// By executor.
    dispatched: [u64; 2],
}

fn evidence_of(seed: u64) -> Left {
    let house = House::of_seed(seed);
    let worlds = [1, 2, 3].map(|number| house.create(number));
    let processes = [house.start(1), house.start(2)];
    for world in worlds {
        house.send(
            world,
            "child long slow\nchild a slow\nchild fail slow\nchild dear slow 9\nchild b slow 10\nchild x unknown",
        );
    }
    house.run(Duration::from_millis(300));
    for world in worlds {
        let long = house.children(&processes[0], world)[0].child;
        let request = ClientRequest { client_request_id: "enough".into(), payload: Hash::of(b"") };
        house.ask(&processes[1], move |ops| async move { ops.child_cancel(world, long, &request).await }).unwrap();
    }
    house.run(MINUTE);
    let (mut events, mut totals, universe) = (BTreeMap::new(), Vec::new(), house.rig.universe);
    for world in worlds {
        for token in house.children(&processes[0], world) {
            let child = token.child;
            let read = house.ask(&processes[0], move |ops| async move { ops.child_events(world, child, 0).await });
            let (found, is_over) = read.unwrap();
            assert!(is_over, "seed {seed}: {token:?}");
            let line = |event: &ChildEvent| {
                let mut evidence = event.evidence(universe, world, child);
                evidence.as_object_mut().unwrap().remove("ts");
                to_canonical(&evidence)
            };
            events.insert(format!("{world} {}", token.label), found.iter().map(line).collect());
        }
        let lines = house.ask(&processes[0], move |ops| async move { ops.budget(world).await }).unwrap();
        totals.extend(lines.iter().map(|(lane, budget)| (world, *lane, budget.total)));
    }
    let dispatched = processes.map(|process| process.metrics.children().all_dispatched().values().sum());
    Left { events, totals, dispatched }
}

#[test]
fn executors_at_the_same_time_leave_the_same_events_codes_and_counters_in_every_run() {
    let Left { events, totals, dispatched } = evidence_of(1);
    assert_eq!(events.len(), 18);
    let codes = |label: &str| -> Vec<String> {
        let of = events.iter().filter(|(name, _)| name.ends_with(&format!(" {label}")));
        let ends = of.map(|(_, lines)| serde_json::from_str::<serde_json::Value>(lines.last().unwrap()).unwrap());
        ends.map(|end| end["detail"]["code"].as_str().unwrap_or("ok").to_owned()).collect()
    };
    for (label, code) in [
        ("long", "URM_CHILD_CANCELLED"),
        ("a", "ok"),
        ("b", "ok"),
        ("fail", "URM_CHILD_FAILED"),
        ("dear", "URM_CHILD_BUDGET_EXCEEDED"),
        ("x", "URM_CHILD_KIND_INVALID"),
    ] {
        assert_eq!(codes(label), [code; 3], "{label}");
    }
    let mut splits = BTreeSet::from([dispatched]);
    for seed in 2..8 {
        let again = evidence_of(seed);
        assert_eq!(again.events, events, "seed {seed}");
        assert_eq!(again.totals, totals, "seed {seed}");
        splits.insert(again.dispatched);
    }
    assert!(splits.len() > 1, "the executors share the work otherwise from run to run: {splits:?}");
}

/// The cost of a spawn does not grow with the parents whose children run or wait for somebody else.
#[test]
fn a_spawn_makes_the_executor_look_at_its_own_parent_and_passes_over_the_others() {
    let operations = |others: u64| {
        let house = House::new();
        let process = house.start(1);
        for number in 0..others {
            let world = house.create(10 + number);
            // One runs for an hour; or the first one is for a worker outside, and another one waits behind it.
            let lines = ["child long slow", "child a external\nchild b slow"];
            house.send(world, lines[usize::try_from(number % 2).unwrap()]);
        }
        let world = house.create(1);
        house.send(world, "child warm slow");
        house.run(Duration::from_secs(2));
        house.rig.plane.engine.revive();
        house.send(world, "child a slow");
        house.run(Duration::from_secs(2));
        assert!(house.cell(&process, world, "child/a").starts_with(";started;passed"));
        let counts = house.rig.plane.engine.counts();
        counts.begins
    };
    let (alone, among) = (operations(0), operations(12));
    assert!(among < alone + 12, "{alone} transactions alone, {among} among twelve others");
}

/// Resuming wakes the executors: nothing else happens in the universe.
#[test]
fn children_of_a_paused_parent_are_dispatched_as_soon_as_it_is_resumed() {
    let house = House::new();
    let world = house.create(1);
    let process = house.start(1);
    house.send(world, "child a external\nchild b slow");
    house.run(Duration::from_secs(1));
    house.ask(&process, move |ops| async move { ops.world_pause(world).await }).unwrap();
    house.run(Duration::from_secs(1));
    let first = house.children(&process, world)[0].child;
    let request = ClientRequest { client_request_id: "r".into(), payload: Hash::of(b"") };
    house.ask(&process, move |ops| async move { ops.child_cancel(world, first, &request).await }).unwrap();
    house.run(MINUTE);
    assert_eq!(house.children(&process, world)[1].phase, Phase::Queued, "a paused parent dispatches nothing");
    house.ask(&process, move |ops| async move { ops.world_resume(world).await }).unwrap();
    house.run(Duration::from_secs(3));
    assert_eq!(house.children(&process, world)[1].phase, Phase::Terminal);
}

/// The engine dies at one operation after another, and with it the process. No child runs twice, and each ends.
#[test]
fn a_crash_at_any_operation_starts_no_child_twice_and_loses_none() {
    for operation in (0..400).step_by(7) {
        let house = House::new();
        let world = house.create(1);
        let process = house.start(1);
        house.send(world, "child a slow\nchild b slow\nchild c slow");
        house.rig.plane.engine.revive();
        house.rig.plane.engine.arm(operation, Trouble::DieAfter);
        house.run(MINUTE);
        process.node.crash();
        let process = house.start(1);
        house.run(2 * MINUTE);
        let children = house.children(&process, world);
        assert_eq!(children.len(), 3, "operation {operation}");
        for token in &children {
            assert_eq!(token.phase, Phase::Terminal, "operation {operation}: {token:?}");
        }
        for label in ["a", "b", "c"] {
            let told = house.cell(&process, world, &format!("child/{label}"));
            assert_eq!(told.matches("passed").count() + told.matches("Failed").count(), 1, "{operation}: {told}");
        }
        assert!(house.counting.0.lock().runs.values().all(|runs| *runs == 1), "operation {operation}");
    }
}

#[test]
fn a_process_that_comes_back_ends_what_it_ran_and_dispatches_the_rest() {
    let house = House::new();
    let world = house.create(1);
    let process = house.start(1);
    house.send(world, "child long slow\nchild b slow\nchild c slow");
    house.run(Duration::from_millis(500));
    process.node.crash();
    let process = house.start(1);
    house.run(Duration::from_secs(20)); // before the leases run out
    assert_eq!(house.cell(&process, world, "child/long"), ";started;Failed URM_CHILD_TERMINATED_ON_RESTART");
    assert_eq!(house.cell(&process, world, "child/b"), ";started;Failed URM_CHILD_TERMINATED_ON_RESTART");
    assert_eq!(house.cell(&process, world, "child/c"), ";started;passed Some(Text(\"c\"))");
    let order: Vec<_> = house.children(&process, world).iter().map(|token| token.dispatch_seq).collect();
    assert_eq!(order, [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_paused_executor_finds_its_children_ended_by_another_one() {
    let house = House::new();
    let world = house.create(1);
    let first = house.start(1);
    house.send(world, "child long slow");
    house.run(Duration::from_millis(500));
    first.node.pause();
    let second = house.start(2);
    house.run(2 * MINUTE);
    first.node.resume();
    house.run(2 * MINUTE);
    assert_eq!(house.cell(&second, world, "child/long"), ";started;Failed URM_CHILD_TERMINATED_ON_RESTART");
    let counts = house.counting.0.lock();
    assert_eq!((counts.now, counts.runs.values().copied().max()), (0, Some(1)), "the work was stopped");
}

/// A parent that dispatches nothing still has its orphans ended, and costs nothing afterwards.
#[test]
fn the_orphan_of_a_paused_parent_is_ended_and_nobody_looks_again_and_again() {
    let house = House::new();
    let world = house.create(1);
    let first = house.start(1);
    house.send(world, "child long slow");
    house.run(Duration::from_millis(500));
    house.ask(&first, move |ops| async move { ops.world_pause(world).await }).unwrap();
    house.run(Duration::from_secs(1));
    first.node.crash();
    let second = house.start(2);
    house.run(2 * MINUTE);
    assert_eq!(house.children(&second, world)[0].phase, Phase::Terminal);
    house.rig.plane.engine.revive();
    house.run(MINUTE);
    let begins = house.rig.plane.engine.counts().begins;
    assert!(begins < 600, "{begins} transactions in a minute in which nothing happens");
}

#[test]
fn a_fork_runs_none_of_its_parents_children_and_each_policy_says_what_becomes_of_them() {
    let house = House::new();
    let world = house.create(1);
    let process = house.start(1);
    house.send(world, "child a slow");
    house.run(MINUTE);
    house.send(world, "child long slow\nchild b slow\nchild c slow");
    house.run(Duration::from_millis(300));
    let head = house.ask(&process, move |ops| async move { ops.describe_world(world).await }).unwrap().head.unwrap();
    house.run(MINUTE);
    let fork = |number: u64, effects: EffectPolicy| {
        let (at, policy) = (ForkAt::Height(head.height), ForkPolicy { effects: Some(effects), answers: None });
        house
            .ask(&process, move |ops| async move { ops.world_fork(world, world_id(number), at, policy, 5_000).await })
            .unwrap();
        house.run(MINUTE);
        world_id(number)
    };
    let ran = || house.counting.0.lock().runs.len();
    let before = ran();

    let suppressed = fork(11, EffectPolicy::Suppress);
    assert!(house.cell(&process, suppressed, "child/long").ends_with("Cancelled EFFECT_CANCELLED"));
    assert_eq!((house.children(&process, suppressed).len(), ran()), (0, before));
    let spent = house.ask(&process, move |ops| async move { ops.budget(suppressed).await }).unwrap();
    let tokens = spent.iter().find(|(lane, _)| *lane == Lane::Tokens).unwrap().1.total;
    assert_eq!(tokens, 10, "what the journal proves up to the fork: one child had ended");

    let recorded = fork(12, EffectPolicy::Recorded);
    assert!(house.cell(&process, recorded, "child/b").ends_with("passed Some(Text(\"b\"))"));
    assert_eq!((house.children(&process, recorded).len(), ran()), (0, before));

    let sandbox = fork(13, EffectPolicy::Sandbox);
    assert!(house.cell(&process, sandbox, "child/c").ends_with("passed Some(Text(\"c\"))"));
    assert_eq!((house.children(&process, sandbox).len(), ran()), (0, before));

    let recorded_first = fork(15, EffectPolicy::RecordedThenLive);
    assert!(house.cell(&process, recorded_first, "child/b").ends_with("passed Some(Text(\"b\"))"));
    assert_eq!((house.children(&process, recorded_first).len(), ran()), (0, before));
    house.send(recorded_first, "child d slow");
    house.run(MINUTE);
    assert!(house.cell(&process, recorded_first, "child/d").ends_with("started;passed Some(Text(\"d\"))"));
    assert_eq!((house.children(&process, recorded_first).len(), ran()), (1, before + 1), "its parent never spawned it");

    let before = ran();
    let live = fork(14, EffectPolicy::Live);
    let tokens = house.children(&process, live);
    assert_eq!((tokens.len(), ran()), (3, before + 3));
    assert_eq!(tokens.iter().map(|token| token.queue_seq).collect::<Vec<_>>(), [1, 2, 3], "tokens of its own");
    assert!(house.cell(&process, live, "child/b").ends_with("started;passed Some(Text(\"b\"))"));
}
