//! Counters, timings and log events of a shell.

use crate::{SECOND, id, send, start, start_with};
use mundi_model::Code;
use mundi_runtime::{
    metrics::{Metric, Metrics},
    shell::{LogEvent, LogKind, Policy, ReplayEvent, ReplayKind, Report},
    testing::Rig,
};
use mundi_store::Clock;
use parking_lot::Mutex;
use std::sync::Arc;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

#[test]
fn steps_are_told_apart_by_source_and_timed_by_the_injected_clock() {
    let rig = Rig::new(1);
    let events: Arc<Mutex<Vec<ReplayEvent>>> = Arc::default();
    let hook = events.clone();
    let policy = Policy { claim_ttl_ms: 10_000, ..Policy::default() };
    let (_stop, _, report) =
        start_with(&rig, Report::new().with_replay_hook(move |event| hook.lock().push(event)), policy);
    let now_ns = rig.executor.now_ns();
    send(&rig, &[(0, "slow"), (0, "fine"), (now_ns + 5_000_000_000, "slow")]);
    rig.executor.run_for(SECOND * 10);
    let counters = report.snapshot();
    assert_eq!((counters.inbox_attempts, counters.timer_attempts, counters.successes), (2, 1, 3));
    assert_eq!((counters.latency_samples, counters.latency_total_ms, counters.latency_max_ms), (3, 6_000, 3_000));
    let kinds: Vec<_> = events.lock().iter().map(|event| (event.kind, event.attempt)).collect();
    let steps = |attempt, result| [(attempt, 1), (result, 1)];
    let inbox = steps(ReplayKind::InboxAttempt, ReplayKind::InboxResult);
    assert_eq!(kinds, [inbox, inbox, steps(ReplayKind::TimerAttempt, ReplayKind::TimerResult)].concat());
}

#[test]
fn log_events_say_what_happened_to_which_message_and_dead_letters_are_counted() {
    let rig = Rig::new(1);
    let (metrics, logged) = (Arc::new(Metrics::default()), Arc::<Mutex<Vec<LogEvent>>>::default());
    let log = logged.clone();
    let report = Report::new().with_metrics(metrics.clone()).with_log_sink(move |event| log.lock().push(event));
    let policy = Policy { retry_budget_max: 2, ..Policy::default() };
    let _running = start_with(&rig, report, policy);
    send(&rig, &[(0, "busy"), (0, "wrong")]);
    rig.executor.run_for(SECOND * 5);
    let logged = logged.lock();
    let sequence = logged[0].place.unwrap().seq;
    let of = |first: bool| -> Vec<_> {
        let own = logged.iter().filter(|event| (event.place.unwrap().seq == sequence) == first);
        own.map(|event| (event.kind, event.worker, event.code, event.attempt)).collect()
    };
    let (busy, wrong) = (Some(Code::EngineBusy), Some(Code::CommandInvalid));
    let first = [
        (LogKind::RetryableFailure, id(1), busy, 1),
        (LogKind::Requeued, id(1), None, 1),
        (LogKind::RetryableFailure, id(1), busy, 2),
        (LogKind::DeadLettered, id(1), None, 2),
    ];
    assert_eq!(of(true), first);
    let second = [(LogKind::NonRetryableFailure, id(1), wrong, 1), (LogKind::DeadLettered, id(1), None, 1)];
    assert_eq!(of(false), second);
    assert_eq!(metrics.get(Metric::DeadLetters), 2);
}

/// Remembers the fields of every event of the shell.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "mundi_runtime::shell"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = format!("{} ", event.metadata().level());
        event.record(&mut Fields(&mut text));
        self.0.lock().push(text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn log_events_go_to_tracing_with_all_their_fields() {
    let events = Events::default();
    tracing::subscriber::with_default(events.clone(), || {
        let rig = Rig::new(1);
        let _running = start(&rig, Report::new());
        send(&rig, &[(0, "wrong")]);
        rig.executor.run_for(SECOND);
    });
    let events = events.0.lock();
    assert_eq!(events.len(), 2, "{events:?}");
    let worker = format!("worker={}", id(1));
    for (event, kind) in events.iter().zip(["non_retryable_failure", "dead_lettered"]) {
        let kind = format!("kind=\"{kind}\"");
        for field in ["WARN", &kind, &worker, "sequence=q_", "attempt=1"] {
            assert!(event.contains(field), "{field} is not in {event}");
        }
    }
    assert!(events[0].contains("status=\"COMMAND_INVALID\""), "{}", events[0]);
}
