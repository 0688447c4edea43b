//! A node in one process: it starts on a folder, runs worlds, drains, and continues where it was.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::Memory;
use mundi_model::{Coded, Height, Value};
use mundi_runtime::world::SnapshotPolicy;
use mundi_server::{
    node::{Node, NodeConfig, Universe},
    programs::Programs,
};
use mundi_store::objects;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

fn map(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<BTreeMap<_, _>>())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

async fn in_memory() -> (Node, Arc<Universe>) {
    let objects = objects::open("memory://").unwrap();
    let node = Node::start(Memory::new(), objects, Programs::builtin(), NodeConfig::default()).await.unwrap();
    let universe = node.universe("default").unwrap();
    (node, universe)
}

/// The value under a key of a `kv` world, as soon as there is one.
async fn eventually(universe: &Universe, world: mundi_model::WorldId, key: &str) -> Value {
    for _ in 0..500 {
        // `put` says what was there before; the key of the probe is another one, so nothing is disturbed.
        let probe = map(&[("key", text("probe")), ("value", text("x"))]);
        universe.call(world, "put", probe).await.unwrap();
        let delete = universe.call(world, "delete", map(&[("key", text(key))])).await.unwrap();
        if delete != Value::Null {
            return delete;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing came under {key}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_keeps_its_worlds_over_a_stop_without_a_drain() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = None;
    for expected in [1u32, 2, 3] {
        let node = Node::open(folder.path(), Programs::builtin(), NodeConfig::default()).await.unwrap();
        let universe = node.universe("default").unwrap();
        let world = match world {
            Some(world) => world,
            None => *world.insert(universe.create("counter").await.unwrap()),
        };
        assert_eq!(universe.call(world, "add", Value::Null).await.unwrap(), Value::Integer(expected.into()));
        if expected == 2 {
            node.drain().await;
        }
        drop(universe);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_effects_messages_and_delays_reach_their_worlds() {
    let (node, universe) = in_memory().await;
    let (one, other) = (universe.create("kv").await.unwrap(), universe.create("kv").await.unwrap());
    let remind = map(&[("key", text("t")), ("value", text("ring")), ("in_ms", Value::Integer(20u32.into()))]);
    universe.send(one, "remind", remind).await.unwrap();
    assert_eq!(eventually(&universe, one, "t").await, text("ring"));

    let params = map(&[("bytes", Value::Bytes(b"hello".to_vec()))]);
    let ask = map(&[("key", text("e")), ("kind", text("blob.put")), ("params", params)]);
    universe.call(one, "ask", ask).await.unwrap();
    assert!(matches!(eventually(&universe, one, "e").await, Value::Map(_)), "the blob's hash");

    let tell = map(&[("world", text(&other.to_string())), ("key", text("m")), ("value", text("hi"))]);
    universe.send(one, "tell", tell).await.unwrap();
    assert_eq!(eventually(&universe, other, "m").await, text("hi"));

    let put = map(&[("key", text("d")), ("value", text("late"))]);
    universe.send_later(one, "put", put, Duration::from_millis(50)).await.unwrap();
    assert_eq!(eventually(&universe, one, "d").await, text("late"));
    node.drain().await;
    node.stop().await;
}

/// It was acknowledged: that its world is away for a moment does not cost it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_event_waits_for_a_world_that_comes_back_from_the_archive() {
    let (node, universe) = in_memory().await;
    let world = universe.create("kv").await.unwrap();
    let put = map(&[("key", text("d")), ("value", text("late"))]);
    universe.send_later(world, "put", put, Duration::from_millis(300)).await.unwrap();
    universe.ops().world_archive(world).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await; // four attempts would be over
    universe.ops().world_unarchive(world).await.unwrap();
    assert_eq!(eventually(&universe, world, "d").await, text("late"));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn universes_have_names_and_share_no_world() {
    let (node, universe) = in_memory().await;
    let (second, before) = node.create_universe("second").await.unwrap();
    assert!(!before && node.create_universe("second").await.unwrap().1);
    let world = universe.create("counter").await.unwrap();
    assert_eq!(second.call(world, "add", Value::Null).await.unwrap_err().code().as_str(), "WORLD_NOT_FOUND");
    for name in ["", "Upper", "a/b", &"x".repeat(65), &universe.id().to_string()] {
        assert_eq!(node.create_universe(name).await.err().unwrap().code().as_str(), "NAME_INVALID", "{name}");
    }
    assert_eq!(node.universes().len(), 2);
    node.stop().await;
}

/// Segments follow snapshots: what makes a snapshot due, moves the records far below it out of the engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_records_leave_the_engine_after_the_snapshots_that_the_policy_asks_for() {
    let snapshots = SnapshotPolicy { records: 500, ..SnapshotPolicy::default() };
    let config = NodeConfig { snapshots, ..NodeConfig::default() };
    let objects = objects::open("memory://").unwrap();
    let node = Node::start(Memory::new(), objects, Programs::builtin(), config).await.unwrap();
    let universe = node.universe("default").unwrap();
    let world = universe.create("counter").await.unwrap();
    let hot = async || {
        let found = universe.ops().describe_world(world).await.unwrap();
        (found.exported_to.map_or(0, Height::get), found.head.unwrap().height.get())
    };
    let mut sent = 0u32;
    while hot().await.0 == 0 {
        futures_util::future::join_all((0..100).map(|_| universe.send(world, "add", Value::Null))).await;
        sent += 100;
        assert!(sent < 10_000, "nothing leaves: {:?}", hot().await);
    }
    let (exported_to, head) = hot().await;
    assert!(exported_to >= 1_000 && head >= exported_to + 1_000, "the newest stay: {exported_to} of {head}");
    assert_eq!(universe.call(world, "add", Value::Null).await.unwrap(), Value::Integer((sent + 1).into()));
    universe.ops().verify_world(world).await.unwrap();
    node.stop().await;
}
