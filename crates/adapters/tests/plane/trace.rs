//! One trace from an input to the receipts of all that followed from it; and what is counted on the way.

use crate::rig::{Outside, adapter_worker, bodies, id, ops, start_measured, with_worlds};
use futures_util::future::BoxFuture;
use mundi_model::{
    Value,
    record::{Body, InboxItem, Ingress, Input, Origin},
};
use mundi_runtime::{
    Spawn,
    calls::Calls,
    effects::{Adapter, AdapterWorkerConfig, Call},
    metrics::{Metric, Metrics, Timing},
    shell::{Counters, Report},
    testing::script_event,
    trace::TraceContext,
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{Clock, protocol::Failure, testing::world_id};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

const SECOND: Duration = Duration::from_secs(1);

/// Remembers the name and the fields of every span.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mundi_")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut text));
        let mut spans = self.0.lock();
        spans.push(text);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn everything_that_follows_from_an_input_belongs_to_its_trace() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let (rig, metrics) = (with_worlds(1, 2), Arc::new(Metrics::default()));
    let reports: [Arc<Report>; 2] = Default::default();
    let _node = start_measured(&rig, 1, &Outside::default(), &metrics, &reports);
    let root: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let due_ns = rig.executor.now_ns() + 2_000_000_000;
    let script = format!("emit e\ntimer t {due_ns}\nsend {} m hello", world_id(2));
    let origin = |trace: Option<String>| Origin {
        correlation_id: Some("order 7".into()),
        trace,
        ..Origin::new(rig.executor.now_ns())
    };
    let traced = InboxItem { input: script_event(&script), origin: origin(Some(root.to_string())) };
    let untraced = InboxItem { input: script_event("add n"), origin: origin(None) };
    let ops = ops(&rig);
    rig.executor.block_on(async move {
        ops.enqueue_ingress(world_id(1), traced, None).await.unwrap();
        ops.enqueue_ingress(world_id(1), untraced, None).await.unwrap();
    });
    rig.executor.run_for(SECOND * 5);

    let mut found = Vec::new();
    for world in [1, 2] {
        for body in bodies(&rig, world_id(world)) {
            if let Body::Ingress(Ingress { item, .. }) = body {
                let trace: TraceContext = item.origin.trace.expect("every item has a trace").parse().unwrap();
                let own = trace.trace == root.trace;
                found.push((own, std::mem::discriminant(&item.input), trace.span));
                let correlation = item.origin.correlation_id.as_deref();
                // A message says itself what it is correlated by.
                let expected = (!matches!(&item.input, Input::Message { .. })).then_some("order 7");
                assert_eq!(correlation, expected, "{:?}", item.input);
                assert_eq!(own, !matches!(&item.input, Input::Event { .. }) || trace == root);
            }
        }
    }
    assert_eq!(found.iter().filter(|(own, ..)| *own).count(), 5, "event, two receipts, timer, and the message");
    let spans = spans.0.lock();
    for name in ["enqueue_batch", "turn", "effect"] {
        assert!(spans.iter().any(|span| span.starts_with(name)), "no span {name}");
    }
    let effects: Vec<_> = spans.iter().filter(|span| span.starts_with("effect")).collect();
    assert!(effects.len() == 2 && effects.iter().all(|span| span.contains("4bf92f3577b34da6a3ce929d0e0e4736")));

    assert!(metrics.get(Metric::Turns) >= 3 && metrics.get(Metric::InboxAgeNsMax) < 1_000_000_000);
    assert_eq!((metrics.get(Metric::EffectAttempts), metrics.get(Metric::TimersFired)), (2, 1));
    assert_eq!((metrics.get(Metric::ResidentWorlds), metrics.get(Metric::DeadLetters)), (2, 0));
    let [adapters, timers] = reports.map(|report| report.snapshot());
    assert_eq!((adapters.inbox_attempts, adapters.successes, adapters.latency_samples), (2, 2, 2));
    assert_eq!(timers, Counters { timer_attempts: 1, successes: 1, latency_samples: 1, ..timers });
    assert_eq!(metrics.times(Timing::DispatchToReceipt).count(), 2, "of the two effects");
}

/// Answers after three seconds.
struct Slow(Arc<dyn Clock>);

impl Adapter for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn kinds(&self) -> &[&str] {
        &["http"]
    }

    fn call<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async {
            self.0.sleep(SECOND * 3).await;
            Ok(Value::Null)
        })
    }
}

/// Dispatch to receipt, without the time of the outside. The effect waits for a second before anyone serves it.
#[test]
fn the_call_itself_is_not_in_the_time_from_dispatch_to_receipt() {
    let rig = with_worlds(19, 1);
    let (node, metrics) = (rig.executor.node(), Arc::new(Metrics::default()));
    let plane = rig.on(&node);
    let config = WorkerConfig::new(rig.universe, id(1));
    let _worlds = WorldWorker::start(plane.clone(), config, Calls::default(), metrics.clone());
    let sending = rig.clone();
    rig.executor.block_on(async move {
        sending.send(world_id(1), vec![script_event("emit e")]).await.unwrap();
    });
    rig.executor.run_for(SECOND);
    let config = AdapterWorkerConfig::default();
    let adapters = adapter_worker(&plane, rig.universe, id(101), config, plane.entropy.clone());
    let adapters = adapters.serve(Arc::new(Slow(plane.clock.clone()))).with_metrics(metrics.clone());
    node.spawn(Box::pin(async move { drop(adapters.run(std::future::pending()).await) }));
    rig.executor.run_for(SECOND * 10);
    let times = metrics.times(Timing::DispatchToReceipt);
    assert_eq!(times.count(), 1);
    assert!((990_000..=1_010_000).contains(&times.sum_us), "{} us of simulated time", times.sum_us);
}
