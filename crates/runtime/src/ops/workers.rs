//! Workers, and which worlds they should run.

use super::Ops;
use crate::{
    Plane, RuntimeError,
    shell::{Command, command_frame, send_commands},
};
use mundi_model::{WorkerId, WorldId};
use mundi_store::{
    keyspace::{assignment::Assignment, ready, worker::WorkerRecord},
    protocol::{ListWorkerWorlds, ListWorkers, Over, PlaceWorld},
};
use std::collections::BTreeMap;

impl<P: Plane> Ops<P> {
    pub async fn workers(&self) -> Result<BTreeMap<WorkerId, WorkerRecord>, RuntimeError> {
        Ok(self.plane.run(&ListWorkers { universe: self.universe }).await?.output)
    }

    /// The worlds that a worker should run, in pages.
    pub async fn list_worker_worlds(
        &self,
        worker: WorkerId,
        after: Option<WorldId>,
        items_max: usize,
    ) -> Result<Vec<WorldId>, RuntimeError> {
        let list = ListWorkerWorlds { universe: self.universe, worker, after, items_max };
        Ok(self.plane.run(&list).await?.output)
    }

    /// Pins a world to a worker, and tells both the old one and the new one.
    pub async fn assign_world(&self, world: WorldId, worker: WorkerId, priority: u8) -> Result<(), RuntimeError> {
        let to = Assignment { desired: Some(worker), pinned: true, priority, reason: Some("operator".to_owned()) };
        self.place(world, to, Some((worker, Command::Assign(world)))).await
    }

    /// Lets any worker run a world.
    pub async fn unassign_world(&self, world: WorldId) -> Result<(), RuntimeError> {
        let priority = ready::PRIORITY_NORMAL;
        let to = Assignment { desired: None, pinned: false, priority, reason: Some("operator".to_owned()) };
        self.place(world, to, None).await
    }

    async fn place(
        &self,
        world: WorldId,
        to: Assignment,
        word: Option<(WorkerId, Command)>,
    ) -> Result<(), RuntimeError> {
        let mut mail: Vec<_> = word
            .and_then(|(worker, command)| Some((worker, command_frame(&self.plane, worker, command)?)))
            .into_iter()
            .collect();
        // Whoever is not the desired one is told to give it back; to those who do not have it, it means nothing.
        for worker in self.workers().await?.into_keys().filter(|worker| Some(*worker) != to.desired) {
            let revoke = command_frame(&self.plane, worker, Command::Revoke(world));
            mail.extend(revoke.filter(|_| to.desired.is_some()).map(|frame| (worker, frame)));
        }
        let place = PlaceWorld { universe: self.universe, world, over: Over::Anything, to, mail };
        self.plane.run(&place).await?;
        Ok(())
    }

    /// Asks a worker to snapshot and release everything, and to end.
    pub async fn drain_worker(&self, worker: WorkerId) -> Result<(), RuntimeError> {
        send_commands(&self.plane, self.universe, worker, &[Command::Drain]).await
    }

    /// Asks a worker to end at once; its leases run out by themselves.
    pub async fn stop_worker(&self, worker: WorkerId) -> Result<(), RuntimeError> {
        send_commands(&self.plane, self.universe, worker, &[Command::Stop]).await
    }
}
