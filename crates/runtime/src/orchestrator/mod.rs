//! The orchestrator: writes where worlds should run; workers act. It executes no world.
//!
//! A pass reads what changed since the last one: the workers, the hints of shards in which a world became ready, the worlds of workers
//! that are gone, and, after workers came or went, a page of the assignments at a time. What it remembers between two passes only saves
//! reading: an orchestrator may crash at any await, begin again with all that is stored, and run twice.

mod memory;
mod placement;

pub use placement::{Decision, Move, Sight, plan};

use crate::{
    Plane, RuntimeError,
    metrics::{Metric, Metrics},
    shell::{Command, Role, Shell, command_frame},
    world_name::world_name,
};
use futures_util::{
    StreamExt,
    future::{Either, select},
    stream,
};
use memory::Memory;
use mundi_engine::Engine;
use mundi_model::{
    UniverseId, WorkerId, WorldId,
    mutants::{Mutant, planted},
};
use mundi_store::{
    StoreError,
    keyspace::queue_notify::{self, Seen, WORKERS},
    protocol::{
        ForgetAssignment, ListAssignedWorkers, ListWorkerWorlds, ListWorkers, Over, PlaceWorld, Placed, Placement,
        ReadPlacements, ReadReady, ReadReadyCounters,
    },
};
use std::{pin::pin, sync::Arc, time::Duration};

/// Items per page.
const PAGE_ITEMS: usize = 1_000;
/// The pause after a look that failed: worlds wait that nobody may take.
const RETRY_NS: u64 = 500_000_000;
/// Worlds that are placed at the same time: all worlds of a worker that crashed wait for it.
const PLACED_AT_ONCE_MAX: usize = 32;

#[derive(Debug, Clone, Copy)]
pub struct OrchestratorConfig {
    pub universe: UniverseId,
    pub interval_ns: u64,
    /// Worlds that move per look although their worker lives.
    pub rebalances_max: usize,
}

impl OrchestratorConfig {
    pub fn new(universe: UniverseId) -> Self {
        Self { universe, interval_ns: 5_000_000_000, rebalances_max: 16 }
    }
}

/// Places worlds.
pub struct Orchestrator<P> {
    plane: P,
    config: OrchestratorConfig,
    metrics: Arc<Metrics>,
}

impl<P: Plane> Role<P> for Orchestrator<P> {
    const NAME: &'static str = "orchestrator";

    async fn run(shell: &Shell<P, Self>) -> Result<(), RuntimeError> {
        shell.until_asked(shell.role().place_worlds()).await;
        Ok(())
    }
}

impl<P: Plane> Orchestrator<P> {
    pub fn new(plane: P, config: OrchestratorConfig, metrics: Arc<Metrics>) -> Self {
        Self { plane, config, metrics }
    }

