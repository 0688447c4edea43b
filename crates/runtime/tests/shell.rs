//! The worker shell: boot, mailbox, retries, dead letters, timers, rest and stop.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_engine::{Engine, RangeRead, Transaction};
use mundi_model::{Code, Coded, Hash, WorkerId, cbor, limits};
use mundi_runtime::{
    Plane,
    calls::Calls,
    control::Ops,
    metrics::{Metric, Metrics},
    shell::{
        Command, Ended, Failed, Frame, FrameFlags, Handler, LogEvent, LogKind, OnNonRetryable, Policy, ReplayEvent,
        ReplayKind, Report, Shell, ShellConfig, WorkerCommands, send_commands,
    },
    testing::{Rig, TestPlane, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    Clock,
    keyspace::{
        dead_letter,
        mail_mark::{self, MailClass},
        queue::Queue,
        schema_version::{self, SchemaVersion},
    },
    protocol::{
        ClaimMail, ClaimedMail, Finish, FinishMail, MailClaimed, MailFinished, MailName, NewMail, SchemaGuarded,
        SendMail,
    },
    testing::world_id,
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

const SECOND: Duration = Duration::from_secs(1);

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

/// Does what the payload says, and remembers it.
#[derive(Clone)]
struct Obedient {
    plane: TestPlane,
    done: Arc<Mutex<Vec<String>>>,
}

impl Handler for Obedient {
    async fn handle(&self, frame: &Frame, _acknowledge: &FinishMail) -> Result<(), Failed> {
        let text = String::from_utf8_lossy(&frame.payload).into_owned();
        self.done.lock().push(text.clone());
        let fail = |code: Code| Err(Failed { code, reason: text.clone() });
        match text.as_str() {
            "busy" => fail(Code::EngineBusy),
            "conflict" => fail(Code::TransactionConflict),
            "wrong" => fail(Code::CommandInvalid),
            "slow" => {
                self.plane.clock.sleep(SECOND * 3).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn send(rig: &Rig, messages: &[(u64, &str)]) {
    let frame = |(due_ns, text): &(u64, &str)| {
        let frame = Frame::command(id(1), text.as_bytes().to_vec(), text.as_bytes().to_vec());
        frame.to_mail(*due_ns).unwrap()
    };
    send_mail(rig, messages.iter().map(frame).collect());
}

/// Says how many were sent.
fn send_mail(rig: &Rig, mail: Vec<NewMail>) -> usize {
    let (plane, universe) = (rig.plane.clone(), rig.universe);
    let (now_ns, dedupe_window_ns) = (rig.executor.now_ns(), limits::DEDUPE_WINDOW_NS);
    let send = SendMail { universe, worker: id(1), mail, now_ns, dedupe_window_ns };
    rig.executor.block_on(async move { plane.run(&send).await.unwrap().output })
}

fn config(rig: &Rig) -> ShellConfig {
    ShellConfig { bootstrap: true, ..ShellConfig::new(rig.universe, id(1)) }
}

fn start(rig: &Rig, report: Report) -> (mundi_runtime::shell::Stop, Arc<Mutex<Vec<String>>>, Arc<Report>) {
    start_with(rig, report, Policy::default())
}

fn start_with(
    rig: &Rig,
    report: Report,
    policy: Policy,
) -> (mundi_runtime::shell::Stop, Arc<Mutex<Vec<String>>>, Arc<Report>) {
    let handler = Obedient { plane: rig.plane.clone(), done: Arc::default() };
    let (done, report) = (handler.done.clone(), Arc::new(report));
    let config = ShellConfig { policy, ..config(rig) };
    let (plane, reporting) = (rig.plane.clone(), report.clone());
    let booted = rig.executor.block_on(async move { Shell::boot(plane, config, handler, reporting).await });
    (booted.unwrap().0.start(), done, report)
}

fn dead_letters(rig: &Rig) -> Vec<dead_letter::DeadLetter> {
    let looking = rig.clone();
    rig.executor.block_on(async move {
        let mut tx = looking.plane.engine.begin().await.unwrap();
        let read = RangeRead::prefix(dead_letter::prefix(looking.universe, Queue::Mailboxes).as_bytes(), 100);
        let page = tx.range(read).await.unwrap();
        page.items.iter().map(|(_, bytes)| cbor::decode(bytes).unwrap()).collect()
    })
}

#[test]
fn the_guard_takes_matches_raises_or_refuses_a_marker() {
    let rig = Rig::new(1);
    let boot = |change: fn(&mut ShellConfig)| {
        let (plane, mut config) = (rig.plane.clone(), ShellConfig::new(rig.universe, id(1)));
        change(&mut config);
        let handler = Obedient { plane: plane.clone(), done: Arc::default() };
        let booted = async move { Shell::boot(plane, config, handler, Arc::default()).await.map(|(_, how)| how) };
        rig.executor.block_on(booted).map_err(|error| error.code())
    };
    assert_eq!(boot(|_| {}), Err(Code::SchemaMissing));
    assert_eq!(boot(|config| config.bootstrap = true), Ok(SchemaGuarded::Bootstrapped));
    assert_eq!(boot(|_| {}), Ok(SchemaGuarded::Matches));
    const NEXT: SchemaVersion = SchemaVersion { minor: SchemaVersion::CURRENT.minor + 1, ..SchemaVersion::CURRENT };
    assert_eq!(boot(|config| config.schema = NEXT), Err(Code::SchemaMismatch), "without leave nothing is raised");
    let raised = boot(|config| (config.schema, config.bootstrap) = (NEXT, true));
    assert_eq!(raised, Ok(SchemaGuarded::Raised));
    assert_eq!(boot(|config| config.bootstrap = true), Err(Code::SchemaMismatch), "what is newer is refused");
    assert_eq!(boot(|config| config.schema = SchemaVersion { major: 9, minor: 9 }), Err(Code::SchemaMismatch));
    let spoiling = rig.clone();
    rig.executor.block_on(async move {
        let mut tx = spoiling.plane.engine.begin().await.unwrap();
        tx.put(schema_version::key(spoiling.universe).as_bytes(), "nonsense".to_owned()).unwrap();
        tx.commit().await.unwrap();
    });
    assert_eq!(boot(|config| config.bootstrap = true), Err(Code::SchemaMismatch));
}

#[test]
fn messages_are_done_in_their_order_and_leave_nothing_behind() {
    let rig = Rig::new(1);
    let (stop, done, report) = start(&rig, Report::new());
    send(&rig, &[(0, "a"), (0, "b")]);
    send(&rig, &[(0, "c")]);
    rig.executor.run_for(SECOND / 100);
    assert_eq!(*done.lock(), ["a", "b", "c"]);
    assert_eq!((report.snapshot().inbox_attempts, report.snapshot().successes), (3, 3));
    stop.request_stop();
    rig.executor.block_on(async move { stop.join().await });
    report.reset();
    assert_eq!(report.snapshot(), mundi_runtime::shell::Counters::default());
}

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

/// What was sent with a delay was given up after four attempts, although its sender was told that it will arrive.
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

/// Document 003: the caller decides whether a worker stops or escalates. The message is a dead letter in any case.
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

#[test]
fn a_timer_fires_at_its_time_and_the_shell_sleeps_until_then() {
    let rig = Rig::new(1);
    let (_stop, done, _) = start(&rig, Report::new());
    let now_ns = rig.executor.now_ns();
    send(&rig, &[(now_ns + 7_000_000_000, "later"), (0, "now")]);
    rig.executor.run_for(SECOND);
    let polls = rig.executor.polls();
    rig.executor.run_for(SECOND * 5);
    assert_eq!((done.lock().clone(), rig.executor.polls()), (vec!["now".to_owned()], polls), "nothing polls");
    rig.executor.run_for(SECOND * 2);
    assert_eq!(*done.lock(), ["now", "later"]);
}

fn only(claimed: MailClaimed) -> ClaimedMail {
    let MailClaimed::Messages(mut messages) = claimed else { panic!("nothing to claim") };
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

/// Once it was forgotten an hour after the message was due, however often that was put off.
#[test]
fn the_name_of_a_message_stays_while_it_is_put_off() {
    const WINDOW_NS: u64 = 1_000;
    let rig = Rig::new(1);
    let acting = rig.clone();
    rig.executor.block_on(async move {
        let (plane, universe, worker) = (&acting.plane, acting.universe, id(1));
        let (name, began_ns) = (Hash::of(b"name"), plane.now_ns());
        let send = async |after_ns: u64| {
            let mail = NewMail { due_ns: began_ns + 1, urgent: false, name: Some(name), frame: Bytes::from("frame") };
            let (mail, now_ns, dedupe_window_ns) = (vec![mail], began_ns + after_ns, WINDOW_NS);
            plane.run(&SendMail { universe, worker, mail, now_ns, dedupe_window_ns }).await.unwrap().output
        };
        assert_eq!((send(0).await, send(WINDOW_NS / 2).await), (1, 0));
        let claim = ClaimMail { universe, worker, token: [1; 16], now_ns: began_ns + 10, ttl_ns: 1_000, items_max: 1 };
        let ClaimedMail { place, claim, .. } = only(plane.run(&claim).await.unwrap().output);
        let not_before_ns = began_ns + 10 * WINDOW_NS;
        let name = Some(MailName { name, expires_at_ns: not_before_ns + WINDOW_NS });
        let how = Finish::Requeue { not_before_ns, name };
        plane.run(&FinishMail { universe, worker, place, claim, how }).await.unwrap();
        assert_eq!(send(5 * WINDOW_NS).await, 0, "it is still on its way");
        assert_eq!(send(12 * WINDOW_NS).await, 1, "its window is over");
    });
}

/// Once claim and acknowledge took a worker id and no attempt token, and removed before they checked.
#[test]
fn a_slow_worker_cannot_finish_what_was_claimed_again() {
    let rig = Rig::new(1);
    send(&rig, &[(0, "one")]);
    let acting = rig.clone();
    rig.executor.block_on(async move {
        let (plane, universe, worker) = (&acting.plane, acting.universe, id(1));
        let claim = async |token: u8| {
            let now_ns = plane.now_ns();
            let claim = ClaimMail { universe, worker, token: [token; 16], now_ns, ttl_ns: 1_000, items_max: 1 };
            plane.run(&claim).await.unwrap().output
        };
        let ClaimedMail { place, claim: slow, .. } = only(claim(1).await);
        assert!(matches!(claim(2).await, MailClaimed::Nothing { next_ns: Some(_), .. }), "busy even to its own worker");
        plane.clock.sleep(SECOND).await;
        let quick = only(claim(3).await).claim;
        assert_eq!((slow.attempt, quick.attempt), (1, 2));
        let finish = async |claim, how| {
            plane.run(&FinishMail { universe, worker, place, claim, how }).await.map(|done| done.output)
        };
        for how in [Finish::Acknowledge, Finish::Requeue { not_before_ns: 0, name: None }] {
            assert_eq!(finish(slow, how).await.unwrap_err().code(), Code::MailClaimLost);
        }
        assert_eq!(finish(quick, Finish::Acknowledge).await.unwrap(), MailFinished::Now);
        assert_eq!(finish(quick, Finish::Acknowledge).await.unwrap(), MailFinished::Before);
    });
}

#[test]
fn several_messages_are_claimed_together_the_urgent_ones_before_the_others() {
    let rig = Rig::new(1);
    send(&rig, &[(0, "a"), (0, "b"), (0, "c")]);
    let mut urgent = Frame::command(id(1), b"first".to_vec(), b"first".to_vec());
    urgent.flags.high_priority = true;
    send_mail(&rig, vec![urgent.to_mail(0).unwrap()]);
    let acting = rig.clone();
    rig.executor.block_on(async move {
        let (universe, worker) = (acting.universe, id(1));
        for expected in [&["first"][..], &["a", "b"], &["c"], &[]] {
            let claim = ClaimMail { universe, worker, token: [1; 16], now_ns: 1_000, ttl_ns: 1_000, items_max: 2 };
            let claimed = match acting.plane.run(&claim).await.unwrap().output {
                MailClaimed::Messages(messages) => messages,
                MailClaimed::Nothing { .. } => Vec::new(),
            };
            let text = |mail: &ClaimedMail| {
                String::from_utf8(Frame::decode_for(worker, &mail.frame).unwrap().payload).unwrap()
            };
            assert_eq!(claimed.iter().map(text).collect::<Vec<_>>(), expected);
        }
    });
}

/// Once sequence numbers began again when a queue had run empty.
#[test]
fn a_mailbox_that_ran_empty_does_not_start_over() {
    let rig = Rig::new(1);
    let mut places = Vec::new();
    for n in 0..3u8 {
        send(&rig, &[(0, "x")]);
        let acting = rig.clone();
        places.push(rig.executor.block_on(async move {
            let (universe, worker) = (acting.universe, id(1));
            let claim = ClaimMail { universe, worker, token: [n; 16], now_ns: 1, ttl_ns: 1, items_max: 1 };
            let claimed = acting.plane.run(&claim).await.unwrap().output;
            let ClaimedMail { place, claim, .. } = only(claimed);
            let how = Finish::Acknowledge;
            acting.plane.run(&FinishMail { universe, worker, place, claim, how }).await.unwrap();
            place.seq
        }));
    }
    assert!(places.is_sorted_by(|a, b| a < b));
}

#[test]
fn a_drain_finishes_what_is_due_and_a_crash_repeats_it() {
    let rig = Rig::new(1);
    let (stop, done, _) = start(&rig, Report::new());
    send(&rig, &[(0, "a"), (0, "b"), (u64::MAX, "never")]);
    stop.request_drain();
    rig.executor.block_on(async move { stop.join().await });
    assert_eq!(*done.lock(), ["a", "b"]);
    let node = rig.executor.node();
    let crashing = Rig { plane: rig.on(&node), ..rig.clone() };
    let (_stop, first, _) = start(&crashing, Report::new());
    send(&rig, &[(0, "slow")]);
    rig.executor.run_for(SECOND / 2);
    node.crash();
    let (_stop, second, _) = start(&rig, Report::new());
    rig.executor.run_for(SECOND * 10);
    assert!(first.lock().len() == 1 && !second.lock().is_empty() && dead_letters(&rig).is_empty());
    assert_eq!(Policy::default().retry_budget_max, 4);
}

#[test]
fn commands_reach_a_world_worker_through_its_mailbox() {
    let rig = Rig::new(1);
    let creating = rig.clone();
    rig.executor.block_on(async move {
        creating.create(world_id(1)).await.unwrap();
        creating.send(world_id(1), vec![script_event("add n")]).await.unwrap();
    });
    let worker_config = WorkerConfig::new(rig.universe, id(1));
    let worker = WorldWorker::start(rig.plane.clone(), worker_config, Calls::default(), Arc::new(Metrics::default()));
    let handler = WorkerCommands { plane: rig.plane.clone(), worker: worker.clone() };
    let (plane, config) = (rig.plane.clone(), config(&rig));
    let shell =
        rig.executor.block_on(async move { Shell::boot(plane, config, handler, Arc::default()).await.unwrap().0 });
    let _stop = shell.start();
    rig.executor.run_for(SECOND);
    assert_eq!(worker.worlds(), [world_id(1)]);
    let commanding = rig.clone();
    rig.executor.block_on(async move {
        send_commands(&commanding.plane, commanding.universe, id(1), &[Command::Revoke(world_id(1))]).await.unwrap();
    });
    rig.executor.run_for(SECOND);
    assert_eq!(worker.worlds(), []);
    let commanding = rig.clone();
    rig.executor.block_on(async move {
        send_commands(&commanding.plane, commanding.universe, id(1), &[Command::Drain]).await.unwrap();
    });
    rig.executor.run_for(SECOND);
    worker.wake(world_id(1));
    rig.executor.run_for(SECOND);
    assert_eq!(worker.worlds(), [], "a drained worker takes nothing");
}

fn flagged(text: &str, flags: FrameFlags) -> NewMail {
    let frame = Frame::command(id(1), text.as_bytes().to_vec(), text.as_bytes().to_vec());
    Frame { flags, ..frame }.to_mail(0).unwrap()
}

#[test]
fn what_has_high_priority_is_done_first_and_a_name_is_taken_once() {
    let rig = Rig::new(1);
    let (urgent, named) = (
        FrameFlags { high_priority: true, ..FrameFlags::default() },
        FrameFlags { dedupe: true, ..FrameFlags::default() },
    );
    let plain = FrameFlags::default();
    let mail = [("a", plain), ("b", named), ("c", urgent), ("b", named), ("a", plain), ("d", urgent)];
    assert_eq!(send_mail(&rig, mail.map(|(text, flags)| flagged(text, flags)).into()), 5);
    assert_eq!(send_mail(&rig, vec![flagged("b", named)]), 0, "also by another send");
    let (_stop, done, _) = start(&rig, Report::new());
    rig.executor.run_for(SECOND);
    assert_eq!(*done.lock(), ["c", "d", "a", "b", "a"]);
    rig.executor.run_for(SECOND * 3_601);
    assert_eq!(send_mail(&rig, vec![flagged("b", named), flagged("e", named)]), 2, "until its window is over");
    rig.executor.run_for(SECOND);
    assert_eq!(done.lock().len(), 7);
}

/// In a log-structured tree what was done is a tombstone: a scan of the dead costs more than all other work together.
#[test]
fn a_mailbox_is_read_from_its_mark_and_never_from_its_prefix() {
    let rig = Rig::new(1);
    let (_stop, done, _) = start(&rig, Report::new());
    let now_ns = rig.executor.now_ns();
    for n in 0..50 {
        send(&rig, &[(0, "x"), (now_ns + n * 3_000_000_000, "t")]);
        rig.executor.run_for(SECOND * 3);
    }
    assert_eq!(done.lock().len(), 100);
    let looking = rig.clone();
    let marks = rig.executor.block_on(async move {
        let mut tx = looking.plane.engine.begin().await.unwrap();
        let mut marks = Vec::new();
        for class in [MailClass::AtOnce, MailClass::Timed] {
            let key = mail_mark::key(looking.universe, id(1), class);
            let bytes = tx.get(key.as_bytes()).await.unwrap().expect("a mark");
            marks.push(cbor::decode::<mail_mark::MailMark>(&bytes).unwrap());
        }
        marks
    });
    assert!(marks[1].due_ns >= now_ns + 48 * 3_000_000_000, "{marks:?}");
    // What is sent for a time that has passed lies where the next look begins.
    send(&rig, &[(now_ns, "late")]);
    rig.executor.run_for(SECOND);
    assert_eq!(done.lock().last().unwrap(), "late");
}

#[test]
fn a_dead_letter_of_a_mailbox_is_inspected_replayed_drained_or_dropped() {
    let rig = Rig::new(1);
    let (_stop, done, _) = start(&rig, Report::new());
    send(&rig, &[(0, "wrong"), (0, "wrong"), (0, "wrong")]);
    rig.executor.run_for(SECOND);
    let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    let acting = ops.clone();
    let queue = Queue::Mailboxes;
    rig.executor.block_on(async move {
        let letters = acting.list_dead_letters(queue, None, None, 10).await.unwrap().items;
        assert_eq!(letters.len(), 3);
        let letter = acting.read_dead_letter(queue, letters[0].seq).await.unwrap();
        assert_eq!((letter.code.as_str(), letter.attempts, letter.worker), ("COMMAND_INVALID", 1, Some(id(1))));
        assert_eq!(Frame::decode(&letter.item).unwrap().payload, b"wrong");
        acting.replay_dead_letter(queue, letters[0].seq).await.unwrap();
        let again = acting.replay_dead_letter(queue, letters[0].seq).await.unwrap_err();
        assert_eq!(again.code(), Code::DeadLetterNotFound, "it is replayed once");
        acting.drop_dead_letter(queue, letters[1].seq).await.unwrap();
    });
    rig.executor.run_for(SECOND);
    assert_eq!(done.lock().len(), 4);
    assert_eq!(dead_letters(&rig).len(), 2, "the one that was left, and the one that failed again");
    rig.executor.block_on(async move {
        let mut seen = 0;
        let taken = ops
            .drain_dead_letters(queue, |letter| {
                seen += 1;
                std::future::ready(Frame::decode(&letter.letter.item).is_ok() && seen == 2)
            })
            .await;
        assert_eq!((taken.unwrap(), seen), (1, 2), "what is not taken stays");
        assert_eq!(ops.list_dead_letters(queue, None, None, 10).await.unwrap().items.len(), 1);
    });
}
