//! Children that are worlds: they go on without their executor, and end by their own word or a cancel.

use crate::{
    child_functions::Director,
    rig::{adapter_worker, id},
};
use bytes::Bytes;
use mundi_adapters::{
    child_agent::AgentChildren, child_cancel::ChildCancelAdapter, child_done::ChildDoneAdapter,
    child_world::WorldChildren,
};
use mundi_engine::{Engine, Transaction};
use mundi_kernel::{
    Registry,
    manifest::{EffectRule, Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program, View},
    registry::native_descriptor,
};
use mundi_model::{
    Hash, Value, WorldId, cbor,
    child::{CHILD_CANCELLED_INBOX, CHILD_DONE, ChildOutcome, DispatchToken, Lane, Phase, Spend, spec_params},
    record::EffectPolicy,
};
use mundi_native::Native;
use mundi_runtime::{
    Spawn,
    calls::Calls,
    children::{ChildExecutor, ChildExecutorConfig, OutsideCalls},
    control::Ops,
    effects::{Adapter, AdapterWorkerConfig},
    lifecycle::{ForkAt, ForkPolicy, NewWorld, create, register_trusted},
    metrics::Metrics,
    shell::{Shell, ShellConfig},
    testing::{Node, Rig, TestPlane},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    blob::Blobs,
    testing::{Trouble, world_id},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);

/// Spawns a world per line `LABEL EVENT VALUE` and an agent per line `agent LABEL PROMPT TOOL LANE AMOUNT` (100 tokens if no lane is named), cancels by `cancel LABEL`, and notes what becomes of
/// each.
pub(crate) struct Boss;

impl Program for Boss {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        if let Some(child) = event.cause.child() {
            let key = format!("child/{}", child.label);
            let before = host.get(&key)?.unwrap_or_default();
            let rest = child.result().map_or_else(
                || format!("{} {}", child.code().unwrap_or_default(), child.reason().unwrap_or_default()),
                |result| format!("{result:?}"),
            );
            let what = format!(";{:?} {rest}", child.lifecycle);
            if let Some(Value::Array(calls)) = child.fields.get("calls") {
                let field = |call: &Value, name: &str| match call {
                    Value::Map(fields) => match &fields[name] {
                        Value::Text(text) => text.clone(),
                        other => format!("{other:?}"),
                    },
                    other => format!("{other:?}"),
                };
                let calls: Vec<_> = calls.iter().map(|call| field(call, "kind") + " " + &field(call, "code")).collect();
                host.put(&format!("calls/{}", child.label), calls.join(";").as_bytes())?;
            }
            if let Some(Value::Text(world)) = child.fields.get("world") {
                host.put(&format!("world/{}", child.label), world.as_bytes())?;
            }
            return Ok(host.put(&key, &[&before[..], what.as_bytes()].concat())?);
        }
        let Cause::Event { value, .. } = event.cause else { return Ok(()) };
        let Ok(Value::Text(text)) = cbor::decode(value) else { return Ok(()) };
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["cancel", label] => {
                    let params = Value::Map([("label".to_owned(), Value::Text(label.to_owned()))].into());
                    host.emit("child.cancel", &cbor::encode(&params), "")?;
                }
                ["agent", label, prompt, tool, ref limit @ ..] => {
                    let text = |text: &str| Value::Text(text.to_owned());
                    let entries = |entries: &[(&str, Value)]| {
                        Value::Map(entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
                    };
                    let tools = Value::Array(vec![entries(&[("name", text("look")), ("effect", text(tool))])]);
                    let mut budget = Spend::default().with(Lane::Tokens, 100);
                    if let [lane, amount] = limit {
                        let lane = Lane::from_name(lane).ok_or_else(|| Failure::new("no lane"))?;
                        budget = Spend::default().with(lane, amount.parse().map_err(|_| Failure::new("no number"))?);
                    }
                    let params = entries(&[("prompt", text(prompt)), ("tools", tools)]);
                    host.spawn_child(&spec_params("agent", &params, &budget), label)?;
                }
                [label, event, value] => {
                    let text = |text: &str| Value::Text(text.to_owned());
                    let mut params =
                        BTreeMap::from([("program".to_owned(), text("worker")), ("value".to_owned(), text(value))]);
                    if event != "-" {
                        params.insert("event".to_owned(), text(event));
                    }
                    let budget = Spend::default().with(Lane::Tokens, 10);
                    host.spawn_child(&spec_params("world", &Value::Map(params), &budget), label)?;
                }
                _ => return Err(Failure::new(format!("what is `{line}`?"))),
            }
        }
        Ok(())
    }

    fn query(&self, view: &mut dyn View, _: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        let Ok(Value::Text(key)) = cbor::decode(params) else { return Err(Failure::new("no key")) };
        Ok(view.get(&key)?.unwrap_or_default())
    }
}

