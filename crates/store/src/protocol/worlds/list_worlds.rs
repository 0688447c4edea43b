//! List the worlds of a universe, in pages, by state and by holder.
//!
//! Guarantees: each page is one consistent moment; worlds come in the order of their ids. A page ends where its transaction has
//! grown too old for more: each world takes a trip to an engine at the other end of a line.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::page::{Page, Room};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Span, journal_head, last_active,
        lease::{self, Lease},
        lease_term, manifest_at,
        world_failure::{self, WorldFailure},
        world_meta::{self, WorldMeta, WorldState},
    },
};
use mundi_engine::{EngineError, Read, Transaction};
use mundi_model::{Epoch, Hash, Height, UniverseId, WorkerId, WorldId};

/// Above every height: whatever holds last holds there.
const HEAD: Height = Height::new(u64::MAX);

#[derive(Debug, Clone, Copy)]
pub struct ListWorlds {
    pub universe: UniverseId,
    pub filter: WorldFilter,
    pub after: Option<WorldId>,
    pub items_max: usize,
}

/// Which worlds are wanted. Deleted ones are only listed if they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorldFilter {
    pub state: Option<WorldState>,
    /// Forks of this world only.
    pub parent: Option<WorldId>,
    pub held: Option<HeldBy>,
    /// Only worlds that are on hold, or only those that are not.
    pub on_hold: Option<bool>,
    /// Only worlds with failed steps since the last upgrade, resume, retry or skip, or only the others.
    pub failed: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    Nobody,
    Anybody,
    Worker(WorkerId),
}

/// A world, seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldSummary {
    pub world: WorldId,
    pub meta: WorldMeta,
    /// `None` if nobody holds it.
    pub lease: Option<HeldLease>,
    /// The steps that failed since the last upgrade, resume, retry or skip.
    pub failure: Option<WorldFailure>,
    /// The manifest that holds at its head; `None` of a deleted one.
    pub manifest: Option<Hash>,
    /// The next height; `None` of a deleted one.
    pub head: Option<Height>,
    /// When a worker last opened or released it; `None` if none did.
    pub active_at_ns: Option<u64>,
}

impl WorldSummary {
    /// Its reads.
    fn reads(universe: UniverseId, world: WorldId) -> impl Iterator<Item = Read> {
        let keys =
            [world_meta::key, lease::key, lease_term::key, world_failure::key, journal_head::key, last_active::key];
        let manifest = Read::Range(manifest_at::read_at(universe, world, HEAD));
        keys.into_iter().map(move |key| key(universe, world).planned()).chain([manifest])
    }

    /// `None` if nothing of the world is left but keys.
    pub(in crate::protocol) async fn read<T: Transaction>(
        tx: &mut T,
        universe: UniverseId,
        world: WorldId,
    ) -> Result<Option<Self>, StoreError> {
        let Some(meta) = world_meta::read(tx, universe, world).await? else { return Ok(None) };
        let lease = HeldLease::read(tx, universe, world).await?;
        let failure = world_failure::read(tx, universe, world).await?;
        let manifest = manifest_at::read(tx, universe, world, HEAD).await?;
        let head = journal_head::read(tx, universe, world).await?.map(|position| position.head.height);
        let active_at_ns = last_active::read(tx, universe, world).await?.map(|active| active.at_ns);
        Ok(Some(Self { world, meta, lease, failure, manifest, head, active_at_ns }))
    }

    /// The same, with what it reads asked for at once.
    pub(in crate::protocol) async fn fetch<T: Transaction>(
        tx: &mut T,
        universe: UniverseId,
        world: WorldId,
    ) -> Result<Option<Self>, StoreError> {
        tx.prefetch(|| Self::reads(universe, world));
        Self::read(tx, universe, world).await
    }
}

/// A lease that was given and not given back. Whether it has expired only the clock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldLease {
    pub holder: WorkerId,
    pub epoch: Epoch,
    pub expires_at_ns: u64,
}

impl HeldLease {
    pub(in crate::protocol) async fn read<T: Transaction>(
        tx: &mut T,
        universe: UniverseId,
        world: WorldId,
    ) -> Result<Option<Self>, StoreError> {
        let Some(Lease { epoch, holder: Some(holder), .. }) = lease::read(tx, universe, world).await? else {
            return Ok(None);
        };
        let term = lease_term::read(tx, universe, world).await?;
        Ok(Some(Self { holder, epoch, expires_at_ns: term.map_or(0, |term| term.expires_at_ns) }))
    }
}

impl WorldFilter {
    pub(in crate::protocol) fn takes(&self, found: &WorldSummary) -> bool {
        let state = match self.state {
            Some(state) => found.meta.state == state,
            None => found.meta.state != WorldState::Deleted,
        };
        let parent = found.meta.lineage.as_ref().map(|lineage| lineage.parent);
        let held = match self.held {
            None => true,
            Some(HeldBy::Nobody) => found.lease.is_none(),
            Some(HeldBy::Anybody) => found.lease.is_some(),
            Some(HeldBy::Worker(worker)) => found.lease.is_some_and(|lease| lease.holder == worker),
        };
        let on_hold = self.on_hold.is_none_or(|wanted| found.meta.hold.is_some() == wanted);
        let failed = self.failed.is_none_or(|wanted| found.failure.is_some() == wanted);
        state && held && on_hold && failed && self.parent.is_none_or(|wanted| parent == Some(wanted))
    }
}

impl Protocol for ListWorlds {
    type Output = Page<WorldSummary, WorldId>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Page<WorldSummary, WorldId>, StoreError> {
        let Self { universe, filter, after, items_max } = *self;
        let end_of = |world| world_meta::world_prefix(universe, world).span().end;
        let mut span = world_meta::worlds_prefix(universe).span();
        if let Some(after) = after {
            span.start = end_of(after);
        }
        let (mut page, mut room, mut last) = (Page::new(), Room::new(items_max), None);
        loop {
            let found = match first_of(tx, universe, &span).await {
                Err(StoreError::Engine(EngineError::TooOld)) if last.is_some() => {
                    page.next = last;
                    return Ok(page);
                }
                found => found?,
            };
            let Some((world, summary)) = found else { return Ok(page) };
            let summary = summary.filter(|found| filter.takes(found));
            room.spend(summary.is_some());
            page.items.extend(summary);
            if room.is_spent() {
                page.next = Some(world);
                return Ok(page);
            }
            last = Some(world);
            span.start = end_of(world);
        }
    }
}

/// The first world of a span, by one seek: its other keys are skipped, not read. Nothing of it is left but keys if it is being
/// deleted.
pub(in crate::protocol) async fn first_of<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    span: &Span,
) -> Result<Option<(WorldId, Option<WorldSummary>)>, StoreError> {
    let found = tx.range(span.read(1).snapshot()).await?;
    let Some((key, _)) = found.items.first() else { return Ok(None) };
    let world = world_meta::world_of_key(universe, key)?;
    let rest = Span { start: world_meta::world_prefix(universe, world).span().end, end: span.end.clone() };
    tx.prefetch(|| WorldSummary::reads(universe, world).chain([Read::Range(rest.read(1))]));
    Ok(Some((world, WorldSummary::read(tx, universe, world).await?)))
}
