//! The sweep: removes what two walks, a grace period apart, found that nothing refers to.

use super::{
    SweepError, WalkReport,
    dead_segments::remove_dead_segments,
    leftovers::{finish_deletions, remove_incoming, remove_orphans},
    walk,
};
use crate::{
    StoreError,
    blobs::{BlobError, Cas, body_path},
    protocol::cas_sweep::{Condemn, Remove, Removed, Reprieve},
    run,
};
use mundi_engine::Engine;
use mundi_model::{Hash, UniverseId};
use std::{collections::BTreeSet, time::Duration};

/// The shortest grace period: it must outlast every upload, and every caller who puts now and refers later.
pub const GRACE_MIN: Duration = Duration::from_secs(60 * 60);

/// Objects that one transaction marks.
const MARK_CHUNK: usize = 500;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Found without a reference for the first time; a later sweep may remove them.
    pub condemned: usize,
    /// Condemned by an earlier sweep, and referred to after all.
    pub reprieved: usize,
    /// Removed for good.
    pub removed: Vec<Hash>,
    pub removed_bytes: u64,
    /// Were to be removed, but someone put or needed them meanwhile; what they refer to stays with them.
    pub spared: Vec<Hash>,
    /// Bodies that no metadata names, left by puts that never came to their end.
    pub leftovers: usize,
    /// Segments of worlds that were deleted.
    pub segments: usize,
}

/// Walks, then condemns, reprieves and removes. Run it now and then, one at a time for a universe: two at once are safe
/// and do the work twice.
///
/// An object is removed only if it is older than `grace`, was condemned more than `grace` ago, was not put or needed
/// since, and this walk found no reference to it either.
pub async fn sweep<E: Engine>(cas: &Cas<E>, universe: UniverseId, grace: Duration) -> Result<SweepReport, StoreError> {
    if grace < GRACE_MIN {
        let (grace_ms, min_ms) = (grace.as_millis(), GRACE_MIN.as_millis());
        return Err(SweepError::GraceTooShort { grace_ms, min_ms }.into());
    }
    let found = walk(cas, universe, grace).await?;
    if found.raced {
        return Err(SweepError::Raced.into());
    }
    let mut report = remove_found(cas, universe, grace, &found).await?;
    report.leftovers += finish_deletions(cas, universe, grace).await?;
    report.leftovers += remove_orphans(cas, universe, grace, &found.bodies).await?;
    report.leftovers += remove_incoming(cas, universe, grace).await?;
    report.segments = remove_dead_segments(cas, universe).await?;
    Ok(report)
}

/// What follows from a walk: marks, and removals.
pub(super) async fn remove_found<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    grace: Duration,
    found: &WalkReport,
) -> Result<SweepReport, StoreError> {
    let sweep = Sweep { cas, universe, grace, found };
    let mut report = SweepReport::default();
    sweep.mark(&mut report).await?;
    sweep.remove_condemned(&mut report).await?;
    Ok(report)
}

struct Sweep<'a, E> {
    cas: &'a Cas<E>,
    universe: UniverseId,
    grace: Duration,
    found: &'a WalkReport,
}

impl<E: Engine> Sweep<'_, E> {
    async fn mark(&self, report: &mut SweepReport) -> Result<(), StoreError> {
        let (engine, clock, universe) = (&self.cas.engine, &*self.cas.clock, self.universe);
        for hashes in self.found.wrongly_condemned.chunks(MARK_CHUNK) {
            run(engine, clock, &Reprieve { universe, hashes }).await?;
        }
        report.reprieved = self.found.wrongly_condemned.len();
        let new = self.found.unreachable.iter().filter(|object| object.condemned_at_ns.is_none());
        let new: Vec<Hash> = new.map(|object| object.hash).collect();
        for hashes in new.chunks(MARK_CHUNK) {
            let condemn = Condemn { universe, hashes, now_ns: clock.now_ns() };
            report.condemned += run(engine, clock, &condemn).await?.output;
        }
        Ok(())
    }

    async fn remove_condemned(&self, report: &mut SweepReport) -> Result<(), StoreError> {
        let grace_ns = u64::try_from(self.grace.as_nanos()).unwrap_or(u64::MAX);
        let mut kept = BTreeSet::new();
        for object in &self.found.unreachable {
            let Some(condemned_at_ns) = object.condemned_at_ns else { continue };
            let is_due = self.found.began_at_ns.saturating_sub(condemned_at_ns) >= grace_ns;
            if !is_due || kept.contains(&object.hash) {
                continue;
            }
            match self.remove(object.hash, condemned_at_ns).await? {
                Removed::Gone => {
                    report.removed.push(object.hash);
                    report.removed_bytes += object.size;
                }
                Removed::Spared => {
                    // Who put it again may rely on all that it refers to.
                    kept.insert(object.hash);
                    self.found.graph.close(&mut kept);
                    report.spared.push(object.hash);
                }
                Removed::Absent => {}
            }
        }
        Ok(())
    }

    /// Metadata first, the body later: a reader never finds metadata without a body.
    async fn remove(&self, hash: Hash, condemned_at_ns: u64) -> Result<Removed, StoreError> {
        let (engine, clock, universe) = (&self.cas.engine, &*self.cas.clock, self.universe);
        let doomed_at_ns = clock.now_ns();
        let remove = Remove { universe, hash, condemned_at_ns, now_ns: doomed_at_ns };
        let (removed, body) = run(engine, clock, &remove).await?.output;
        // A process that slept through half the grace period leaves the body to the next sweep.
        let slept = Duration::from_nanos(clock.now_ns().saturating_sub(doomed_at_ns));
        if let Some(generation) = body
            && slept < self.grace / 2
        {
            let path = body_path(universe, hash, generation);
            self.cas.objects.delete(&path).await.map_err(BlobError::from)?;
        }
        Ok(removed)
    }
}
