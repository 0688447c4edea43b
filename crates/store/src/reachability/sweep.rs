//! The sweep: removes what two runs, a grace period apart, found that nothing refers to.
//!
//! A run walks through the worlds and notes what it finds as it continues, so that another process, or this one after a restart,
//! resumes it. It may be interrupted at any point; what it has decided is in the engine.

use super::{
    Pace, SweepConfig, WalkReport,
    dead_segments::remove_dead_segments,
    finish_deletions::{count_half_deleted, finish_deleted_worlds},
    leftovers::{finish_deletions, remove_incoming, remove_orphans},
    roots::{Found, Roots},
    scan::scan,
    walk::judge,
    worlds::Worlds,
};
use crate::{
    StoreError,
    blobs::{BlobError, Cas, body_path},
    keyspace::{
        sweep_mark,
        sweep_state::{Finished, Phase, Running, Totals},
    },
    protocol::{
        cas_sweep::{Condemn, Remove, Removed, Reprieve},
        sweep_run::{BeginSweep, Begun, EndSweep, NoteSweep, ReadSweep},
    },
    run,
};
use mundi_engine::Engine;
use mundi_model::{
    Hash, UniverseId, WorkerId, WorldId,
    mutants::{Mutant, planted},
};
use std::collections::BTreeSet;

/// Objects that one transaction marks.
const MARK_CHUNK: usize = 500;
/// Worlds between two notes of how far a walk has come.
const NOTE_WORLDS: u64 = 64;

/// The report of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Objects there were, and those without a reference.
    pub objects: u64,
    pub unreachable: u64,
    pub unreachable_bytes: u64,
    /// Found without a reference for the first time; a later run may remove them.
    pub condemned: usize,
    /// Condemned by an earlier run, and referred to after all.
    pub reprieved: usize,
    /// Removed for good; of a dry run, what would have been.
    pub removed: Vec<Hash>,
    pub removed_bytes: u64,
    /// Were to be removed, but someone put or needed them meanwhile; what they refer to stays with them.
    pub spared: Vec<Hash>,
    /// Bodies that no metadata names, left by puts that never came to their end.
    pub leftovers: usize,
    /// Segments of worlds that were deleted.
    pub segments: usize,
    /// Worlds whose deletion had stopped, or was left to the sweep, and is finished; of a dry run, would be.
    pub worlds_finished: usize,
    pub worlds: u64,
    /// Keys that the run read.
    pub keys: u64,
    pub dry_run: bool,
}

/// How an attempt at a run went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swept {
    Done(Box<SweepReport>),
    /// Another process carries the run on, at least until then.
    Busy {
        holder: WorkerId,
        until_ns: u64,
    },
    /// Another process has made the run meanwhile.
    Made,
}

/// Runs a sweep to its end: the one that was interrupted, or that was asked for, or else a new one.
///
/// An object is removed only if it is older than the grace period, was found without a reference more than that ago, was not put
/// or needed since, and this run found no reference to it either. Afterwards the engine is asked for the space of what is gone.
pub async fn sweep<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    worker: WorkerId,
    config: &SweepConfig,
) -> Result<Swept, StoreError> {
    let ttl_ns = u64::try_from(config.ttl.as_nanos()).unwrap_or(u64::MAX);
    let (engine, clock) = (&cas.engine, &*cas.clock);
    let pace = Pace::new(cas.clock.clone(), config);
    // Before the walk: it counts worlds that are half deleted as referring to what they have left.
    let state = run(engine, clock, &ReadSweep { universe }).await?.output;
    let worlds_finished =
        if state.next_removes() { finish_deleted_worlds(cas, universe, worker, &pace).await? } else { 0 };
    let begin = BeginSweep { universe, worker, now_ns: clock.now_ns(), ttl_ns, ended: state.ended() };
    let running = match run(engine, clock, &begin).await?.output {
        Begun::Busy { holder, until_ns } => return Ok(Swept::Busy { holder, until_ns }),
        Begun::Made => return Ok(Swept::Made),
        Begun::Run(running) => running,
    };
    let noted = (running.walked_to, running.worlds);
    let mut sweep = Sweep { roots: Roots { cas, universe, pace: &pace }, config, running, noted, ttl_ns };
    let mut report = sweep.carry_on().await?;
    report.dry_run = sweep.running.dry_run;
    report.worlds_finished = match report.dry_run {
        true => count_half_deleted(cas, universe, &pace).await?,
        // What was deleted while it walked.
        false => worlds_finished + finish_deleted_worlds(cas, universe, worker, &pace).await?,
    };
    report.keys = pace.keys();
    sweep.end(&report).await?;
    if !report.dry_run {
        engine.reclaim();
    }
    Ok(Swept::Done(Box::new(report)))
}

