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
use futures_util::{
    StreamExt,
    future::{Either, select},
    stream,
};
use mundi_engine::Engine;
use mundi_model::{UniverseId, WorkerId};
use mundi_store::{
    StoreError,
    keyspace::{
        Shard,
        queue_notify::{self, Seen, WORKERS},
    },
    protocol::{ListAssignments, ListWorkers, Over, PlaceWorld, Placed, ReadReady},
};
use std::{pin::pin, time::Duration};

/// Items per page.
const PAGE_ITEMS: usize = 1_000;
/// The pause after a look that failed: worlds wait that nobody may take.
const RETRY_NS: u64 = 500_000_000;
/// Worlds that are placed at the same time: all worlds of a worker that died wait for it.
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
                let next_ns = self.tick().await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "worlds could not be placed");
                    Some(self.plane.now_ns().saturating_add(RETRY_NS))
                });
                self.wait(seen, next_ns).await;
            }
        }));
    }

    async fn workers_seen(&self) -> Option<Seen> {
        let mut tx = self.plane.engine().begin().await.ok()?;
        queue_notify::read(&mut tx, self.config.universe, WORKERS).await.ok()
    }

    /// Until a worker comes, drains or goes, or has not been heard of for too long; or it is time to look anyway.
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

    /// Looks once, and acts; says when the next worker that lives is gone, unless it is heard of before.
    ///
    /// A world that cannot be placed keeps no other one from its place.
    async fn tick(&self) -> Result<Option<u64>, RuntimeError> {
        let sight = self.look().await?;
        let now_ns = self.plane.now_ns();
        let moves = plan(&sight, now_ns, self.config.rebalances_max);
        let mut placing = stream::iter(moves).map(|moved| self.place(moved)).buffer_unordered(PLACED_AT_ONCE_MAX);
        let mut failed = None;
        while let Some(placed) = placing.next().await {
            failed = failed.or(placed.err());
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(sight.next_expiry_ns(now_ns)),
        }
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
    async fn place(&self, moved: Move) -> Result<(), RuntimeError> {
        let Move { world, from, to } = moved;
        let frame = |worker: WorkerId, command| Some((worker, command_frame(&self.plane, worker, command)?));
        let revoked = from.as_ref().and_then(|from| frame(from.desired?, Command::Revoke(world)));
        let assigned = to.desired.and_then(|worker| frame(worker, Command::Assign(world)));
        let mail = revoked.into_iter().chain(assigned).collect();
        let place = PlaceWorld { universe: self.config.universe, world, over: Over::Seen(from), to, mail };
        match self.plane.run(&place).await {
            Ok(done) if done.output == Placed::Now => {
                tracing::info!(%world, to = ?place.to.desired, reason = place.to.reason, "a world is placed");
                Ok(())
            }
            Ok(_) => Ok(()),
            // It has an assignment, and needs no place as long as nobody may acquire it.
            Err(StoreError::World(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
