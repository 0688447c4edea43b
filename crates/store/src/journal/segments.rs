//! The seam to the cold part of a journal: records that were moved out of the engine into objects.

use crate::{Clock, Fence, StoreError, protocol::ExportPolicy, segments::Exported};
use bytes::Bytes;
use mundi_model::{Height, UniverseId, WorldId};
use std::{future::Future, sync::Arc, time::Duration};

/// Reads records out of segments.
///
/// A reader looks into the engine first and asks here only for what is not there. Export commits the index
/// of a segment before it deletes a hot key, so a record that the engine no longer has is found here.
pub trait Segments: Send + Sync {
    /// Records from `from` on, contiguous and in order, as their canonical bytes: at least one, and not
    /// beyond `until`, nor more than fits into a page. `None` when no segment holds `from`.
    fn read(
        &self,
        universe: UniverseId,
        world: WorldId,
        from: Height,
        until: Height,
    ) -> impl Future<Output = Result<Option<Vec<(Height, Bytes)>>, StoreError>> + Send;

    /// Reads all of a segment, which an error named by its path. No error: it is whole, or nobody refers to it any more.
    fn check(&self, _: UniverseId, _path: &str) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Moves the next run of old records of a world into a segment, or continues with one that was interrupted, pausing
    /// between transactions that delete. A store that never exports has no work.
    fn export(
        &self,
        _clock: &dyn Clock,
        _fence: Fence,
        _policy: ExportPolicy,
        _pause: Duration,
    ) -> impl Future<Output = Result<Exported, StoreError>> + Send {
        std::future::ready(Ok(Exported::Idle))
    }
}

/// A store that never exports: everything is in the engine.
#[derive(Debug, Clone, Copy)]
pub struct NoSegments;

impl Segments for NoSegments {
    async fn read(
        &self,
        _: UniverseId,
        _: WorldId,
        _: Height,
        _: Height,
    ) -> Result<Option<Vec<(Height, Bytes)>>, StoreError> {
        Ok(None)
    }
}

/// One store of segments serves many readers.
impl<S: Segments> Segments for Arc<S> {
    async fn read(
        &self,
        universe: UniverseId,
        world: WorldId,
        from: Height,
        until: Height,
    ) -> Result<Option<Vec<(Height, Bytes)>>, StoreError> {
        (**self).read(universe, world, from, until).await
    }

    async fn check(&self, universe: UniverseId, path: &str) -> Result<(), StoreError> {
        (**self).check(universe, path).await
    }

    async fn export(
        &self,
        clock: &dyn Clock,
        fence: Fence,
        policy: ExportPolicy,
        pause: Duration,
    ) -> Result<Exported, StoreError> {
        (**self).export(clock, fence, policy, pause).await
    }
}
