//! Manifests that worlds of an embedded node may run, and folders that a node refuses.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, Transaction};
use mundi_kernel::manifest::{Manifest, Schema};
use mundi_model::{Code, Coded, Hash, Value, WorldId};
use mundi_runtime::Plane;
use mundi_server::{
    node::{Node, NodeConfig, Universe},
    programs::Programs,
};
use mundi_store::{
    blob::Blobs,
    keyspace::schema_version::{self, SchemaVersion},
};
use std::{path::Path, sync::Arc};

async fn open(folder: &Path) -> (Node, Arc<Universe>) {
    let node = Node::open(folder, Programs::builtin(), NodeConfig::default()).await.unwrap();
    let universe = node.universe("default").unwrap();
    (node, universe)
}

/// The manifest of the counter, with one event more.
async fn counter_and(universe: &Universe, event: &str) -> Manifest {
    let bytes = Blobs::get(&universe.plane().blobs, universe.id(), universe.manifests()["counter"]).await.unwrap();
    let mut manifest = Manifest::from_bytes(&bytes).unwrap();
    manifest.events.insert(event.to_owned(), Schema::anything());
    manifest
}

async fn put(universe: &Universe, manifest: &Manifest) -> Hash {
    Blobs::put(&universe.plane().blobs, universe.id(), manifest.to_bytes().into(), &[]).await.unwrap()
}

async fn create(universe: &Universe, n: u8, manifest: Hash) -> Result<WorldId, Code> {
    let (world, now_ns) = (WorldId::from_bytes([n; 16]), universe.plane().now_ns());
    universe.ops().world_create(world, manifest, now_ns).await.map(|_| world).map_err(|error| error.code())
}

#[tokio::test]
async fn an_embedder_registers_a_manifest_before_worlds_run_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let (node, universe) = open(folder.path()).await;
    let manifest = counter_and(&universe, "another").await;
    let hash = put(&universe, &manifest).await;
    assert_eq!(create(&universe, 1, hash).await, Err(Code::ManifestNotRegistered));
    assert_eq!(universe.register(&manifest).await.unwrap(), hash);
    let world = create(&universe, 1, hash).await.unwrap();
    assert_eq!(universe.call(world, "add", Value::Integer(2.into())).await.unwrap(), Value::Integer(2.into()));
    node.drain().await;
    node.stop().await;
}

#[tokio::test]
async fn a_folder_of_an_earlier_development_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (node, universe) = open(folder.path()).await;
    let mut tx = universe.plane().engine().begin().await.unwrap();
    let before = SchemaVersion { minor: SchemaVersion::OLDEST.minor - 1, ..SchemaVersion::OLDEST };
    tx.put(schema_version::key(universe.id()).as_bytes(), before.to_bytes().to_vec()).unwrap();
    tx.commit().await.unwrap();
    node.drain().await;
    node.stop().await;
    drop((node, universe));
    let refused = Node::open(folder.path(), Programs::builtin(), NodeConfig::default()).await.err().unwrap();
    assert_eq!(refused.code(), Code::SchemaMismatch);
}
