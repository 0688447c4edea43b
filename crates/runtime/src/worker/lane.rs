//! A lane: takes the world that has waited longest, and runs one cycle of it.

use super::{Phase, Shared, WorkerConfig, table::Job};
use crate::{
    Plane, RuntimeError,
    host::WorldHost,
    metrics::Metric,
    shell::{Command, send_commands},
};
use mundi_engine::Engine;
use mundi_model::{Code, Coded, WorldId};
use mundi_store::{
    Fence, StoreError,
    keyspace::assignment::{self, Assignment},
    protocol::{AcquireLease, LeaseError, ReleaseLease, SettleWorld, Settled, compact_inbox},
};
use std::sync::Arc;

type Host<P> = Box<WorldHost<P>>;

pub(super) async fn run<P: Plane>(shared: Arc<Shared<P>>) {
    loop {
        let seen = shared.signal.version();
        if shared.phase() == Phase::Over {
            return;
        }
        let job = shared.table.lock().next();
        match job {
            Some(Job { world, host, release: true }) => release(&shared, world, host).await,
            Some(Job { world, host, release: false }) => cycle(&shared, world, host).await,
            None => {
                shared.signal.changed(seen).await;
                continue;
            }
        }
        shared.signal.notify();
    }
}

#[tracing::instrument(skip_all, fields(%world))]
async fn cycle<P: Plane>(shared: &Shared<P>, world: WorldId, host: Option<Host<P>>) {
    let started_ns = shared.plane.now_ns();
    let result = run_world(shared, world, host).await;
    let now_ns = shared.plane.now_ns();
    shared.metrics.add(Metric::CycleNs, now_ns.saturating_sub(started_ns));
    shared.metrics.raise(Metric::CycleNsMax, now_ns.saturating_sub(started_ns));
    match result {
        Ok((host, more)) => {
            let bytes = host.resident_bytes();
            let mut table = shared.table.lock();
            let lost = table.put_back(world, host, bytes, more, now_ns).is_err();
            table.release_surplus(now_ns, shared.config.idle_release_ns, shared.config.resident_bytes_max);
            drop(table);
            if lost {
                shared.metrics.add(Metric::LeasesLost, 1);
            }
        }
        Err(error) => failed(shared, world, &error).await,
    }
}

/// One cycle of a world that is held, or can be. The second value says whether it has more to do.
async fn run_world<P: Plane>(
    shared: &Shared<P>,
    world: WorldId,
    host: Option<Host<P>>,
) -> Result<(Host<P>, bool), RuntimeError> {
    let mut host = match host {
        Some(host) => host,
        None => open(shared, world).await?,
    };
    let deliver = |replies| shared.metrics.add(Metric::RepliesDelivered, shared.calls.deliver(world, replies));
    let cycled = host.cycle(&shared.config.cycle, deliver).await?;
    shared.metrics.add(Metric::Turns, cycled.turns);
    shared.metrics.add(Metric::TurnItems, cycled.items as u64);
    shared.metrics.add(Metric::TurnRecords, cycled.records as u64);
    if host.snapshot_if_due(&shared.config.snapshots).await?.is_some() {
        shared.metrics.add(Metric::Snapshots, 1);
        compact(shared, host.fence()).await?;
    }
    if cycled.more {
        return Ok((host, true));
    }
    let settled = shared.plane.run(&SettleWorld { fence: host.fence() }).await?.output;
    // What waits for a paused world is no work; its resume will come with a hint of its own.
    Ok((host, settled == Settled::Busy && cycled.turns > 0))
}

/// Removes what was consumed long ago. Done with snapshots: both bound what a world leaves behind.
async fn compact<P: Plane>(shared: &Shared<P>, fence: Fence) -> Result<(), RuntimeError> {
    let (engine, clock) = (shared.plane.engine(), &**shared.plane.clock());
    let removed = compact_inbox(engine, clock, fence, shared.config.inbox_grace_ns).await?;
    shared.metrics.add(Metric::InboxItemsCompacted, removed as u64);
    Ok(())
}

async fn open<P: Plane>(shared: &Shared<P>, world: WorldId) -> Result<Host<P>, RuntimeError> {
    let config = &shared.config;
    // An assignment to nobody in particular lets every worker: only one that is missing is waited for.
    if !config.takes_unassigned && assignment_of(shared, world).await?.is_none() {
        return Err(RuntimeError::Unassigned(world));
    }
    let now_ns = shared.plane.now_ns();
    let (universe, worker, ttl_ns) = (config.universe, config.worker, config.lease_ttl_ns);
    let acquire = AcquireLease { universe, world, worker, now_ns, ttl_ns };
    let fence = shared.plane.run(&acquire).await?.output;
    shared.metrics.add(Metric::LeasesAcquired, 1);
    shared.table.lock().leased(fence, now_ns);
    shared.note_residents();
    let host = WorldHost::restore(shared.plane.clone(), fence).await?;
    shared.metrics.add(Metric::Restores, 1);
    Ok(Box::new(host))
}