/// Does as its first input says, and says that it is done when it is told so.
struct Worker;

impl Program for Worker {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let (value, began) = match event.cause {
            Cause::Event { value, .. } => (value, event.origin.headers.contains_key("child_id")),
            Cause::Message { inbox: CHILD_CANCELLED_INBOX, .. } => return Ok(host.put("cancelled", b"yes")?),
            Cause::Message { payload, headers, .. } => (payload, headers.contains_key("child_id")),
            Cause::Receipt { status, .. } => return Ok(host.put("said", format!("{status:?}").as_bytes())?),
            _ => return Ok(()),
        };
        let Ok(Value::Text(text)) = cbor::decode(value) else { return Ok(()) };
        let sender = event.origin.sender.map(|sender| sender.world.to_string()).unwrap_or_default();
        host.put("began", format!("{began} {sender}").as_bytes())?;
        let say = |entries: &[(&str, Value)]| {
            cbor::encode(&Value::Map(entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()))
        };
        let tokens = |count: u64| Value::Map([("tokens".to_owned(), Value::Integer(count.into()))].into());
        let params = match text.as_str() {
            "wait" => return Ok(()),
            "fail" => say(&[("reason", Value::Text("no luck".into())), ("code", Value::Text("LUCK".into()))]),
            "spend" => say(&[("result", Value::Bool(true)), ("spent", tokens(11))]),
            other => say(&[("result", Value::Text(other.to_owned())), ("spent", tokens(4))]),
        };
        Ok(host.emit(CHILD_DONE, &params, "done")?)
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        Boss.query(view, name, params)
    }
}

pub(crate) struct House {
    pub(crate) rig: Rig,
    /// Of the boss, the worker and the director.
    pub(crate) manifests: [Hash; 3],
    /// The adapters that agents may use.
    pub(crate) adapters: Vec<Arc<dyn Adapter>>,
}

pub(crate) struct Process {
    pub(crate) node: Node,
    pub(crate) ops: Ops<TestPlane>,
}

fn manifest(program: &str, event: &str, effects: &[&str]) -> Manifest {
    let mut manifest = Manifest::new(Hash::of(native_descriptor(program, 1).as_bytes()));
    manifest.events.insert(event.to_owned(), Schema::anything());
    manifest.queries.insert("cell".into(), Schema::anything());
    for effect in effects {
        manifest.effects.insert((*effect).to_owned(), EffectRule::default());
    }
    manifest
}

impl House {
    pub(crate) fn new() -> Self {
        let mut rig = Rig::new(1);
        let mut registry = Registry::new();
        registry.register_native("boss", 1, Boss);
        registry.register_native("worker", 1, Worker);
        registry.register_native("director", 1, Native::<Director>::default());
        rig.plane.registry = Arc::new(registry);
        let setting = rig.clone();
        let manifests = rig.executor.block_on(async move {
            let mut hashes = Vec::new();
            let boss = manifest("boss", "tell", &["child.spawn", "child.cancel", "llm.chat", "http"]);
            let mut director = manifest("director", "direct", &["child.spawn"]);
            director.events.insert("enough".into(), Schema::anything());
            for manifest in [boss, manifest("worker", "work", &[CHILD_DONE]), director] {
                let hash = setting.plane.blobs.put(setting.universe, manifest.to_bytes().into(), &[]).await.unwrap();
                hashes.push(hash);
            }
            for program in ["boss", "worker", "director"] {
                let descriptor = Bytes::from(native_descriptor(program, 1));
                setting.plane.blobs.put(setting.universe, descriptor, &[]).await.unwrap();
            }
            register_trusted(&setting.plane, setting.universe, &hashes).await.unwrap();
            hashes
        });
        Self { rig, manifests: manifests.try_into().unwrap(), adapters: Vec::new() }
    }

    pub(crate) fn create(&self, number: u64, manifest: Hash) -> WorldId {
        let (plane, universe, world) = (self.rig.plane.clone(), self.rig.universe, world_id(number));
        let new = NewWorld { universe, world, manifest, inbox: None, now_ns: 1_000 };
        self.rig.executor.block_on(async move { create(&plane, new).await }).unwrap();
        world
    }

