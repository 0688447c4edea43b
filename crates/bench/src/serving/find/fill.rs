//! Many worlds and a long journal, made through the library: without HTTP, and as many at a time as a commit group takes.

use futures_util::{StreamExt, TryStreamExt, stream};
use mundi_model::{LabelChange, Labels, Value, WorldAddress};
use mundi_runtime::Plane;
use mundi_server::{
    node::{Node, NodeConfig, Universe},
    programs::Programs,
};
use std::{
    collections::BTreeMap,
    error::Error,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Made at a time.
const TOGETHER: usize = 256;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FillSettings {
    /// The folder of a server that is not running, or of none yet.
    #[arg(long)]
    data: PathBuf,
    /// Counters `w0`, `w1` and so on.
    #[arg(long, default_value_t = 0)]
    worlds: usize,
    /// Each world has the labels `customer` (a hundred have the same) and `tier`, and takes a turn that journals them.
    #[arg(long)]
    labels: bool,
    /// Puts into the world `long`, whose program is `kv`.
    #[arg(long, default_value_t = 0)]
    records: usize,
}

pub(crate) fn fill(settings: &FillSettings) -> Result<(), Box<dyn Error>> {
    in_process(&settings.data, (0..settings.worlds, settings.labels), settings.records)
}

/// Fills the folder of a server that is not running.
pub(super) fn in_process(
    folder: &Path,
    (worlds, labels): (Range<usize>, bool),
    records: usize,
) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let node = Node::open(folder, Programs::builtin(), NodeConfig::default()).await?;
        let universe = node.universe("default").ok_or("the default universe is missing")?;
        // The journal first: a world with labels takes a turn, which journals them.
        let told = if records > 0 { lengthen(&universe, records).await } else { Ok(()) };
        let made = create(&universe, worlds, labels).await;
        node.stop().await;
        told.and(made)
    })
}

async fn create(universe: &Arc<Universe>, worlds: Range<usize>, labelled: bool) -> Result<(), Box<dyn Error>> {
    let manifest = *universe.manifests().get("counter").ok_or("there is no counter")?;
    let create = |number: usize| async move {
        let labels = [("customer", (number / 100).to_string()), ("tier", "gold".to_owned())];
        let set = Labels::new(labels.map(|(key, value)| (key.to_owned(), value)))?;
        let change = LabelChange { set, ..LabelChange::default() };
        let address = WorldAddress::Name(format!("w{number}").parse()?);
        let now_ns = universe.plane().now_ns();
        universe.ops().world_create_labelled(address, labelled.then_some(change), manifest, now_ns).await?;
        Ok::<_, Box<dyn Error>>(())
    };
    stream::iter(worlds.map(create)).buffer_unordered(TOGETHER).try_collect().await
}

async fn lengthen(universe: &Arc<Universe>, records: usize) -> Result<(), Box<dyn Error>> {
    let manifest = *universe.manifests().get("kv").ok_or("there is no kv")?;
    let address = WorldAddress::Name("long".parse()?);
    let world = address.world(universe.id());
    universe.ops().world_create(address, manifest, universe.plane().now_ns()).await?;
    let put = |number: usize| {
        let pairs =
            [("key", Value::Text(format!("k/{}", number % 200))), ("value", Value::Integer((number as u64).into()))];
        Value::Map(BTreeMap::from(pairs.map(|(name, value)| (name.to_owned(), value))))
    };
    let send = |number: usize| async move { universe.call(world, "put", put(number)).await.map(drop) };
    Ok(stream::iter((0..records).map(send)).buffer_unordered(TOGETHER).try_collect().await?)
}
