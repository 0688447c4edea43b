//! The walk: what is reachable, and a report of what is not.

use super::{
    order::Graph,
    roots::{Found, Roots},
    scan::scan,
};
#[cfg(test)]
use super::{pace::Pace, worlds::Worlds};
#[cfg(test)]
use crate::blobs::Cas;
use crate::{
    StoreError,
    keyspace::{
        Family,
        blob_edge::{self, BlobEdge},
        cas_meta::{self, Body, CasMeta, Generation},
        decode_value,
    },
};
use mundi_engine::Engine;
use mundi_model::Hash;
#[cfg(test)]
use mundi_model::UniverseId;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The findings of a walk. It holds one entry per object of the universe in memory while it runs.
#[derive(Debug, Clone)]
pub struct WalkReport {
    pub began_at_ns: u64,
    pub worlds: u64,
    pub objects: usize,
    /// Objects that are referred to, or too young to be judged.
    pub reachable: usize,
    /// Objects without a reference, referrers before the objects that they refer to.
    pub unreachable: Vec<Unreachable>,
    pub unreachable_bytes: u64,
    /// Unreachable objects that declare references in a circle. No content can do that, so they are left alone.
    pub circular: Vec<Hash>,
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

/// Finds what nothing refers to, and changes nothing, as fast as it goes. Objects younger than `grace` count as referred to, and
/// so does all that they refer to: their callers have not had the time to refer to them.
#[cfg(test)]
pub(super) async fn walk<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    grace: Duration,
) -> Result<WalkReport, StoreError> {
    let pace = Pace::unbounded(cas.clock.clone());
    let roots = Roots { cas, universe, pace: &pace };
    let (began_at_ns, mut found, mut worlds) = (cas.clock.now_ns(), Found::default(), 0);
    roots.of_universe(&mut found).await?;
    let mut all = Worlds::above(&cas.engine, universe, None, &pace);
    while let Some(world) = all.next().await? {
        roots.of_world(world, &mut found).await?;
        worlds += 1;
    }
    judge(&roots, began_at_ns, worlds, grace, found).await
}

/// Tells what nothing refers to, from what was found to be referred to by a walk that began then.
///
/// An object that was put since the walk began is young, whatever `grace` is, and so it is not judged by a walk that may have
/// passed the place of its reference.
pub(super) async fn judge<E: Engine>(
    roots: &Roots<'_, E>,
    began_at_ns: u64,
    worlds: u64,
    grace: Duration,
    found: Found,
) -> Result<WalkReport, StoreError> {
    let grace_ns = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX).max(1);
    let objects = objects(roots).await?;
    let graph = Graph::new(edges(roots).await?);
    let mut reachable = found.all;
    let is_young = |object: &Object| began_at_ns.saturating_sub(object.put_at_ns) < grace_ns;
    reachable.extend(objects.iter().filter(|(_, object)| is_young(object)).map(|(hash, _)| *hash));
    graph.close(&mut reachable);
    Ok(Findings { began_at_ns, objects, graph, reachable }.into_report(worlds))
}

struct Object {
    size: u64,
    put_at_ns: u64,
    condemned_at_ns: Option<u64>,
    generation: Option<Generation>,
}

async fn objects<E: Engine>(roots: &Roots<'_, E>) -> Result<BTreeMap<Hash, Object>, StoreError> {
    let (mut objects, universe) = (BTreeMap::new(), roots.universe);
    scan(&roots.cas.engine, roots.pace, cas_meta::span(universe), |key, value| {
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

async fn edges<E: Engine>(roots: &Roots<'_, E>) -> Result<BTreeMap<Hash, BTreeSet<Hash>>, StoreError> {
    let (mut edges, universe) = (BTreeMap::new(), roots.universe);
    scan(&roots.cas.engine, roots.pace, blob_edge::span(universe), |key, value| {
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
    fn into_report(self, worlds: u64) -> WalkReport {
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
            wrongly_condemned: objects.iter().filter(is_wrong).map(|(hash, _)| *hash).collect(),
            bodies: objects.iter().filter_map(|(hash, object)| Some((*hash, object.generation?))).collect(),
            graph,
        }
    }
}
