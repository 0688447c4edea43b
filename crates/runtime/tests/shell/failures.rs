//! Retries with growing waits, dead letters, and the policy for failures that no retry helps.

use crate::{Obedient, SECOND, config, dead_letters, id, send, send_mail, start, start_with};
use bytes::Bytes;
use mundi_model::Code;
use mundi_runtime::{
    metrics::{Metric, Metrics},
    shell::{
        Ended, Failed, Frame, LogKind, OnNonRetryable, Policy, ReplayEvent, ReplayKind, Report, Shell, ShellConfig,
    },
    testing::Rig,
};
use mundi_store::{Clock, protocol::NewMail};
use parking_lot::Mutex;
use std::sync::Arc;

#[test]
fn a_failure_is_retried_with_growing_waits_and_then_becomes_a_dead_letter() {
    let rig = Rig::new(1);
    let events: Arc<Mutex<Vec<ReplayEvent>>> = Arc::default();
    let logged = Arc::new(Mutex::new(Vec::new()));
    let (hook, log) = (events.clone(), logged.clone());
    let report = Report::new()
        .with_replay_hook(move |event| hook.lock().push(event))
        .with_log_sink(move |event| log.lock().push(event.kind));
    let (_stop, done, report) = start(&rig, report);
    send(&rig, &[(0, "busy"), (0, "conflict"), (0, "wrong"), (0, "fine")]);
    rig.executor.run_for(SECOND / 100);
    assert_eq!(*done.lock(), ["busy", "conflict", "wrong", "fine"], "a retry does not hold up the others");
    rig.executor.run_for(SECOND * 5);
    assert_eq!(done.lock().len(), 4 + 1 + 1 + 4);
    let letters: Vec<_> = dead_letters(&rig).into_iter().map(|letter| (letter.code, letter.attempts)).collect();
    let letter = |code: &str, attempts| (code.to_owned(), attempts);
    assert_eq!(letters.len(), 3);
    for expected in [letter("COMMAND_INVALID", 1), letter("ENGINE_BUSY", 4), letter("TRANSACTION_CONFLICT", 4)] {
        assert!(letters.contains(&expected), "{letters:?}");
    }
    let counters = report.snapshot();
    assert_eq!((counters.busy_retries, counters.conflict_retries, counters.non_retryable), (4, 4, 1));
    assert_eq!((counters.requeues, counters.dead_letters, counters.attempts()), (6, 3, 10));
    assert_eq!(events.lock().iter().filter(|event| event.kind == ReplayKind::InboxAttempt).count(), 10);
    assert!(events.lock().iter().all(|event| Frame::decode(&event.frame).is_ok()));
    assert_eq!(logged.lock().iter().filter(|kind| **kind == LogKind::Requeued).count(), 6);
}

/// Once a delayed message was given up after four attempts, although its sender had been promised delivery.
#[test]
fn a_delivery_is_tried_for_as_long_as_a_timer_is() {
    let rig = Rig::new(1);
    let (_stop, done, report) = start_with(&rig, Report::new(), Policy::of_deliveries());
    send(&rig, &[(rig.executor.now_ns() + 1, "busy")]);
    rig.executor.run_for(SECOND * 600);
    assert_eq!((dead_letters(&rig).len(), report.snapshot().dead_letters), (0, 0), "ten minutes are not too long");
    rig.executor.run_for(SECOND * 600);
    assert_eq!(done.lock().len(), 20);
    assert_eq!(dead_letters(&rig)[0].attempts, 20);
    assert_eq!(report.snapshot().dead_letters, 1);
}

/// A look into a mailbox passes over a few hundred messages that wait for their next attempt, and no more.
#[test]
fn any_number_of_deliveries_that_are_tried_again_holds_up_none() {
    let rig = Rig::new(1);
    let (_stop, done, _) = start_with(&rig, Report::new(), Policy::of_deliveries());
    let due_ns = rig.executor.now_ns() + 1;
    for _ in 0..6 {
        send(&rig, &[(due_ns, "busy"); 100]);
    }
    rig.executor.run_for(SECOND * 60);
    done.lock().clear();
    send(&rig, &[(rig.executor.now_ns() + 1, "fine")]);
    rig.executor.run_for(SECOND);
    assert!(done.lock().iter().any(|done| done == "fine"), "{} others", done.lock().len());
}

