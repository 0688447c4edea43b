//! A running node follows its configuration: each policy is changed alone, and its effect is observed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::Memory;
use mundi_model::{
    Code, UniverseId, Value, WorkerId, cbor,
    record::{InboxItem, Input, Origin, Payload},
};
use mundi_runtime::{Plane, metrics::Metric, shell::Frame};
use mundi_server::{
    config::Config,
    node::{Node, SystemClock, Universe},
    programs::Programs,
};
use mundi_store::{
    Clock,
    blob::Blobs,
    objects,
    protocol::{NewItem, SendMail, expire_dedupe},
};
use std::{
    collections::BTreeMap,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A node in memory that goes by this configuration.
async fn node(settings: &[(&str, &str)]) -> (Node, Arc<Universe>) {
    node_on(objects::open("memory://").unwrap(), settings).await
}

async fn node_on(objects: objects::Objects, settings: &[(&str, &str)]) -> (Node, Arc<Universe>) {
    let config = config(settings).node().unwrap();
    let node = Node::start(Memory::new(), objects, Programs::builtin(), config).await.unwrap();
    let universe = node.universe("default").unwrap();
    (node, universe)
}

fn config(settings: &[(&str, &str)]) -> Config {
    let vars = settings.iter().map(|(name, value)| (format!("MUNDI_{name}"), (*value).to_owned()));
    Config::load(None, vars, &[]).unwrap()
}

/// Waits for something that must come; a test that waits for ever fails by its runner's limit.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn event(name: &str, value: &Value) -> NewItem {
    let origin = Origin::new(1);
    let value = Payload::Inline(cbor::encode(value));
    let input = Input::Event { schema: name.to_owned(), value, key: None };
    NewItem { item: InboxItem { input, origin }, dedupe: None }
}

