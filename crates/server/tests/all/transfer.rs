//! A universe moves from a folder to a database and back, and its worlds continue where they were.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::postgres::testing::{fresh_schema, shared};
use mundi_model::{Code, Coded, Value, WorldId, child::Lane};
use mundi_runtime::control::ClientRequest;
use mundi_server::{config::Config, node::Node, programs::Programs, transfer};
use mundi_store::transfer::Header;
use std::path::Path;

fn on_folder(folder: &Path) -> Config {
    let folder = folder.display().to_string();
    Config::load(None, [("MUNDI_DATA__FOLDER".to_owned(), folder)], &[]).unwrap()
}

fn on_database(objects: &Path) -> Config {
    let settings = [
        ("MUNDI_ENGINE__URL", shared().url().to_owned()),
        ("MUNDI_ENGINE__SCHEMA", fresh_schema()),
        ("MUNDI_OBJECTS__URL", format!("file://{}", objects.display())),
    ];
    Config::load(None, settings.map(|(name, value)| (name.to_owned(), value)), &[]).unwrap()
}

/// A deployment of its own in the cluster that `MUNDI_TEST_FDB` names.
#[cfg(feature = "foundationdb")]
fn on_cluster(objects: &Path) -> Config {
    let settings = [
        ("MUNDI_ENGINE__URL", mundi_engine::foundationdb::testing::fresh_url()),
        ("MUNDI_OBJECTS__URL", format!("file://{}", objects.display())),
    ];
    Config::load(None, settings.map(|(name, value)| (name.to_owned(), value)), &[]).unwrap()
}

async fn opened(config: &Config) -> Node {
    Node::open_configured(config, Programs::builtin()).await.unwrap()
}

async fn add(node: &Node, world: WorldId, number: u32) -> Value {
    node.universe("default").unwrap().call(world, "add", Value::Integer(number.into())).await.unwrap()
}

/// A worker that was drained is gone: nobody serves the universe any more.
async fn export(from: &Config, place: &str) -> Header {
    transfer::export(from, "default", place, |_| {}).await.unwrap()
}

async fn closed(node: Node) {
    node.drain().await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_universe_moves_to_a_database_and_back_and_its_worlds_go_on() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let stations = [(on_database(&at("objects")), "there"), (on_folder(&at("last")), "back")];
    moves_through(home.path(), on_folder(&at("first")), stations).await;
}

/// A cluster's versions are far above those of a new folder or table; a folder and PostgreSQL begin above those of the cluster.
#[cfg(feature = "foundationdb")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_universe_moves_between_all_three_engines_and_its_worlds_go_on() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let stations = [
        (on_cluster(&at("objects-1")), "to a cluster"),
        (on_database(&at("objects-2")), "to a database"),
        (on_cluster(&at("objects-3")), "to another deployment"),
        (on_folder(&at("last")), "back"),
    ];
    moves_through(home.path(), on_folder(&at("first")), stations).await;
}

async fn moves_through<const N: usize>(home: &Path, first: Config, stations: [(Config, &str); N]) {
    let at = |name: &str| home.join(name);
    let node = opened(&first).await;
    let world = node.universe("default").unwrap().create("counter").await.unwrap();
    for _ in 0..50 {
        add(&node, world, 1).await; // many commits: the folder's stamps are far above those of a new engine
    }
    let large = vec![7u8; 300_000];
    let universe = node.universe("default").unwrap();
    let hash =
        mundi_store::blob::Blobs::put(&node.plane().blobs, universe.id(), large.clone().into(), &[]).await.unwrap();
    let id = universe.id();
    let request = ClientRequest { client_request_id: "limit".into(), payload: mundi_model::Hash::of(b"9") };
    universe.ops().budget_set(world, vec![(Lane::Tokens, Some(9))], &request).await.unwrap();
    drop(universe);
    closed(node).await;

    let (mut from, mut sum) = (first, 50);
    for (to, place) in stations {
        let place = at(place);
        let place = place.display().to_string();
        let exported = export(&from, &place).await;
        assert!(exported.keys > 20 && exported.objects >= 1, "{exported:?}");
        let again = transfer::export(&from, "default", &place, |_| {}).await.unwrap_err();
        assert_eq!(again.code(), Code::TransferRefused, "a whole export is left alone: {again}");
        let imported = transfer::import(&to, &place, |_| {}).await.unwrap();
        assert_eq!(imported, exported);
        let twice = transfer::import(&to, &place, |_| {}).await.unwrap_err();
        assert_eq!(twice.code(), Code::TransferRefused, "it is here already: {twice}");
        let node = opened(&to).await;
        assert_eq!(node.universe("default").unwrap().id(), id);
        sum += 1;
        // What is sent arrives behind the cursor, if stamps begin again.
        assert_eq!(add(&node, world, 1).await, Value::Integer(sum.into()));
        let body = mundi_store::blob::Blobs::get(&node.plane().blobs, id, hash).await.unwrap();
        assert!(body == large, "a large body moved with it");
        let budget = node.universe("default").unwrap().ops().budget(world).await.unwrap();
        assert!(budget.iter().any(|(lane, budget)| (*lane, budget.limit) == (Lane::Tokens, Some(9))), "{budget:?}");
        let busy = transfer::export(&to, "default", &at("busy").display().to_string(), |_| {}).await;
        if to.engine.is_shared() {
            assert_eq!(busy.unwrap_err().code(), Code::TransferRefused, "somebody serves it");
        }
        closed(node).await;
        from = to;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_or_unsealed_export_is_refused_and_a_broken_off_one_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let (from, to) = (on_folder(&at("from")), on_folder(&at("to")));
    let node = opened(&from).await;
    let world = node.universe("default").unwrap().create("counter").await.unwrap();
    add(&node, world, 3).await;
    closed(node).await;
    let place = at("export").display().to_string();
    export(&from, &place).await;
    // As it was before it was sealed.
    std::fs::remove_file(at("export/universe")).unwrap();
    let unsealed = transfer::import(&to, &place, |_| {}).await.unwrap_err();
    assert_eq!(unsealed.code(), Code::TransferInvalid, "{unsealed}");
    export(&from, &place).await; // it goes on where it was
    let part = at("export/keys/00000000");
    let whole = std::fs::read(&part).unwrap();
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    std::fs::write(&part, damaged).unwrap();
    let refused = transfer::import(&to, &place, |_| {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::TransferInvalid, "{refused}");
    std::fs::write(&part, whole).unwrap();
    transfer::import(&to, &place, |_| {}).await.expect("it goes on where it was");
    let node = opened(&to).await;
    assert_eq!(add(&node, world, 4).await, Value::Integer(7.into()));
    closed(node).await;
}
