//! Describe a world: all that an operator asks first.
//!
//! Guarantees: one consistent moment, except for the depth of the inbox, which is counted without a conflict.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::{HeldLease, require_world};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        assignment::{self, Assignment},
        baseline,
        inbox_depth::{self, Depth},
        journal_head::{self, JournalHead},
        last_active, manifest_at, segment,
        world_failure::{self, WorldFailure},
        world_meta::WorldMeta,
    },
};
use mundi_engine::Transaction;
use mundi_model::{Hash, Height, InboxSeq, UniverseId, WorldId, record::SnapshotNote};

#[derive(Debug, Clone, Copy)]
pub struct DescribeWorld {
    pub universe: UniverseId,
    pub world: WorldId,
}

/// A world as it stands. Of a deleted one only `meta` is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldDescription {
    pub world: WorldId,
    pub meta: WorldMeta,
    pub head: Option<JournalHead>,
    /// The manifest that holds at the head.
    pub manifest: Option<Hash>,
    pub baseline: Option<SnapshotNote>,
    /// Below this height records lie in segments.
    pub exported_to: Option<Height>,
    pub inbox: Depth,
    pub cursor: Option<InboxSeq>,
    pub lease: Option<HeldLease>,
    pub assignment: Option<Assignment>,
    /// The steps that failed since the last upgrade, resume, retry or skip.
    pub failure: Option<WorldFailure>,
    /// When a worker last opened or released it.
    pub active_at_ns: Option<u64>,
}

impl Protocol for DescribeWorld {
    type Output = WorldDescription;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<WorldDescription, StoreError> {
        let Self { universe, world } = *self;
        let meta = require_world(tx, universe, world).await?;
        let position = journal_head::read(tx, universe, world).await?;
        let head = position.map(|position| position.head);
        let manifest = match head {
            Some(head) => manifest_at::read(tx, universe, world, head.height).await?,
            None => None,
        };
        Ok(WorldDescription {
            world,
            meta,
            head,
            manifest,
            baseline: baseline::read(tx, universe, world).await?,
            exported_to: segment::newest(tx, universe, world).await?.map(|segment| segment.end),
            inbox: inbox_depth::read(tx, universe, world).await?,
            cursor: position.and_then(|position| position.cursor),
            lease: HeldLease::read(tx, universe, world).await?,
            assignment: assignment::read(tx, universe, world).await?,
            failure: world_failure::read(tx, universe, world).await?,
            active_at_ns: last_active::read(tx, universe, world).await?.map(|active| active.at_ns),
        })
    }
}
