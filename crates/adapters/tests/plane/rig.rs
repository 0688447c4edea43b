//! Nodes that run everything, and what must hold of every world whatever happened.

use futures_util::future::{BoxFuture, poll_fn};
use mundi_adapters::{fabric::FabricAdapter, fork::ForkAdapter, spawn::SpawnAdapter, world_call::WorldCallAdapter};
use mundi_kernel::{MemoryObjects, Registry, intents::TIMER_SET, replay::Replay};
use mundi_model::{
    IntentHash, Value, WorkerId, WorldId, cbor,
    record::{Body, InboxItem, Ingress, Input, Record},
};
use mundi_runtime::{
    Plane, Spawn,
    calls::Calls,
    control::Ops,
    effects::{Adapter, AdapterWorker, AdapterWorkerConfig, Call},
    metrics::Metrics,
    shell::Report,
    testing::{Node, Rig, TestPlane, manifest, register, script_event},
    timers::{TimerWorker, TimerWorkerConfig},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{Entropy, protocol::Failure, testing::world_id};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, task::Poll, time::Duration};

pub(crate) fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

pub(crate) fn ops(rig: &Rig) -> Ops<TestPlane> {
    Ops::new(rig.plane.clone(), rig.universe, Calls::default())
}

/// Worlds 1 to `worlds`.
pub(crate) fn with_worlds(seed: u64, worlds: u64) -> Rig {
    let rig = Rig::new(seed);
    let creating = rig.clone();
    rig.executor.block_on(async move {
        for n in 1..=worlds {
            creating.create(world_id(n)).await.unwrap();
        }
    });
    rig
}

/// The calls that the outside saw: how often each intent was carried out.
#[derive(Clone, Default)]
pub(crate) struct Outside(Arc<Mutex<BTreeMap<IntentHash, u32>>>);

impl Outside {
    pub(crate) fn calls(&self) -> BTreeMap<IntentHash, u32> {
        self.0.lock().clone()
    }
}

impl Adapter for Outside {
    fn name(&self) -> &str {
        "outside"
    }

    fn kinds(&self) -> &[&str] {
        &["http"]
    }

    /// On its way there and back a crash can meet it.
    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async {
            polls(13).await;
            *self.0.lock().entry(call.intent).or_default() += 1;
            polls(13).await;
            Ok(Value::Null)
        })
    }
}