    /// Worlds, adapters and children in one process.
    pub(crate) fn start(&self, number: u64) -> Process {
        self.rig.plane.engine.revive();
        let node = self.rig.executor.node();
        let (universe, worker, plane) = (self.rig.universe, id(number), self.rig.on(&node));
        let calls = Calls::default();
        let config = WorkerConfig { deaths_max: 0, ..WorkerConfig::new(universe, worker) };
        let worlds = WorldWorker::start(plane.clone(), config, calls.clone(), Arc::new(Metrics::default()));
        let config = AdapterWorkerConfig { claim_ttl: Duration::from_secs(10), ..AdapterWorkerConfig::default() };
        let adapters = adapter_worker(&plane, universe, id(100 + number), config, plane.entropy.clone())
            .serve(Arc::new(ChildDoneAdapter::new(plane.clone(), Arc::default())))
            .serve(Arc::new(ChildCancelAdapter::new(plane.clone(), Arc::default())))
            .with_local_worlds(Arc::new(worlds.clone()));
        node.spawn(Box::pin(async move { drop(adapters.run(std::future::pending()).await) }));
        let config = ChildExecutorConfig { is_alone: true, ..ChildExecutorConfig::default() };
        let kind = WorldChildren::new(plane.clone()).with_built_in([("worker".to_owned(), self.manifests[1])].into());
        let outside = OutsideCalls::new(plane.clone());
        let outside = self.adapters.iter().fold(outside, |outside, adapter| outside.serve(adapter.clone()));
        let executor = ChildExecutor::new(plane.clone(), universe, worker, config).serve(Arc::new(kind));
        let executor = executor.serve(Arc::new(AgentChildren::new(outside)));
        let booting = plane.clone();
        node.spawn(Box::pin(async move {
            if executor.recover_earlier().await.is_ok() {
                let config = ShellConfig { bootstrap: true, ..ShellConfig::new(universe, worker) };
                Shell::launch(booting, config, executor).join().await;
            }
        }));
        Process { node, ops: Ops::new(plane, universe, calls).beside(worlds) }
    }

    pub(crate) fn tell(&self, world: WorldId, schema: &str, text: &str) {
        let (rig, schema) = (self.rig.clone(), schema.to_owned());
        let value = mundi_model::record::Payload::Inline(cbor::encode(&Value::Text(text.to_owned())));
        let input = mundi_model::record::Input::Event { schema, value, key: None };
        self.rig.executor.block_on(async move { rig.send(world, vec![input]).await }).unwrap();
    }

    pub(crate) fn run(&self, time: Duration) {
        self.rig.executor.run_for(time);
    }

    pub(crate) fn ask<V: Send + 'static, F: Future<Output = V> + Send + 'static>(
        &self,
        process: &Process,
        ask: impl FnOnce(Ops<TestPlane>) -> F,
    ) -> V {
        self.rig.executor.block_on(ask(process.ops.clone()))
    }

    pub(crate) fn cell(&self, process: &Process, world: WorldId, key: &str) -> String {
        let params = cbor::encode(&Value::Text(key.into()));
        let answer = self.ask(process, move |ops| async move { ops.world_query(world, "cell", &params, None).await });
        String::from_utf8(answer.unwrap()).unwrap()
    }

    pub(crate) fn children(&self, process: &Process, world: WorldId) -> Vec<DispatchToken> {
        self.ask(process, move |ops| async move { ops.children(world, None, 1_000).await }).unwrap()
    }
}

#[test]
fn a_child_world_begins_with_its_first_input_and_its_word_is_the_end_of_the_child() {
    let house = House::new();
    let boss = house.create(1, house.manifests[0]);
    let process = house.start(1);
    house.tell(boss, "tell", "a work red\nb - blue\nc work fail\nd work spend\ne unknown x");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, boss, "child/a"), ";Started  ;Passed Text(\"red\")");
    assert_eq!(house.cell(&process, boss, "child/b"), ";Started  ;Passed Text(\"blue\")");
    assert_eq!(house.cell(&process, boss, "child/c"), ";Started  ;Failed URM_CHILD_FAILED LUCK: no luck");
    let exceeded = ";Started  ;Failed URM_CHILD_BUDGET_EXCEEDED budget_exceeded:tokens";
    assert_eq!(house.cell(&process, boss, "child/d"), exceeded);
    assert!(house.cell(&process, boss, "child/e").starts_with(";Failed EVENT_"), "no world takes this event");
    let world: WorldId = house.cell(&process, boss, "world/a").parse().unwrap();
    assert_eq!(house.cell(&process, world, "began"), format!("true {boss}"));
    assert_eq!(house.cell(&process, world, "said"), "Ok");
    let budget = house.ask(&process, move |ops| async move { ops.budget(boss).await }).unwrap();
    assert_eq!(budget.iter().find(|(lane, _)| *lane == Lane::Tokens).unwrap().1.total, 8);
}

