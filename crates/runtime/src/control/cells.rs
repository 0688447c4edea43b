//! The cells of a world as they were at a height, and what differs between two of them.
//!
//! Nothing here takes a lease: a world is restored for the question from its nearest snapshot, wherever it runs.

use super::Ops;
use crate::{
    Plane, RuntimeError,
    lifecycle::past,
    objects::{AtHand, with_objects},
};
use bytes::Bytes;
use mundi_kernel::{
    LoadError,
    cells::{self, Entry, Stored},
};
use mundi_model::{Hash, Height, WorldId};

/// A world at a moment: before the record at this height, or now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    pub world: WorldId,
    pub height: Option<Height>,
}

/// A cell that is not the same in two worlds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellDifference {
    pub key: String,
    pub left: Option<Vec<u8>>,
    pub right: Option<Vec<u8>>,
}

impl<P: Plane> Ops<P> {
    /// Cells under a prefix, after a key, in key order.
    pub async fn world_cells(
        &self,
        at: At,
        prefix: &str,
        after: Option<&str>,
        items_max: usize,
    ) -> Result<Vec<Entry>, RuntimeError> {
        let place = (self.universe, at.world);
        let past::Past { mut replay, mut at_hand } = self.past(at).await?;
        // A mutable borrow, because a replay may be sent to another thread and not shared with one.
        let replay = &mut replay;
        let scan = move |objects: &AtHand| replay.world().cells().scan(objects, prefix, after, items_max);
        with_objects(&self.plane, place, &mut at_hand, scan).await
    }

    pub async fn world_cell(&self, at: At, key: &str) -> Result<Option<Vec<u8>>, RuntimeError> {
        let place = (self.universe, at.world);
        let past::Past { mut replay, mut at_hand } = self.past(at).await?;
        let replay = &mut replay;
        let get = move |objects: &AtHand| replay.world().cells().get(objects, key);
        with_objects(&self.plane, place, &mut at_hand, get).await
    }

    /// The first cells that differ after a key, in key order. Opens only the branches that do.
    pub async fn world_diff(
        &self,
        left: At,
        right: At,
        after: Option<&str>,
        items_max: usize,
    ) -> Result<Vec<CellDifference>, RuntimeError> {
        let world = left.world;
        let mut at_hand = AtHand::default();
        let left = self.cells_root(left, &mut at_hand).await?;
        let right = self.cells_root(right, &mut at_hand).await?;
        self.differences(world, (left, right), (after, items_max), &mut at_hand).await
    }

    /// The first cells that differ below two roots, after a key.
    pub(super) async fn differences(
        &self,
        world: WorldId,
        (left, right): (Option<Hash>, Option<Hash>),
        (after, items_max): (Option<&str>, usize),
        at_hand: &mut AtHand,
    ) -> Result<Vec<CellDifference>, RuntimeError> {
        let compare = |objects: &AtHand| {
            cells::diff(objects, left, right, |diff| {
                diff.after(after).take(items_max).collect::<Result<Vec<_>, LoadError>>()
            })
        };
        let mut differences = Vec::new();
        for found in with_objects(&self.plane, (self.universe, world), at_hand, compare).await? {
            let left = self.stored(found.left, at_hand).await?;
            let right = self.stored(found.right, at_hand).await?;
            differences.push(CellDifference { key: found.key, left, right });
        }
        Ok(differences)
    }

    async fn stored(&self, stored: Option<Stored>, at_hand: &mut AtHand) -> Result<Option<Vec<u8>>, RuntimeError> {
        Ok(match stored {
            None => None,
            Some(Stored::Inline(bytes)) => Some(bytes),
            Some(Stored::Blob(hash, _)) => {
                let load = |objects: &AtHand| mundi_kernel::Objects::load(objects, &hash);
                let place = (self.universe, WorldId::from_bytes([0; 16]));
                Some(with_objects(&self.plane, place, at_hand, load).await?.to_vec())
            }
        })
    }

    /// The root of a world's cells; what is not stored of them is in memory.
    async fn cells_root(&self, at: At, at_hand: &mut AtHand) -> Result<Option<Hash>, RuntimeError> {
        let (mut world, mut own) = self.past(at).await?.world(at.world)?;
        let take = |objects: &AtHand| -> Result<_, LoadError> { world.snapshot(objects) };
        let taken = with_objects(&self.plane, (self.universe, at.world), &mut own, take).await?;
        for (hash, bytes) in &taken.objects {
            at_hand.insert(*hash, &Bytes::from_owner(bytes.clone()));
        }
        // What a checkpoint is made of is in no store, and the snapshot has only what is new since then.
        at_hand.keep_of(own);
        Ok(mundi_kernel::snapshot::KernelSnapshot::from_bytes(&taken.bytes)?.cells())
    }

    /// The world as it was.
    pub(super) async fn past(&self, at: At) -> Result<past::Past, RuntimeError> {
        self.checkpoints.past(&self.plane, (self.universe, at.world), at.height).await
    }
}
