//! Read where a world comes from and what was forked from it.
//!
//! Guarantees: one consistent moment. Deleted ancestors cannot be: a world with forks is not deleted.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::require_world;
use crate::{
    OnUnknown, Protocol, StoreError,
    journal::JournalError,
    keyspace::{
        Family, decode_value,
        lineage_child::{self, LineageChild},
        world_meta::Lineage,
    },
};
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{Height, UniverseId, WorldId, limits};

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
    /// In the order of their ids.
    pub children: Vec<Branch>,
    pub more_children: bool,
}

/// A world that was forked from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    pub world: WorldId,
    pub forked_at: Height,
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
        let child = |(key, value): &(Bytes, Bytes)| {
            let LineageChild { forked_at, .. } = decode_value(Family::LineageChild, key, value)?;
            Ok::<_, StoreError>(Branch { world: lineage_child::parse(universe, world, key)?, forked_at })
        };
        let children = page.items.iter().map(child).collect::<Result<_, _>>()?;
        Ok(WorldLineage { ancestors, children, more_children: page.more })
    }
}