/// In how many turns a new world takes four events that arrived together.
async fn turns(program: &str, name: &str, value: Value, settings: &[(&str, &str)]) -> u64 {
    let (node, universe) = node(settings).await;
    let world = universe.create(program).await.unwrap();
    let events = (0..4).map(|_| event(name, &value)).collect();
    universe.ops().enqueue_batch(world, events).await.unwrap();
    until(|| node.metrics().get(Metric::TurnItems) == 4).await;
    let turns = node.metrics().get(Metric::Turns);
    node.stop().await;
    turns
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_budgets_of_a_turn_are_configuration() {
    let add = async |settings: &[(&str, &str)]| turns("counter", "add", Value::Integer(1u32.into()), settings).await;
    assert_eq!(add(&[]).await, 1);
    assert_eq!(add(&[("WORLDS__CYCLE__ITEMS_MAX", "1")]).await, 4);
    assert_eq!(add(&[("WORLDS__CYCLE__STEPS_MAX", "1")]).await, 4);
    let remind = Value::Map(BTreeMap::from([
        ("key".to_owned(), Value::Text("t".to_owned())),
        ("value".to_owned(), Value::Text("ring".to_owned())),
        ("in_ms".to_owned(), Value::Integer(3_600_000u32.into())),
    ]));
    let remind = async |settings: &[(&str, &str)]| turns("kv", "remind", remind.clone(), settings).await;
    assert_eq!(remind(&[]).await, 1);
    assert_eq!(remind(&[("WORLDS__CYCLE__EFFECTS_MAX", "1")]).await, 4);
}

/// How often an effect is tried whose manifest does not say it, and the waits between the attempts.
async fn retries(settings: &[(&str, &str)]) -> (u32, u64, u64) {
    let (node, universe) = node(settings).await;
    let world = universe.create("kv").await.unwrap();
    let text = |text: &str| Value::Text(text.to_owned());
    let ask = [("key", text("k")), ("kind", text("external.task")), ("params", Value::Map(BTreeMap::new()))];
    let ask = Value::Map(ask.map(|(name, value)| (name.to_owned(), value)).into());
    universe.ops().enqueue_batch(world, vec![event("ask", &ask)]).await.unwrap();
    until(|| node.metrics().get(Metric::TurnItems) == 1).await;
    let effects = universe.ops().list_effects(Some(world), None, None, 2).await.unwrap().items;
    let [effect] = &effects[..] else { panic!("nobody carries it out: {effects:?}") };
    let terms = effect.item.terms;
    node.stop().await;
    (terms.attempts_max, terms.backoff_ms, terms.backoff_ms_max)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retry_policy_of_effects_whose_manifest_sets_none_is_configuration() {
    assert_eq!(retries(&[]).await, (4, 500, 60_000));
    assert_eq!(retries(&[("EFFECTS__RETRY__ATTEMPTS_MAX", "7")]).await, (7, 500, 60_000));
    assert_eq!(retries(&[("EFFECTS__RETRY__BACKOFF_MS", "20")]).await, (4, 20, 60_000));
    assert_eq!(retries(&[("EFFECTS__RETRY__BACKOFF_MS_MAX", "600")]).await, (4, 500, 600));
}

/// A node on which six calls of a counter have been snapshotted so often that segments are due, if there are to be any.
async fn snapshotted(settings: &[(&str, &str)]) -> Node {
    let often = [("WORLDS__SNAPSHOT_RECORDS", "1"), ("WORLDS__SEGMENTS__RECORDS_MIN", "1")];
    let settings: Vec<_> = often.iter().chain(settings).copied().collect();
    let (node, universe) = node(&settings).await;
    let world = universe.create("counter").await.unwrap();
    for _ in 0..6 {
        universe.call(world, "add", Value::Null).await.unwrap();
    }
    until(|| node.metrics().get(Metric::Snapshots) > 2).await;
    node
}

/// How many snapshots are taken while a world has six events, each in a turn of its own.
async fn snapshots(settings: &[(&str, &str)]) -> u64 {
    let (node, universe) = node(settings).await;
    let world = universe.create("counter").await.unwrap();
    for _ in 0..6 {
        universe.call(world, "add", Value::Null).await.unwrap();
    }
    if !settings.is_empty() {
        until(|| node.metrics().get(Metric::Snapshots) > 0).await;
    }
    node.stop().await;
    node.metrics().get(Metric::Snapshots)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_world_is_snapshotted_after_as_many_records_or_bytes_as_configured() {
    assert_eq!(snapshots(&[]).await, 0, "neither ten thousand records nor eight megabytes");
    for policy in [("WORLDS__SNAPSHOT_BYTES", "500"), ("WORLDS__SNAPSHOT_RECORDS", "5")] {
        assert!(snapshots(&[policy]).await < 6, "{policy:?} is more than one turn makes");
    }
}

/// The machine's clock, and as much ahead of it as a test says.
#[derive(Default)]
struct JumpingClock(AtomicU64);

impl Clock for JumpingClock {
    fn now_ns(&self) -> u64 {
        SystemClock.now_ns() + self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemClock.sleep(duration)
    }
}

/// Whether an event under a name that was sent before is found to be there, so much later.
async fn is_known_after(later: Duration, settings: &[(&str, &str)]) -> bool {
    let clock = Arc::new(JumpingClock::default());
    let (objects, config) = (objects::open("memory://").unwrap(), config(settings).node().unwrap());
    let node = Node::start_by(clock.clone(), Memory::new().into(), objects, Programs::builtin(), config).await.unwrap();
    let universe = node.universe("default").unwrap();
    let world = universe.create("counter").await.unwrap();
    let send = async || {
        let NewItem { item, .. } = event("add", &Value::Null);
        universe.ops().enqueue_ingress(world, item, Some("order 7")).await.unwrap().before
    };
    assert!(!send().await);
    clock.0.fetch_add(u64::try_from(later.as_nanos()).unwrap(), Ordering::SeqCst);
    expire_dedupe(&node.plane().engine, &*clock, universe.id()).await.unwrap();
    let known = send().await;
    node.stop().await;
    known
}

/// Names go with their bucket of five minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotency_key_is_remembered_for_as_long_as_configured() {
    let (half_an_hour, two_hours) = (Duration::from_secs(1_800), Duration::from_secs(7_200));
    assert!(is_known_after(half_an_hour, &[]).await);
    assert!(!is_known_after(half_an_hour, &[("WORLDS__DEDUPE_WINDOW_MS", "60000")]).await);
    assert!(!is_known_after(two_hours, &[]).await);
    assert!(is_known_after(two_hours, &[("WORLDS__DEDUPE_WINDOW_MS", "10800000")]).await);
}

/// Segments are written beside the turns, and only by the holder of the world: they are waited for before it is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_are_made_or_not_as_configured() {
    let at_once = ("WORLDS__SEGMENTS__MARGIN_RECORDS", "0");
    let node = snapshotted(&[at_once]).await;
    until(|| node.metrics().get(Metric::SegmentsExported) > 0).await;
    node.stop().await;

    let off = [at_once, ("WORLDS__SEGMENTS__ENABLED", "false")];
    let all_within_the_margin = [("WORLDS__SEGMENTS__MARGIN_RECORDS", "1000")];
    for settings in [&off[..], &all_within_the_margin] {
        let node = snapshotted(settings).await;
        node.drain().await;
        assert_eq!(node.metrics().get(Metric::SegmentsExported), 0, "{settings:?}");
        node.stop().await;
    }
}

/// How many files a folder holds, at any depth.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_small_stays_in_the_engine_up_to_the_configured_size() {
    for (inline_bytes_max, expected) in [("4", 1), ("5", 0)] {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects::open(&folder.path().display().to_string()).unwrap();
        let (node, universe) = node_on(objects, &[("OBJECTS__INLINE_BYTES_MAX", inline_bytes_max)]).await;
        let before = files(folder.path());
        Blobs::put(&universe.plane().blobs, universe.id(), "five.".into(), &[]).await.unwrap();
        assert_eq!(files(folder.path()) - before, expected, "{inline_bytes_max}");
        node.stop().await;
    }
}

