//! The references to objects from outside of the content store.

use super::{
    pace::Pace,
    refs::{hashes_in, refs_of_record},
    scan::scan,
};
use crate::{
    StoreError,
    blobs::{BlobError, Cas, Verify},
    journal::JournalError,
    keyspace::{
        Family, Span, decode_value, gc_pin, journal_entry,
        kept_object::{self, Kept, Kind},
        manifest_at,
        program_version::{self, ProgramVersion},
        segment::{self, SegmentRecord},
        world_meta,
    },
    segments::SegmentReader,
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::{Hash, UniverseId, WorldId, cbor::CborError};
use std::collections::BTreeSet;

/// Hashes that something refers to, and which of them are new.
#[derive(Default)]
pub(super) struct Found {
    pub(super) all: BTreeSet<Hash>,
    /// Found since they were last taken.
    pub(super) fresh: Vec<Hash>,
    /// Manifests whose own references are among them.
    manifests: BTreeSet<Hash>,
}

impl Found {
    pub(super) fn insert(&mut self, hash: Hash) {
        if self.all.insert(hash) {
            self.fresh.push(hash);
        }
    }

    fn insert_all_in(&mut self, bytes: &[u8]) {
        hashes_in(bytes, &mut |hash| self.insert(hash));
    }
}

/// Gathers what refers to objects from outside of the content store.
pub(super) struct Roots<'a, E> {
    pub(super) cas: &'a Cas<E>,
    pub(super) universe: UniverseId,
    pub(super) pace: &'a Pace,
}

impl<E: Engine> Roots<'_, E> {
    /// The references of one world: pins, inbox, records, snapshots, segments, manifests with their programs, and all else that it
    /// keeps.
    ///
    /// An item that is drained moves from the inbox to the journal. The inbox is read first, so it is seen in one of them.
    pub(super) async fn of_world(&self, world: WorldId, found: &mut Found) -> Result<(), StoreError> {
        let universe = self.universe;
        let hot = journal_entry::prefix(universe, world).span();
        let all = world_meta::world_prefix(universe, world).span();
        let above = Span { start: hot.end.clone(), end: all.end };
        let below = Span { start: all.start, end: hot.start.clone() };
        for span in [above, below] {
            self.scan(span, |_, value| {
                found.insert_all_in(value);
                Ok(())
            })
            .await?;
        }
        self.scan(gc_pin::span(universe, world), |key, _| {
            found.insert(gc_pin::parse(universe, world, key)?);
            Ok(())
        })
        .await?;
        self.of_hot_records(world, hot, found).await?;
        self.of_segments(world, found).await?;
        self.of_manifests(world, found).await
    }

    async fn scan(
        &self,
        span: Span,
        each: impl FnMut(&Bytes, &Bytes) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        scan(&self.cas.engine, self.pace, span, each).await
    }

    async fn of_hot_records(&self, world: WorldId, hot: Span, found: &mut Found) -> Result<(), StoreError> {
        let universe = self.universe;
        self.scan(hot, |key, value| {
            for record in journal_entry::records(universe, world, key, value)? {
                let height = record.height;
                let damaged =
                    |cause: CborError| JournalError::RecordDamaged { world, height, cause: cause.to_string() };
                refs_of_record(&record.decode().map_err(damaged)?, &mut |hash| found.insert(hash));
            }
            Ok(())
        })
        .await
    }

    /// Read after the hot records: an export adds its segment before it deletes them.
    async fn of_segments(&self, world: WorldId, found: &mut Found) -> Result<(), StoreError> {
        let universe = self.universe;
        let mut segments: Vec<SegmentRecord> = Vec::new();
        self.scan(segment::span(universe, world), |key, value| {
            segments.push(decode_value(Family::Segment, key, value)?);
            Ok(())
        })
        .await?;
        for record in &segments {
            let reader = SegmentReader::open(&self.cas.objects, universe, world, record).await?;
            reader.refs().iter().for_each(|hash| found.insert(*hash));
        }
        Ok(())
    }

    /// The programs and schemas that the manifests of a world name: old heights are replayed by the programs of their time. A manifest names them as text,
    /// and not every one was put together with its references.
    async fn of_manifests(&self, world: WorldId, found: &mut Found) -> Result<(), StoreError> {
        let mut manifests = BTreeSet::new();
        self.scan(manifest_at::span(self.universe, world), |_, value| {
            hashes_in(value, &mut |hash| {
                manifests.insert(hash);
            });
            Ok(())
        })
        .await?;
        for manifest in manifests {
            self.of_manifest(manifest, found).await?;
        }
        Ok(())
    }

    async fn of_manifest(&self, manifest: Hash, found: &mut Found) -> Result<(), StoreError> {
        if !found.manifests.insert(manifest) {
            return Ok(());
        }
        found.insert(manifest);
        match self.cas.get(self.universe, manifest, Verify::Always).await {
            Ok(bytes) => found.insert_all_in(&bytes),
            Err(StoreError::Blob(BlobError::NotFound(_))) => {} // nothing that could be kept
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The references of a universe itself: the programs and manifests that it keeps or has names for, and its queues of effects, timers, messages and
    /// dead letters.
    pub(super) async fn of_universe(&self, found: &mut Found) -> Result<(), StoreError> {
        // Between the two lie the families of the content store, which name every object; above lie the worlds, which are
        // walked one by one.
        const { assert!((Family::UniverseMeta as u8) < Family::CasMeta as u8) };
        const { assert!((Family::KeptObject as u8) < Family::EffectPending as u8) };
        let universe = self.universe;
        let own = Span { start: Family::UniverseMeta.prefix(universe), end: Family::CasMeta.prefix(universe) };
        let queues = Span { start: Family::EffectPending.prefix(universe), end: world_meta::worlds_prefix(universe) };
        for span in [own, queues] {
            self.scan(span, |_, value| {
                found.insert_all_in(value);
                Ok(())
            })
            .await?;
        }
        let mut named = Vec::new();
        self.scan(program_version::span(universe), |key, value| {
            let ProgramVersion { manifest, .. } = decode_value(Family::ProgramVersion, key, value)?;
            named.push(manifest);
            Ok(())
        })
        .await?;
        for manifest in named {
            self.of_manifest(manifest, found).await?;
        }
        let mut kept = Vec::new();
        self.scan(kept_object::span(universe), |key, value| {
            let Kept { kind, .. } = decode_value(Family::KeptObject, key, value)?;
            kept.push((kept_object::parse(universe, key)?, kind));
            Ok(())
        })
        .await?;
        for (hash, kind) in kept {
            found.insert(hash);
            if kind == Kind::Manifest {
                self.of_manifest(hash, found).await?;
            }
        }
        Ok(())
    }
}