/// The memory is dropped. What can be had later is tried later; what was lost is left to its new holder.
async fn failed<P: Plane>(shared: &Shared<P>, world: WorldId, error: &RuntimeError) {
    let now_ns = shared.plane.now_ns();
    let retry_at_ns = retry_at_ns(shared, world, error, now_ns);
    let fence = shared.table.lock().forget(world, retry_at_ns);
    match error.code() {
        Code::LeaseHeld
        | Code::LeaseAssignedElsewhere
        | Code::WorldUnassigned
        | Code::WorldArchived
        | Code::WorldDeleted
        | Code::WorldNotFound => {}
        Code::LeaseFenced => shared.metrics.add(Metric::LeasesLost, 1),
        code => {
            tracing::warn!(%error, %code, %world, "a world was dropped from memory");
            shared.metrics.add(Metric::WorldFailures, 1);
            if let Some(fence) = fence {
                give_back(shared, fence).await;
            }
        }
    }
}

fn retry_at_ns<P: Plane>(shared: &Shared<P>, world: WorldId, error: &RuntimeError, now_ns: u64) -> Option<u64> {
    let config = &shared.config;
    if shared.phase() != Phase::Running {
        return None;
    }
    if let RuntimeError::Store(StoreError::Lease(LeaseError::Held { left_ns, .. })) = error {
        return Some(now_ns.saturating_add(*left_ns));
    }
    match error.code() {
        Code::WorldDeleted | Code::WorldNotFound => None,
        Code::LeaseAssignedElsewhere | Code::WorldUnassigned | Code::WorldArchived => {
            Some(now_ns.saturating_add(config.lease_ttl_ns))
        }
        _ => {
            let doublings = shared.table.lock().failures(world).min(16);
            let wait_ns = config.retry_ns.saturating_mul(1 << doublings).min(config.lease_ttl_ns);
            Some(now_ns.saturating_add(wait_ns))
        }
    }
}

/// Gives a world back; the next worker finds a short tail.
async fn release<P: Plane>(shared: &Shared<P>, world: WorldId, host: Option<Host<P>>) {
    if let Some(mut host) = host {
        let draining = shared.phase() == Phase::Draining;
        let tail_max = if draining { 0 } else { shared.config.release_tail_records };
        if host.tail().records > tail_max {
            match host.snapshot().await {
                Ok(_) => shared.metrics.add(Metric::Snapshots, 1),
                Err(error) => tracing::warn!(%error, %world, "no snapshot before the release"),
            }
        }
    }
    let fences = shared.table.lock().fences();
    if let Some((fence, _)) = fences.into_iter().find(|(fence, _)| fence.world == world) {
        give_back(shared, fence).await;
        pass_on(shared, world).await;
    }
    shared.table.lock().forget(world, None);
}

async fn assignment_of<P: Plane>(shared: &Shared<P>, world: WorldId) -> Result<Option<Assignment>, RuntimeError> {
    let mut tx = shared.plane.engine().begin().await?;
    Ok(assignment::read(&mut tx, shared.config.universe, world).await?)
}

/// Tells the worker that the world is assigned to: it may have found the lease still held. Without the word it tries
/// again when the lease would have run out.
async fn pass_on<P: Plane>(shared: &Shared<P>, world: WorldId) {
    let WorkerConfig { universe, worker, .. } = shared.config;
    let told = async {
        let assigned = assignment_of(shared, world).await?.and_then(|assigned| assigned.desired);
        match assigned.filter(|assigned| *assigned != worker) {
            Some(assigned) => send_commands(&shared.plane, universe, assigned, &[Command::Assign(world)]).await,
            None => Ok(()),
        }
    };
    if let Err(error) = told.await {
        tracing::debug!(%error, %world, "the next worker was not told");
    }
}

async fn give_back<P: Plane>(shared: &Shared<P>, fence: Fence) {
    match shared.plane.run(&ReleaseLease { fence }).await {
        Ok(_) => shared.metrics.add(Metric::LeasesReleased, 1),
        // It runs out by itself.
        Err(error) => tracing::debug!(%error, world = %fence.world, "a lease was not given back"),
    }
}
