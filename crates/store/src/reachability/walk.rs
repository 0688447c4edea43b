//! The walk: what is reachable, and a report of what is not.

use super::{order::Graph, roots, scan::scan};
use crate::{
    StoreError,
    blobs::Cas,
    keyspace::{
        Family,
        blob_edge::{self, BlobEdge},
        cas_meta::{self, Body, CasMeta, Generation},
        decode_value,
    },
};
use mundi_engine::Engine;
use mundi_model::{Hash, UniverseId};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What a walk found. It holds one entry per object of the universe in memory while it runs.
#[derive(Debug, Clone)]
pub struct WalkReport {
    pub began_at_ns: u64,
    pub worlds: usize,
    pub objects: usize,
    /// Objects that are referred to, or too young to be judged.
    pub reachable: usize,
    /// What nothing refers to, referrers before what they refer to.
    pub unreachable: Vec<Unreachable>,
    pub unreachable_bytes: u64,
    /// Unreachable objects that declare references in a circle. No content can do that, so they are left alone.
    pub circular: Vec<Hash>,
    /// A world was deleted during the walk: what moved from it to another may have been missed. Nothing may be removed
    /// on the strength of this report.
    pub raced: bool,
    /// Reachable, although an earlier walk found otherwise.
    pub(super) wrongly_condemned: Vec<Hash>,
    pub(super) graph: Graph,
    pub(super) bodies: BTreeMap<Hash, Generation>,
}

/// An object that nothing refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreachable {
    pub hash: Hash,
    pub size: u64,
    pub put_at_ns: u64,
    /// Since when; absent if this walk is the first to find out.
    pub condemned_at_ns: Option<u64>,
}

/// Finds what nothing refers to, and changes nothing. Objects younger than `grace` count as referred to, and so does all
/// that they refer to: their callers have not had the time to refer to them.
pub async fn walk<E: Engine>(cas: &Cas<E>, universe: UniverseId, grace: Duration) -> Result<WalkReport, StoreError> {
    let began_at_ns = cas.clock.now_ns();
    let grace_ns = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX);
    // Objects first: what is put from now on is not judged.
    let objects = objects(cas, universe).await?;
    let graph = Graph::new(edges(cas, universe).await?);
    let worlds = roots::live_worlds(&cas.engine, universe).await?;
    let mut reachable = BTreeSet::new();
    roots::of_universe(&cas.engine, universe, &mut reachable).await?;
    for &world in &worlds {
        roots::of_world(&cas.engine, &cas.objects, universe, world, &mut reachable).await?;
    }
    let worlds_now = roots::live_worlds(&cas.engine, universe).await?;
    let is_young = |object: &Object| began_at_ns.saturating_sub(object.put_at_ns) < grace_ns;
    reachable.extend(objects.iter().filter(|(_, object)| is_young(object)).map(|(hash, _)| *hash));
    graph.close(&mut reachable);
    let report = Findings { began_at_ns, objects, graph, reachable };
    Ok(report.into_report(worlds.len(), !worlds.is_subset(&worlds_now)))
}

struct Object {
    size: u64,
    put_at_ns: u64,
    condemned_at_ns: Option<u64>,
    generation: Option<Generation>,
}

async fn objects<E: Engine>(cas: &Cas<E>, universe: UniverseId) -> Result<BTreeMap<Hash, Object>, StoreError> {
    let mut objects = BTreeMap::new();
    scan(&cas.engine, cas_meta::span(universe), |key, value| {
        let CasMeta { size, body, put_at_ns, condemned_at_ns } = decode_value(Family::CasMeta, key, value)?;
        let generation = match body {
            Body::Inline(_) => None,
            Body::Object(generation) => Some(generation),
        };
        objects.insert(cas_meta::parse(universe, key)?, Object { size, put_at_ns, condemned_at_ns, generation });
        Ok(())
    })
    .await?;
    Ok(objects)
}

async fn edges<E: Engine>(cas: &Cas<E>, universe: UniverseId) -> Result<BTreeMap<Hash, BTreeSet<Hash>>, StoreError> {
    let mut edges = BTreeMap::new();
    scan(&cas.engine, blob_edge::span(universe), |key, value| {
        let edge: BlobEdge = decode_value(Family::BlobEdge, key, value)?;
        edges.insert(blob_edge::parse(universe, key)?, edge.refs);
        Ok(())
    })
    .await?;
    Ok(edges)
}

struct Findings {
    began_at_ns: u64,
    objects: BTreeMap<Hash, Object>,
    graph: Graph,
    reachable: BTreeSet<Hash>,
}

impl Findings {
    fn into_report(self, worlds: usize, raced: bool) -> WalkReport {
        let Self { began_at_ns, objects, graph, reachable } = self;
        let unreachable: BTreeSet<Hash> = objects.keys().filter(|hash| !reachable.contains(hash)).copied().collect();
        let (ordered, circular) = graph.referrers_first(&unreachable);
        let describe = |hash: &Hash| {
            let Object { size, put_at_ns, condemned_at_ns, .. } = objects[hash];
            Unreachable { hash: *hash, size, put_at_ns, condemned_at_ns }
        };
        let is_wrong = |(hash, object): &(&Hash, &Object)| object.condemned_at_ns.is_some() && reachable.contains(hash);
        WalkReport {
            began_at_ns,
            worlds,
            objects: objects.len(),
            reachable: objects.len() - unreachable.len(),
            unreachable: ordered.iter().map(describe).collect(),
            unreachable_bytes: unreachable.iter().map(|hash| objects[hash].size).sum(),
            circular,
            raced,
            wrongly_condemned: objects.iter().filter(is_wrong).map(|(hash, _)| *hash).collect(),
            bodies: objects.iter().filter_map(|(hash, object)| Some((*hash, object.generation?))).collect(),
            graph,
        }
    }
}