/// The policy decides whether a worker stops or escalates. The message is a dead letter in any case.
#[test]
fn a_shell_goes_on_stops_or_escalates_after_a_non_retryable_failure() {
    let ended = |on_non_retryable: OnNonRetryable| {
        let rig = Rig::new(1);
        let metrics = Arc::new(Metrics::default());
        let policy = Policy { on_non_retryable, retry_budget_max: 1, ..Policy::default() };
        let (stop, done, _) = start_with(&rig, Report::new().with_metrics(metrics.clone()), policy);
        send(&rig, &[(0, "busy"), (0, "wrong"), (0, "fine")]);
        rig.executor.run_for(SECOND);
        assert_eq!(dead_letters(&rig).len(), 2);
        let stopped = metrics.get(Metric::ShellsStopped);
        stop.request_stop();
        (rig.executor.block_on(async move { stop.join().await }), stopped, done.lock().len())
    };
    let failed = Failed { code: Code::CommandInvalid, reason: "wrong".to_owned() };
    assert_eq!(ended(OnNonRetryable::DeadLetter), (Ended::Asked, 0, 3));
    assert_eq!(ended(OnNonRetryable::Stop), (Ended::Stopped(failed.clone()), 1, 2), "a retryable one does not stop it");
    assert_eq!(ended(OnNonRetryable::Escalate), (Ended::Escalated(failed), 1, 2));
}

/// Each knob, one by one: what it changes when nothing else does.
#[test]
fn each_knob_of_the_policy_is_kept() {
    let tries = |policy: Policy, seconds: u32| {
        let rig = Rig::new(1);
        let (_stop, done, _) = start_with(&rig, Report::new(), policy);
        send(&rig, &[(0, "busy")]);
        rig.executor.run_for(SECOND * seconds);
        done.lock().len()
    };
    assert_eq!(tries(Policy { retry_budget_max: 7, ..Policy::default() }, 60), 7);
    assert_eq!(
        tries(Policy { backoff_ms: 2_000, ..Policy::default() }, 3),
        2,
        "the third attempt waits for four seconds more"
    );
    let rig = Rig::new(1);
    let (_stop, done, _) = start_with(&rig, Report::new(), Policy { claim_ttl_ms: 10_000, ..Policy::default() });
    send(&rig, &[(0, "slow")]);
    rig.executor.run_for(SECOND * 20);
    assert_eq!(done.lock().len(), 1, "a claim that lives long enough is not taken again");
    let steps = |batch_max: usize| {
        let rig = Rig::new(1);
        send(&rig, &[(0, "a"), (0, "b"), (0, "c")]);
        let handler = Obedient { plane: rig.plane.clone(), done: Arc::default() };
        let policy = Policy { batch_max, ..Policy::default() };
        let (plane, config) = (rig.plane.clone(), ShellConfig { policy, ..config(&rig) });
        rig.executor.block_on(async move {
            Shell::boot(plane, config, handler, Arc::default()).await.unwrap().0.tick().await.unwrap().steps
        })
    };
    assert_eq!((steps(2), steps(64)), (2, 3));
    let rests = |idle_ms_max: u64| {
        let rig = Rig::new(1);
        let _running = start_with(&rig, Report::new(), Policy { idle_ms_max, ..Policy::default() });
        rig.executor.run_for(SECOND);
        let polls = rig.executor.polls();
        rig.executor.run_for(SECOND * 10);
        rig.executor.polls() - polls
    };
    assert!(rests(1_000) > rests(60_000), "it looks at least so often");
    // The engine refuses three transactions when the message is done, the one that acknowledges it among them.
    let done = |requeue_attempts_max: u32| {
        let rig = Rig::new(1);
        let (_stop, done, _) = start_with(&rig, Report::new(), Policy { requeue_attempts_max, ..Policy::default() });
        send(&rig, &[(0, "refused")]);
        rig.executor.run_for(SECOND * 5);
        done.lock().len()
    };
    assert_eq!((done(4), done(3)), (1, 2), "given up too early, it is left to the end of its claim and done again");
}

#[test]
fn a_frame_that_is_none_or_for_someone_else_is_a_dead_letter() {
    let rig = Rig::new(1);
    let (_stop, done, _) = start(&rig, Report::new());
    let elsewhere = Frame::command(id(2), b"m".to_vec(), b"fine".to_vec()).to_mail(0).unwrap();
    send_mail(&rig, vec![NewMail { frame: Bytes::from_static(b"nonsense"), ..elsewhere.clone() }, elsewhere]);
    rig.executor.run_for(SECOND);
    assert_eq!(*done.lock(), [""; 0]);
    assert!(dead_letters(&rig).iter().all(|letter| letter.code == "FRAME_INVALID") && dead_letters(&rig).len() == 2);
}
