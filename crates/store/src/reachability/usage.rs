//! The bytes of a universe, by kind.

use super::{pace::Pace, scan::scan, worlds::Worlds};
use crate::{
    StoreError,
    blobs::Cas,
    keyspace::{
        Family,
        cas_meta::{self, Body, CasMeta},
        decode_value,
        kept_object::{self, Kept, Kind},
        segment::SegmentRecord,
        world_meta::WorldState,
    },
};
use mundi_engine::Engine;
use mundi_model::UniverseId;

/// A number of objects, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub count: u64,
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// The bytes of a universe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Worlds that are neither deleted nor being deleted.
    pub worlds: u64,
    /// Worlds whose keys are still to be removed.
    pub worlds_deleting: u64,
    pub worlds_deleted: u64,
    /// Objects of the content store whose bytes are in the engine.
    pub inline_objects: Amount,
    /// Objects of the content store whose bytes are in the object store.
    pub stored_objects: Amount,
    /// Of both: those without a reference when a sweep last looked.
    pub condemned_objects: Amount,
    /// Old journal records in the object store.
    pub segments: Amount,
    /// Programs and manifests that stay whether a world runs them or not.
    pub kept_objects: u64,
    /// Of these: programs.
    pub kept_programs: u64,
}

impl Usage {
    /// Objects of the content store.
    pub fn objects(&self) -> u64 {
        self.inline_objects.count.saturating_add(self.stored_objects.count)
    }

    /// Bytes of objects and segments. What the engine holds of journals and inboxes is not among them.
    pub fn stored_bytes(&self) -> u64 {
        let objects = self.inline_objects.bytes.saturating_add(self.stored_objects.bytes);
        objects.saturating_add(self.segments.bytes)
    }
}

/// Counts what a universe occupies. It reads one key per object, segment and world.
pub async fn usage<E: Engine>(cas: &Cas<E>, universe: UniverseId) -> Result<Usage, StoreError> {
    let (engine, pace) = (&cas.engine, Pace::unbounded(cas.clock.clone()));
    let mut usage = Usage::default();
    scan(engine, &pace, cas_meta::span(universe), |key, value| {
        let meta: CasMeta = decode_value(Family::CasMeta, key, value)?;
        match meta.body {
            Body::Inline(_) => usage.inline_objects.add(meta.size),
            Body::Object(_) => usage.stored_objects.add(meta.size),
        }
        if meta.condemned_at_ns.is_some() {
            usage.condemned_objects.add(meta.size);
        }
        Ok(())
    })
    .await?;
    scan(engine, &pace, Family::Segment.prefix(universe).span(), |key, value| {
        let record: SegmentRecord = decode_value(Family::Segment, key, value)?;
        usage.segments.add(record.size_bytes);
        Ok(())
    })
    .await?;
    scan(engine, &pace, kept_object::span(universe), |key, value| {
        let kept: Kept = decode_value(Family::KeptObject, key, value)?;
        usage.kept_objects += 1;
        usage.kept_programs += u64::from(kept.kind == Kind::Program);
        Ok(())
    })
    .await?;
    let mut worlds = Worlds::above(engine, universe, None, &pace);
    while let Some((_, meta)) = worlds.next_of_any_state().await? {
        match meta.state {
            WorldState::Deleting => usage.worlds_deleting += 1,
            WorldState::Deleted => usage.worlds_deleted += 1,
            _ => usage.worlds += 1,
        }
    }
    Ok(usage)
}