struct Sweep<'a, E> {
    roots: Roots<'a, E>,
    config: &'a SweepConfig,
    running: Running,
    /// The last world whose references are all in the marks, and how many worlds that are.
    noted: (Option<WorldId>, u64),
    ttl_ns: u64,
}

impl<E: Engine> Sweep<'_, E> {
    async fn carry_on(&mut self) -> Result<SweepReport, StoreError> {
        let (cas, universe, grace) = (self.roots.cas, self.roots.universe, self.config.grace);
        let mut found = self.noted().await?;
        if self.running.phase == Phase::Walking {
            self.walk(&mut found).await?;
        }
        let Running { began_at_ns, worlds, dry_run, .. } = self.running;
        let found = judge(&self.roots, began_at_ns, worlds, grace, found).await?;
        let mut report = SweepReport {
            worlds,
            objects: found.objects as u64,
            unreachable: found.unreachable.len() as u64,
            unreachable_bytes: found.unreachable_bytes,
            ..SweepReport::default()
        };
        if dry_run {
            self.tell_removals(&found, &mut report);
            return Ok(report);
        }
        self.mark(&found, &mut report).await?;
        self.remove_condemned(&found, &mut report).await?;
        let pace = self.roots.pace;
        report.leftovers += finish_deletions(cas, universe, grace, pace).await?;
        report.leftovers += remove_orphans(cas, universe, grace, &found.bodies, pace).await?;
        report.leftovers += remove_incoming(cas, universe, grace, pace).await?;
        report.segments = remove_dead_segments(cas, universe, pace).await?;
        Ok(report)
    }

    /// The findings of the run before it was interrupted.
    async fn noted(&self) -> Result<Found, StoreError> {
        let mut found = Found::default();
        if self.running.marks > 0 {
            scan(&self.roots.cas.engine, self.roots.pace, sweep_mark::span(self.roots.universe), |key, value| {
                found.all.extend(sweep_mark::decode(key, value)?);
                Ok(())
            })
            .await?;
        }
        Ok(found)
    }

    async fn walk(&mut self, found: &mut Found) -> Result<(), StoreError> {
        let (engine, universe) = (&self.roots.cas.engine, self.roots.universe);
        self.roots.of_universe(found).await?;
        let mut worlds = Worlds::above(engine, universe, self.running.walked_to, self.roots.pace);
        while let Some(world) = worlds.next().await? {
            if !(planted(Mutant::SweepUnwalked) && self.running.worlds > 0) {
                self.roots.of_world(world, found).await?;
            }
            (self.running.walked_to, self.running.worlds) = (Some(world), self.running.worlds + 1);
            if self.running.worlds.is_multiple_of(NOTE_WORLDS) || found.fresh.len() >= sweep_mark::HASHES_MAX {
                self.note(found).await?;
            }
        }
        // Once more: an item that moved from one queue to another may have gone past the first look at both.
        self.roots.of_universe(found).await?;
        self.note(found).await?;
        self.running.phase = Phase::Removing;
        self.note(found).await
    }

    /// Makes what was found durable, and where the walk is. Fails if another process has taken the run up.
    async fn note(&mut self, found: &mut Found) -> Result<(), StoreError> {
        let Roots { cas, universe, .. } = self.roots;
        self.running.until_ns = cas.clock.now_ns().saturating_add(self.ttl_ns);
        let fresh = std::mem::take(&mut found.fresh);
        let mut parts = fresh.chunks(sweep_mark::HASHES_MAX).peekable();
        while let Some(part) = parts.next() {
            self.running.marks += 1;
            let mut running = self.running.clone();
            if parts.peek().is_some() {
                (running.walked_to, running.worlds) = self.noted; // not all that was found up to here is noted yet
            }
            run(&cas.engine, &*cas.clock, &NoteSweep { universe, running: &running, found: Some(part) }).await?;
        }
        if fresh.is_empty() {
            run(&cas.engine, &*cas.clock, &NoteSweep { universe, running: &self.running, found: None }).await?;
        }
        self.noted = (self.running.walked_to, self.running.worlds);
        Ok(())
    }

    async fn keep_hold(&mut self) -> Result<(), StoreError> {
        let left_ns = self.running.until_ns.saturating_sub(self.roots.cas.clock.now_ns());
        if left_ns < self.ttl_ns / 2 { self.note(&mut Found::default()).await } else { Ok(()) }
    }

    async fn mark(&self, found: &WalkReport, report: &mut SweepReport) -> Result<(), StoreError> {
        let Roots { cas, universe, .. } = self.roots;
        let (engine, clock) = (&cas.engine, &*cas.clock);
        for hashes in found.wrongly_condemned.chunks(MARK_CHUNK) {
            run(engine, clock, &Reprieve { universe, hashes }).await?;
            self.roots.pace.after_keys(hashes.len()).await;
        }
        report.reprieved = found.wrongly_condemned.len();
        let new = found.unreachable.iter().filter(|object| object.condemned_at_ns.is_none());
        let new: Vec<Hash> = new.map(|object| object.hash).collect();
        for hashes in new.chunks(MARK_CHUNK) {
            let condemn = Condemn { universe, hashes, now_ns: clock.now_ns() };
            report.condemned += run(engine, clock, &condemn).await?.output;
            self.roots.pace.after_keys(hashes.len()).await;
        }
        Ok(())
    }

    fn is_due(&self, found: &WalkReport, condemned_at_ns: u64) -> bool {
        let grace_ns = u64::try_from(self.config.grace.as_nanos()).unwrap_or(u64::MAX);
        found.began_at_ns.saturating_sub(condemned_at_ns) >= grace_ns
    }

    fn tell_removals(&self, found: &WalkReport, report: &mut SweepReport) {
        report.reprieved = found.wrongly_condemned.len();
        for object in &found.unreachable {
            match object.condemned_at_ns {
                None => report.condemned += 1,
                Some(condemned_at_ns) if self.is_due(found, condemned_at_ns) => {
                    report.removed.push(object.hash);
                    report.removed_bytes += object.size;
                }
                Some(_) => {}
            }
        }
    }

    async fn remove_condemned(&mut self, found: &WalkReport, report: &mut SweepReport) -> Result<(), StoreError> {
        let mut kept = BTreeSet::new();
        for object in &found.unreachable {
            let Some(condemned_at_ns) = object.condemned_at_ns else { continue };
            if !self.is_due(found, condemned_at_ns) || kept.contains(&object.hash) {
                continue;
            }
            match self.remove(object.hash, condemned_at_ns).await? {
                Removed::Gone => {
                    report.removed.push(object.hash);
                    report.removed_bytes += object.size;
                }
                Removed::Spared => {
                    // Whoever put it again may rely on all that it refers to.
                    kept.insert(object.hash);
                    found.graph.close(&mut kept);
                    report.spared.push(object.hash);
                }
                Removed::Absent => {}
            }
            self.roots.pace.after_removal().await;
            self.keep_hold().await?;
        }
        Ok(())
    }

    /// Metadata first, the body later: a reader never finds metadata without a body.
    async fn remove(&self, hash: Hash, condemned_at_ns: u64) -> Result<Removed, StoreError> {
        let Roots { cas, universe, .. } = self.roots;
        let (engine, clock) = (&cas.engine, &*cas.clock);
        let doomed_at_ns = clock.now_ns();
        let remove = Remove { universe, hash, condemned_at_ns, now_ns: doomed_at_ns };
        let (removed, body) = run(engine, clock, &remove).await?.output;
        // A process that slept through half the grace period leaves the body to the next run.
        let slept_ns = u128::from(clock.now_ns().saturating_sub(doomed_at_ns));
        if let Some(generation) = body
            && slept_ns < (self.config.grace / 2).as_nanos()
        {
            let path = body_path(universe, hash, generation);
            cas.objects.delete(&path).await.map_err(BlobError::from)?;
        }
        Ok(removed)
    }

    async fn end(&self, report: &SweepReport) -> Result<(), StoreError> {
        let Roots { cas, universe, .. } = self.roots;
        let Running { run: number, dry_run, began_at_ns, .. } = self.running;
        let totals = Totals {
            worlds: report.worlds,
            objects: report.objects,
            unreachable: report.unreachable,
            unreachable_bytes: report.unreachable_bytes,
            condemned: report.condemned as u64,
            reprieved: report.reprieved as u64,
            removed: report.removed.len() as u64,
            removed_bytes: report.removed_bytes,
            spared: report.spared.len() as u64,
            leftovers: report.leftovers as u64,
            segments: report.segments as u64,
            worlds_finished: report.worlds_finished as u64,
        };
        let finished = Finished { run: number, dry_run, began_at_ns, ended_at_ns: cas.clock.now_ns(), totals };
        let end = EndSweep { universe, running: &self.running, finished: &finished };
        run(&cas.engine, &*cas.clock, &end).await?;
        Ok(())
    }
}
