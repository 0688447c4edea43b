//! What is configured is what a running node does: each policy is changed alone, and its effect is seen.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::Memory;
use mundi_model::{
    Code, UniverseId, Value, WorkerId, cbor,
    record::{InboxItem, Input, Origin, Payload},
};
use mundi_runtime::{Plane, metrics::Metric, shell::Frame};
use mundi_server::{
    config::Config,
    node::{Node, Universe},
    programs::Programs,
};
use mundi_store::{
    blob::Blobs,
    objects,
    protocol::{NewItem, SendMail},
};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

/// A node in memory that goes by this configuration.
async fn node(settings: &[(&str, &str)]) -> (Node, Arc<Universe>) {
    node_on(objects::open("memory://").unwrap(), settings).await
}

async fn node_on(objects: objects::Objects, settings: &[(&str, &str)]) -> (Node, Arc<Universe>) {
    let vars = settings.iter().map(|(name, value)| (format!("MUNDI_{name}"), (*value).to_owned()));
    let config = Config::load(None, vars, &[]).unwrap().node().unwrap();
    let node = Node::start(Memory::new(), objects, Programs::builtin(), config).await.unwrap();
    let universe = node.universe("default").unwrap();
    (node, universe)
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