/// The word of a child world is a change of its parent's children, and so is a cancel by the parent's program.
#[test]
fn a_contradiction_that_an_effect_finds_holds_the_parent() {
    for by_cancel in [false, true] {
        let house = House::new();
        let boss = house.create(1, house.manifests[0]);
        let process = house.start(1);
        house.tell(boss, "tell", "a work wait");
        house.run(MINUTE);
        let (child, engine) = (house.children(&process, boss)[0].child, house.rig.plane.engine.clone());
        let start = mundi_store::keyspace::child_event::key(house.rig.universe, boss, child, 0);
        house.rig.executor.block_on(async move {
            let mut tx = engine.begin().await.unwrap();
            tx.delete(start.as_bytes()).unwrap();
            tx.commit().await.unwrap();
        });
        match by_cancel {
            false => house.tell(child.world(), "work", "green"),
            true => house.tell(boss, "tell", "cancel a"),
        }
        house.run(MINUTE);
        let described = house.ask(&process, move |ops| async move { ops.describe_world(boss).await }).unwrap();
        let held = described.meta.hold.map(|hold| hold.code);
        assert_eq!(held.as_deref(), Some("URM_SCHEDULER_PHASE_EVENT_ATOMICITY_VIOLATION"), "by cancel: {by_cancel}");
    }
}

#[test]
fn no_process_takes_a_child_world_with_it_and_recovery_does_not_touch_it() {
    let house = House::new();
    let boss = house.create(1, house.manifests[0]);
    let process = house.start(1);
    house.tell(boss, "tell", "a work wait");
    house.run(MINUTE);
    let world: WorldId = house.cell(&process, boss, "world/a").parse().unwrap();
    process.node.crash();
    let process = house.start(1);
    house.run(10 * MINUTE);
    assert_eq!(house.children(&process, boss)[0].phase, Phase::Started);
    house.tell(world, "work", "green");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, boss, "child/a"), ";Started  ;Passed Text(\"green\")");
    // It said so once: whatever it says later is refused.
    house.tell(world, "work", "yellow");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, world, "said"), "Error");
    assert_eq!(house.cell(&process, boss, "child/a"), ";Started  ;Passed Text(\"green\")");
}

#[test]
fn a_cancel_ends_a_child_world_and_the_world_is_told() {
    let house = House::new();
    let boss = house.create(1, house.manifests[0]);
    let process = house.start(1);
    house.tell(boss, "tell", "a work wait");
    house.run(MINUTE);
    let world: WorldId = house.cell(&process, boss, "world/a").parse().unwrap();
    house.tell(boss, "tell", "cancel a");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, boss, "child/a"), ";Started  ;Cancelled URM_CHILD_CANCELLED cancelled");
    assert_eq!(house.cell(&process, world, "cancelled"), "yes");
    let token = house.children(&process, boss).remove(0);
    assert_eq!(token.end.unwrap().outcome, ChildOutcome::Cancelled);
    assert!(token.spent.duration_secs.unwrap() >= 60, "its time was debited");
    house.tell(world, "work", "late");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, world, "said"), "Error");
}

#[test]
fn a_world_that_is_no_child_and_a_fork_of_a_child_end_nothing() {
    let house = House::new();
    let (boss, lone) = (house.create(1, house.manifests[0]), house.create(2, house.manifests[1]));
    let process = house.start(1);
    house.tell(lone, "work", "red");
    house.tell(boss, "tell", "a work wait");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, lone, "said"), "Error");
    let world: WorldId = house.cell(&process, boss, "world/a").parse().unwrap();
    let policy = ForkPolicy { effects: Some(EffectPolicy::Live), answers: None };
    let fork = move |ops: Ops<TestPlane>| async move {
        ops.world_fork(world, world_id(9), ForkAt::Newest, policy, 5_000).await
    };
    house.ask(&process, fork).unwrap();
    house.tell(world_id(9), "work", "red");
    house.run(MINUTE);
    assert_eq!(house.cell(&process, world_id(9), "said"), "Error");
    assert_eq!(house.children(&process, boss)[0].phase, Phase::Started);
}

/// The engine dies at one operation after another, and with it the process. The world begins once or not at all, and the child ends once.
#[test]
fn a_crash_at_any_operation_makes_no_second_world_and_loses_no_end() {
    for operation in (0..600).step_by(13) {
        let house = House::new();
        let boss = house.create(1, house.manifests[0]);
        let process = house.start(1);
        house.tell(boss, "tell", "a work red\nb work blue");
        house.rig.plane.engine.revive();
        house.rig.plane.engine.arm(operation, Trouble::DieAfter);
        house.run(MINUTE);
        process.node.crash();
        let process = house.start(1);
        house.run(3 * MINUTE);
        for (token, value) in house.children(&process, boss).iter().zip(["red", "blue"]) {
            let told = house.cell(&process, boss, &format!("child/{}", token.label));
            let orphaned = ";Failed URM_SCHEDULER_LEASE_ORPHANED lease_orphaned";
            let passed = format!(";Started  ;Passed Text(\"{value}\")");
            assert!(told == orphaned || told == passed, "operation {operation}: {told}");
            assert_eq!(told == passed, token.world().is_some(), "operation {operation}");
        }
    }
}