    /// Looks again and again.
    async fn place_worlds(&self) {
        let mut memory = Memory::default();
        loop {
            let seen = self.workers_seen().await;
            let next_ns = self.tick(&mut memory).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "worlds could not be placed");
                memory = Memory::default(); // perhaps it missed something
                Some(self.plane.now_ns().saturating_add(RETRY_NS))
            });
            self.wait(seen, next_ns).await;
        }
    }

    async fn workers_seen(&self) -> Option<Seen> {
        let mut tx = self.plane.engine().begin().await.ok()?;
        queue_notify::read(&mut tx, self.config.universe, WORKERS).await.ok()
    }

    /// Until a worker comes, drains, is full or goes, or has not been heard of for too long; or it is time to look anyway.
    async fn wait(&self, seen: Option<Seen>, next_ns: Option<u64>) {
        let (engine, universe) = (self.plane.engine(), self.config.universe);
        let left_ns = next_ns.map_or(u64::MAX, |next_ns| next_ns.saturating_sub(self.plane.now_ns()));
        let interval = self.plane.clock().sleep(Duration::from_nanos(left_ns.min(self.config.interval_ns)));
        let Some(seen) = seen else { return interval.await };
        let changed = pin!(queue_notify::changed(engine, universe, WORKERS, seen));
        if let Either::Left((Err(_), interval)) = select(changed, interval).await {
            interval.await; // a watch that failed must not make it look without end
        }
    }

    /// Makes one pass; returns when the next live worker expires without a heartbeat.
    ///
    /// A world that cannot be placed keeps no other one from its place.
    async fn tick(&self, memory: &mut Memory) -> Result<Option<u64>, RuntimeError> {
        let now_ns = self.plane.now_ns();
        let workers = self.plane.run(&ListWorkers { universe: self.config.universe }).await?.output;
        memory.meet(&workers, now_ns);
        let sight = Sight {
            homeless: self.homeless(memory).await?,
            settled: self.some_settled(memory).await?,
            room: memory.room(&workers),
        };
        let Decision { moves, forgotten, without_room } = plan(&sight, self.config.rebalances_max);
        memory.examined(&sight.settled, &moves, self.config.rebalances_max);
        let placing = stream::iter(moves).map(|moved| self.place(moved));
        let forgetting = stream::iter(forgotten).map(|placement| self.forget(placement));
        let mut failed = None;
        let mut placing = placing.buffer_unordered(PLACED_AT_ONCE_MAX);
        while let Some(placed) = placing.next().await {
            match placed {
                Ok(Some(worker)) => memory.placed(worker),
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        let mut forgetting = forgetting.buffer_unordered(PLACED_AT_ONCE_MAX);
        while let Some(forgotten) = forgetting.next().await {
            failed = failed.or(forgotten.err());
        }
        self.report(memory, without_room);
        match failed {
            Some(error) => Err(error),
            None => Ok(memory.next_expiry_ns(&workers, now_ns)),
        }
    }

    /// Worlds that no living worker is to run: those of workers that are gone, those that became ready since the last pass, and those
    /// for which there was no room then.
    async fn homeless(&self, memory: &mut Memory) -> Result<Vec<Placement>, RuntimeError> {
        let universe = self.config.universe;
        let mut found = Vec::new();
        let assigned = self.plane.run(&ListAssignedWorkers { universe }).await?.output;
        let gone = |worker: &WorkerId| !memory.lives(*worker) && !planted(Mutant::OrphansKept);
        for worker in assigned.into_iter().filter(gone) {
            let mut after = None;
            loop {
                let worlds = self.worlds_of(worker, after).await?;
                let Some(last) = worlds.last() else { break };
                after = Some(*last);
                found.extend(self.placements(worlds).await?);
            }
        }
        let counters = self.plane.run(&ReadReadyCounters { universe }).await?.output;
        let mut rest = memory.changed(&counters);
        while !rest.is_empty() {
            let read = ReadReady { universe, shards: rest, items_max: PAGE_ITEMS };
            let pages = self.plane.run(&read).await?.output;
            for page in &pages {
                let ready = self.placements(page.worlds.iter().map(|(_, world)| *world).collect()).await?;
                found.extend(ready.into_iter().filter(|placement| placement.assignment.is_none()));
            }
            let more = pages.iter().filter(|page| page.more);
            rest = more.filter_map(|page| Some((page.shard, Some(*page.worlds.last()?)))).collect();
        }
        let waiting: Vec<WorldId> = memory.waiting().collect();
        for page in waiting.chunks(PAGE_ITEMS) {
            let placements = self.placements(page.to_vec()).await?;
            found.extend(placements.into_iter().filter(|placement| placement.assignment.is_none()));
        }
        found.sort_by_key(|placement| placement.world);
        found.dedup_by_key(|placement| placement.world);
        Ok(found)
    }

    /// The next page of worlds that are where they should be, while those are looked through.
    async fn some_settled(&self, memory: &mut Memory) -> Result<Vec<Placement>, RuntimeError> {
        while let Some((worker, after)) = memory.sweeps_at() {
            let worlds = self.worlds_of(worker, after).await?;
            if !worlds.is_empty() {
                return self.placements(worlds).await;
            }
            memory.swept(worker);
        }
        Ok(Vec::new())
    }

    async fn worlds_of(&self, worker: WorkerId, after: Option<WorldId>) -> Result<Vec<WorldId>, RuntimeError> {
        let list = ListWorkerWorlds { universe: self.config.universe, worker, after, items_max: PAGE_ITEMS };
        Ok(self.plane.run(&list).await?.output)
    }

    async fn placements(&self, worlds: Vec<WorldId>) -> Result<Vec<Placement>, RuntimeError> {
        Ok(self.plane.run(&ReadPlacements { universe: self.config.universe, worlds }).await?.output)
    }

    /// Says so when worlds have to wait for room, and when none does any more.
    fn report(&self, memory: &mut Memory, without_room: Vec<WorldId>) {
        let (count, before) = (without_room.len(), memory.waiting().count());
        self.metrics.set(Metric::WorldsWithoutRoom, count as u64);
        match without_room.first() {
            Some(first) if count != before => {
                tracing::warn!(worlds = count, %first, "no worker has capacity: raise node.worlds_max, or start another worker");
            }
            None if before > 0 => tracing::info!("workers have capacity for all worlds again"),
            _ => {}
        }
        memory.wait(without_room);
    }

    /// The assignment and the word to both workers are one transaction: a revocation is never lost. Says where the world was placed.
    async fn place(&self, moved: Move) -> Result<Option<WorkerId>, RuntimeError> {
        let Move { world, from, to } = moved;
        let frame = |worker: WorkerId, command| Some((worker, command_frame(&self.plane, worker, command)?));
        let revoked = from.as_ref().and_then(|from| frame(from.desired?, Command::Revoke(world)));
        let assigned = to.desired.and_then(|worker| frame(worker, Command::Assign(world)));
        let mail = revoked.into_iter().chain(assigned).collect();
        let place = PlaceWorld { universe: self.config.universe, world, over: Over::Seen(from), to, mail };
        match self.plane.run(&place).await {
            Ok(done) if done.output == Placed::Now => {
                let name = world_name(&self.plane, self.config.universe, world).await;
                tracing::info!(%world, name, to = ?place.to.desired, reason = place.to.reason, "a world is placed");
                Ok(place.to.desired)
            }
            Ok(_) => Ok(None),
            // It has an assignment, and needs no place as long as nobody may acquire it.
            Err(StoreError::World(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn forget(&self, placement: Placement) -> Result<(), RuntimeError> {
        let Placement { world, assignment: Some(seen), .. } = placement else { return Ok(()) };
        let universe = self.config.universe;
        self.plane.run(&ForgetAssignment { universe, world, seen }).await?;
        Ok(())
    }
}
