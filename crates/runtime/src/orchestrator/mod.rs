//! The orchestrator: writes where worlds should run; workers act (seed 000, role 1). It executes no world.
//!
//! Each look is whole and starts from what is stored: an orchestrator keeps nothing, may crash at any await, and may
//! run twice.

mod placement;

pub use placement::{Move, Sight, plan};

use crate::{
    Plane, RuntimeError,
    shell::{Command, command_frame},
};
use futures_util::future::{Either, select};
use mundi_engine::Engine;
use mundi_model::{UniverseId, WorkerId};
use mundi_store::{
    keyspace::{
        Shard,
        queue_notify::{self, Seen, WORKERS},
    },
    protocol::{ListAssignments, ListWorkers, Over, PlaceWorld, Placed, ReadReady},
};
use std::{pin::pin, time::Duration};

/// Items per page.
const PAGE_ITEMS: usize = 1_000;

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
}

impl<P: Plane> Orchestrator<P> {
    pub fn new(plane: P, config: OrchestratorConfig) -> Self {
        Self { plane, config }
    }

    /// Runs as a task, for as long as its node lives.
    pub fn start(self) {
        let plane = self.plane.clone();
        plane.spawner().spawn(Box::pin(async move {
            loop {
                let seen = self.workers_seen().await;
                if let Err(error) = self.tick().await {
                    tracing::warn!(%error, "worlds could not be placed");
                }
                self.wait(seen).await;
            }
        }));
    }

    async fn workers_seen(&self) -> Option<Seen> {
        let mut tx = self.plane.engine().begin().await.ok()?;
        queue_notify::read(&mut tx, self.config.universe, WORKERS).await.ok()
    }

    /// Until a worker comes, drains or goes, or it is time to look anyway.
    async fn wait(&self, seen: Option<Seen>) {
        let (engine, universe) = (self.plane.engine(), self.config.universe);
        let interval = self.plane.clock().sleep(Duration::from_nanos(self.config.interval_ns));
        let Some(seen) = seen else { return interval.await };
        let changed = pin!(queue_notify::changed(engine, universe, WORKERS, seen));
        if let Either::Left((Err(_), interval)) = select(changed, interval).await {
            interval.await; // a watch that failed must not make it look without end
        }
    }

    /// Looks once, and acts; says how many worlds were placed.
    pub async fn tick(&self) -> Result<usize, RuntimeError> {
        let sight = self.look().await?;
        let mut placed = 0;
        for moved in plan(&sight, self.plane.now_ns(), self.config.rebalances_max) {
            placed += usize::from(self.place(moved).await? == Placed::Now);
        }
        Ok(placed)
    }

    async fn look(&self) -> Result<Sight, RuntimeError> {
        let universe = self.config.universe;
        let mut sight = Sight { workers: self.plane.run(&ListWorkers { universe }).await?.output, ..Sight::default() };
        let (mut after, items_max) = (None, PAGE_ITEMS);
        loop {
            let page = self.plane.run(&ListAssignments { universe, after, items_max }).await?.output;
            after = page.items.last().map(|(world, _)| *world);
            sight.assignments.extend(page.items);
            if !page.more {
                break;
            }
        }
        let shards = Shard::all().map(|shard| (shard, None)).collect();
        for page in self.plane.run(&ReadReady { universe, shards, items_max }).await?.output {
            sight.unplaced.extend(page.worlds.into_iter().map(|(_, world)| world));
        }
        Ok(sight)
    }

    /// The assignment and the word to both workers are one transaction: a revocation is never lost.
    async fn place(&self, moved: Move) -> Result<Placed, RuntimeError> {
        let Move { world, from, to } = moved;
        let frame = |worker: WorkerId, command| Some((worker, command_frame(&self.plane, worker, command)?));
        let revoked = from.as_ref().and_then(|from| frame(from.desired?, Command::Revoke(world)));
        let assigned = to.desired.and_then(|worker| frame(worker, Command::Assign(world)));
        let mail = revoked.into_iter().chain(assigned).collect();
        tracing::info!(%world, to = ?to.desired, reason = to.reason, "a world is placed");
        let place = PlaceWorld { universe: self.config.universe, world, over: Over::Seen(from), to, mail };
        Ok(self.plane.run(&place).await?.output)
    }
}
