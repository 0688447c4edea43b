//! One trace from an input to the receipts of all that followed from it; and what is counted on the way.

use crate::rig::{Outside, bodies, ops, start_measured, with_worlds};
use mundi_model::record::{Body, InboxItem, Ingress, Input, Origin};
use mundi_runtime::{
    metrics::{Metric, Metrics},
    shell::{Counters, Report},
    testing::script_event,
    trace::TraceContext,
};
use mundi_store::{Clock, testing::world_id};
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
    assert_eq!((adapters.attempts, adapters.successes, adapters.latency_samples), (2, 2, 2));
    assert_eq!(timers, Counters { attempts: 1, successes: 1, latency_samples: 1, ..timers });
}
