//! Read where a world comes from and what was forked from it.
//!
//! Guarantees: one consistent moment. Deleted ancestors cannot be: a world with forks is not deleted.
//! Unknown commit: cannot be; it writes nothing.

use super::require_world;
use crate::{
    OnUnknown, Protocol, StoreError,
    journal::JournalError,
    keyspace::{lineage_child, world_meta::Lineage},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, limits};

#[derive(Debug, Clone, Copy)]
pub struct ReadLineage {
    pub universe: UniverseId,
    pub world: WorldId,
    /// How many children are listed at most.
    pub children_max: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldLineage {
    /// The parent first.
    pub ancestors: Vec<Lineage>,
    pub children: Vec<WorldId>,
    pub more_children: bool,
}

impl Protocol for ReadLineage {
    type Output = WorldLineage;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<WorldLineage, StoreError> {
        let Self { universe, world, children_max } = *self;
        let mut ancestors = Vec::new();
        let mut meta = require_world(tx, universe, world).await?;
        while let Some(lineage) = meta.lineage {
            if ancestors.len() == limits::LINEAGE_DEPTH_MAX {
                return Err(JournalError::LineageTooDeep { world, max: limits::LINEAGE_DEPTH_MAX }.into());
            }
            meta = require_world(tx, universe, lineage.parent).await?;
            ancestors.push(lineage);
        }
        let span = lineage_child::prefix(universe, world).span();
        let page = tx.range(span.read(children_max.clamp(1, limits::RANGE_ITEMS_MAX)).snapshot()).await?;
        let child = |(key, _): &(bytes::Bytes, bytes::Bytes)| lineage_child::parse(universe, world, key);
        let children = page.items.iter().map(child).collect::<Result<_, _>>()?;
        Ok(WorldLineage { ancestors, children, more_children: page.more })
    }
}