/// Sends a world worker a command that is none.
async fn send_nonsense(node: &Node, universe: UniverseId) {
    let mail = vec![Frame::command(node.worker(), b"m".to_vec(), b"nonsense".to_vec()).to_mail(0).unwrap()];
    let send = SendMail { universe, worker: node.worker(), mail, now_ns: node.plane().now_ns(), dedupe_window_ns: 1 };
    node.plane().run(&send).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_a_shell_ends_what_the_policy_says() {
    let (node, universe) = node(&[("SHELL__ON_NON_RETRYABLE", "escalate")]).await;
    assert!(!node.is_leaving());
    send_nonsense(&node, universe.id()).await;
    let failed = node.escalated().await;
    assert_eq!(failed.code, Code::CommandInvalid);
    assert!(node.is_leaving(), "nobody is sent here any more");
    assert_eq!(node.metrics().get(Metric::DeadLetters), 1);
    node.stop().await;

    let (node, universe) = self::node(&[]).await;
    send_nonsense(&node, universe.id()).await;
    send_nonsense(&node, universe.id()).await;
    until(|| node.metrics().get(Metric::DeadLetters) == 2).await;
    assert!(!node.is_leaving() && node.metrics().get(Metric::ShellsStopped) == 0);
    let (shell, counters) = node.shell_counters()[0];
    assert_eq!((shell, counters.inbox_attempts, counters.non_retryable), ("commands", 2, 2));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_of_a_shell_is_in_the_replay_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replay.ndjson");
    let (node, universe) = node(&[("NODE__REPLAY_LOG", path.to_str().unwrap())]).await;
    send_nonsense(&node, universe.id()).await;
    let world = universe.create("counter").await.unwrap();
    universe.send_later(world, "add", Value::Null, Duration::from_millis(20)).await.unwrap();
    let delayed = || node.shell_counters()[1].1;
    until(|| node.metrics().get(Metric::DeadLetters) == 1 && delayed().successes == 1).await;
    assert_eq!((delayed().inbox_attempts, delayed().timer_attempts), (0, 1));
    node.drain().await;
    node.stop().await;
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |worker: WorkerId| -> Vec<(String, String)> {
        let own = lines.iter().filter(|line| line["worker"] == worker.to_string());
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        own.map(|line| (text(&line["kind"]), text(&line["status"]))).collect()
    };
    let pair = |kind: &str, status: &str| (kind.to_owned(), status.to_owned());
    let failed = [pair("inbox_attempt", ""), pair("inbox_result", "COMMAND_INVALID"), pair("dead_lettered", "")];
    assert_eq!(of(node.worker()), failed);
    assert_eq!(of(mundi_server::node::Delayed::WORKER), [pair("timer_attempt", ""), pair("timer_result", "OK")]);
    assert!(lines[0]["frame"].as_str().unwrap().ends_with(&mundi_model::hex(b"nonsense")), "the frame is whole");
}