async fn polls(mut left: u32) {
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A world worker, an adapter worker and a timer worker on one node.
pub(crate) fn start(rig: &Rig, n: u64) -> Node {
    start_with(rig, n, &Outside::default())
}

pub(crate) fn start_with(rig: &Rig, n: u64, outside: &Outside) -> Node {
    start_measured(rig, n, outside, &Arc::default(), &Default::default())
}

/// With the reports of its adapter worker and its timer worker.
pub(crate) fn start_measured(
    rig: &Rig,
    n: u64,
    outside: &Outside,
    metrics: &Arc<Metrics>,
    reports: &[Arc<Report>; 2],
) -> Node {
    let worlds = |plane| {
        // Nodes are killed in the first cycle of a world here, again and again: that is not the world's doing.
        let config = WorkerConfig { deaths_max: 0, ..WorkerConfig::new(rig.universe, id(n)) };
        WorldWorker::start(plane, config, Calls::default(), metrics.clone())
    };
    start_around(rig, n, outside, (metrics, reports), worlds)
}

/// The same around a world worker that the test starts.
pub(crate) fn start_around(
    rig: &Rig,
    n: u64,
    outside: &Outside,
    (metrics, reports): (&Arc<Metrics>, &[Arc<Report>; 2]),
    worlds: impl FnOnce(TestPlane) -> WorldWorker<TestPlane>,
) -> Node {
    let node = rig.executor.node();
    let plane = rig.on(&node);
    let worlds = worlds(plane.clone());
    let config = AdapterWorkerConfig { claim_ttl: Duration::from_secs(10), ..AdapterWorkerConfig::default() };
    let adapters = adapter_worker(&plane, rig.universe, id(100 + n), config, plane.entropy.clone())
        .serve(Arc::new(outside.clone()))
        .with_local_worlds(Arc::new(worlds));
    let adapters = adapters.with_report(reports[0].clone()).with_metrics(metrics.clone());
    node.spawn(Box::pin(async move { drop(adapters.run(std::future::pending()).await) }));
    let (engine, clock) = (plane.engine.clone(), plane.clock.clone());
    let timers = TimerWorker::new(engine, clock, rig.universe, TimerWorkerConfig::default());
    let timers = timers.with_report(reports[1].clone()).with_metrics(metrics.clone());
    node.spawn(Box::pin(async move { drop(timers.run(std::future::pending()).await) }));
    node
}

/// An adapter worker for what stays inside the plane.
pub(crate) fn adapter_worker<P: Plane>(
    plane: &P,
    universe: mundi_model::UniverseId,
    worker: WorkerId,
    config: AdapterWorkerConfig,
    entropy: Arc<dyn Entropy>,
) -> AdapterWorker<P::Engine, P::Blobs>
where
    P::Blobs: Clone + 'static,
{
    let (engine, blobs, clock) = (plane.engine().clone(), plane.blobs().clone(), plane.clock().clone());
    let fabric = FabricAdapter::new(plane.clone());
    AdapterWorker::new(engine, blobs, clock, entropy, universe, worker, config)
        .serve(Arc::new(fabric))
        .serve(Arc::new(WorldCallAdapter::new(plane.clone())))
        .serve(Arc::new(SpawnAdapter::new(plane.clone())))
        .serve(Arc::new(ForkAdapter::new(plane.clone())))
}

pub(crate) fn tell(rig: &Rig, world: WorldId, script: &str) {
    let (telling, input) = (rig.clone(), script_event(script));
    rig.executor.block_on(async move { telling.send(world, vec![input]).await.unwrap() });
}

/// A cell of a world, whoever holds it.
pub(crate) fn ask(rig: &Rig, world: WorldId, key: &str) -> String {
    let (ops, params) = (ops(rig), cbor::encode(&Value::Text(key.into())));
    let answer = rig.executor.block_on(async move { ops.world_query(world, "cell", &params, None).await.unwrap() });
    String::from_utf8(answer).unwrap()
}

pub(crate) fn count(rig: &Rig, world: WorldId, key: &str) -> u64 {
    let (ops, params) = (ops(rig), cbor::encode(&Value::Text(key.into())));
    let answer = rig.executor.block_on(async move { ops.world_query(world, "cell", &params, None).await.unwrap() });
    answer.try_into().map_or(0, u64::from_be_bytes)
}

pub(crate) fn bodies(rig: &Rig, world: WorldId) -> Vec<Body> {
    let reading = rig.clone();
    let journal = rig.executor.block_on(async move { reading.journal(world).await.unwrap() });
    journal.iter().map(|bytes| cbor::decode::<Record>(bytes).unwrap().body).collect()
}

/// Every record of a quiet world gives what it recorded; every intent has exactly one receipt, every timer fired once.
pub(crate) fn check(rig: &Rig, world: WorldId) {
    let reading = rig.clone();
    let journal = rig.executor.block_on(async move { reading.journal(world).await.unwrap() });
    check_journal(&journal);
}

pub(crate) fn check_journal(journal: &[bytes::Bytes]) {
    let (mut objects, mut registry) = (MemoryObjects::new(), Registry::new());
    objects.put(register(&mut registry).into_bytes());
    objects.put(manifest().to_bytes());
    let mut replay = Replay::from_genesis(&objects, Arc::new(registry), &journal[0]).unwrap();
    replay.run(&objects, &journal[1..], None).unwrap();
    replay.finish().unwrap();

    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for bytes in journal {
        match cbor::decode::<Record>(bytes).unwrap().body {
            Body::Intent(intent) => asked.push((intent.hash, intent.kind == TIMER_SET)),
            Body::Ingress(Ingress { item: InboxItem { input, .. }, .. }) => match input {
                Input::Receipt(receipt) => answered.push((receipt.intent, false)),
                Input::TimerFired { timer, .. } => answered.push((timer, true)),
                _ => {}
            },
            Body::Rejected(rejected) => panic!("{rejected:?}"),
            _ => {}
        }
    }
    asked.sort();
    answered.sort();
    assert_eq!(asked, answered, "exactly one answer for each question");
}
