//! Workers, and which worlds they should run.

use super::Ops;
use crate::{
    Plane, RuntimeError,
    shell::{Command, command_frame, send_commands},
};
use mundi_model::{WorkerId, WorldId};
use mundi_store::{
    keyspace::{assignment::Assignment, ready, worker::WorkerRecord, world_meta::WorldState},
    protocol::{IsReady, ListWorkerWorlds, ListWorkers, Over, PlaceWorld, WorldDescription},
};
use std::{collections::BTreeMap, fmt};

/// Why a world that has work is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// No worker lives that takes worlds.
    Worker,
    /// Each worker that lives is full.
    Room { workers: usize },
    /// It is pinned to a worker that is gone or drains.
    Pinned(WorkerId),
    /// Its worker is gone, and it is placed elsewhere at the orchestrator's next pass.
    Placement(WorkerId),
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker => f.write_str("a worker: none lives that takes worlds"),
            Self::Room { workers } => write!(f, "room: all {workers} workers that live are full"),
            Self::Pinned(worker) => write!(f, "{worker}, which it is pinned to and which does not live"),
            Self::Placement(worker) => write!(f, "another place: {worker}, which it is assigned to, does not live"),
        }
    }
}

fn waits(assignment: Option<&Assignment>, workers: &BTreeMap<WorkerId, WorkerRecord>, now_ns: u64) -> Option<Waits> {
    let lives = |worker: &WorkerId| workers.get(worker).is_some_and(|record| record.takes_worlds(now_ns));
    match assignment.and_then(|to| to.desired).filter(|worker| !lives(worker)) {
        Some(worker) if assignment.is_some_and(|to| to.pinned) => return Some(Waits::Pinned(worker)),
        Some(worker) => return Some(Waits::Placement(worker)),
        None => {}
    }
    let living: Vec<_> = workers.values().filter(|record| record.takes_worlds(now_ns)).collect();
    match living.len() {
        0 => Some(Waits::Worker),
        workers if living.iter().all(|record| record.room() == 0) => Some(Waits::Room { workers }),
        _ => None,
    }
}

impl<P: Plane> Ops<P> {
    /// The reason that a world with work is run by nobody; `None` if that will pass by itself.
    pub async fn waits_for(&self, found: &WorldDescription) -> Result<Option<Waits>, RuntimeError> {
        let (universe, world, now_ns) = (self.universe, found.world, self.plane.now_ns());
        let is_held = found.lease.is_some_and(|lease| lease.expires_at_ns > now_ns);
        if found.meta.state != WorldState::Live
            || is_held
            || !self.plane.run(&IsReady { universe, world }).await?.output
        {
            return Ok(None);
        }
        Ok(waits(found.assignment.as_ref(), &self.workers().await?, now_ns))
    }

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
        // Every worker but the desired one is asked to release it; workers that do not hold it ignore that.
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

    /// Asks a worker to end at once; its leases expire by themselves.
    pub async fn stop_worker(&self, worker: WorkerId) -> Result<(), RuntimeError> {
        send_commands(&self.plane, self.universe, worker, &[Command::Stop]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> WorkerId {
        WorkerId::new(n).unwrap()
    }

    fn worker(worlds: u32, expires_at_ns: u64) -> WorkerRecord {
        let (worlds_max, worlds) = (2, Some(worlds));
        let (started_at_ns, draining, schema_version, address, roles) = (0, false, 1, None, None);
        WorkerRecord { started_at_ns, expires_at_ns, worlds_max, draining, schema_version, address, worlds, roles }
    }

    #[test]
    fn what_a_world_waits_for_is_told_from_its_assignment_and_the_workers() {
        let to = |n, pinned| Assignment { desired: Some(id(n)), pinned, priority: 0, reason: None };
        let workers =
            |of: &[(u64, u32, u64)]| of.iter().map(|(n, worlds, ends)| (id(*n), worker(*worlds, *ends))).collect();
        assert_eq!(waits(None, &workers(&[]), 5), Some(Waits::Worker));
        assert_eq!(waits(None, &workers(&[(1, 0, 5)]), 5), Some(Waits::Worker), "it is gone");
        assert_eq!(waits(None, &workers(&[(1, 1, 9), (2, 2, 9)]), 5), None);
        assert_eq!(waits(None, &workers(&[(1, 2, 9), (2, 3, 9)]), 5), Some(Waits::Room { workers: 2 }));
        assert_eq!(waits(Some(&to(7, true)), &workers(&[(1, 0, 9)]), 5), Some(Waits::Pinned(id(7))));
        assert_eq!(waits(Some(&to(7, false)), &workers(&[(1, 0, 9)]), 5), Some(Waits::Placement(id(7))));
        assert_eq!(waits(Some(&to(1, false)), &workers(&[(1, 0, 9)]), 5), None);
    }
}
