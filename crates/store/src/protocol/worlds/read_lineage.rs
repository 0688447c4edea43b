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
        forked_world::{self, ForkedWorld},
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
    /// How many forks are listed at most.
    pub forks_max: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldLineage {
    /// The parent first.
    pub ancestors: Vec<Lineage>,
    /// In the order of their ids.
    pub forks: Vec<Branch>,
    pub more_forks: bool,
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
        let Self { universe, world, forks_max } = *self;
        let mut ancestors = Vec::new();
        let mut meta = require_world(tx, universe, world).await?;
        while let Some(lineage) = meta.lineage {
            if ancestors.len() == limits::LINEAGE_DEPTH_MAX {
                return Err(JournalError::LineageTooDeep { world, max: limits::LINEAGE_DEPTH_MAX }.into());
            }
            meta = require_world(tx, universe, lineage.parent).await?;
            ancestors.push(lineage);
        }
        let span = forked_world::prefix(universe, world).span();
        let page = tx.range(span.read(forks_max.clamp(1, limits::RANGE_ITEMS_MAX)).snapshot()).await?;
        let fork = |(key, value): &(Bytes, Bytes)| {
            let ForkedWorld { forked_at, .. } = decode_value(Family::ForkedWorld, key, value)?;
            Ok::<_, StoreError>(Branch { world: forked_world::parse(universe, world, key)?, forked_at })
        };
        let forks = page.items.iter().map(fork).collect::<Result<_, _>>()?;
        Ok(WorldLineage { ancestors, forks, more_forks: page.more })
    }
}
