//! The lease keeper: renews leases in batches, drops worlds whose lease is lost, and releases idle worlds.

use super::{Phase, Shared, WorkerConfig};
use crate::{
    Plane,
    metrics::{Metric, Timing},
    world_name::world_name,
};
use futures_util::future::select;
use mundi_model::{
    limits,
    mutants::{Mutant, planted},
};
use mundi_store::{
    Fence,
    keyspace::{schema_version::SchemaVersion, worker::WorkerRecord},
    protocol::{Heartbeat, RenewLeases, WakeDueSnapshots},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Worlds that are woken for a snapshot at a time: restoring them must not crowd out those that have work.
const DUE_MAX: usize = 32;

pub(super) async fn run<P: Plane>(shared: Arc<Shared<P>>) {
    let started_at_ns = shared.plane.now_ns();
    let mut renew_at_ns = started_at_ns.saturating_add(shared.config.renew_every_ns);
    heartbeat(&shared, started_at_ns).await;
    let mut wake_at_ns = started_at_ns.saturating_add(shared.config.rescan_ns);
    let (mut phase, mut has_address, mut is_full) = (Phase::Running, false, false);
    loop {
        let seen = shared.signal.version();
        let now_ns = shared.plane.now_ns();
        let is_reached = shared.address.lock().is_some();
        let has_refused = shared.has_refused.swap(false, Ordering::AcqRel);
        let news = phase != shared.phase() || has_address != is_reached || has_refused && !is_full;
        if now_ns >= renew_at_ns || news {
            (phase, has_address, is_full) = (shared.phase(), is_reached, has_refused);
            heartbeat(&shared, started_at_ns).await;
            if phase == Phase::Over {
                shared.said_goodbye.store(true, Ordering::Release);
                shared.signal.notify();
                return;
            }
            renew(&shared).await;
            if now_ns >= wake_at_ns {
                wake_due(&shared).await;
                wake_at_ns = now_ns.saturating_add(shared.config.rescan_ns);
            }
            renew_at_ns = now_ns.saturating_add(shared.config.renew_every_ns);
        }
        shared.note_residents();
        if tidy(&shared, now_ns) {
            shared.work.notify();
        }
        let next_ns = next_ns(&shared, now_ns).map_or(renew_at_ns, |next_ns| next_ns.min(renew_at_ns));
        let pause = Duration::from_nanos(next_ns.saturating_sub(shared.plane.now_ns()).max(1));
        select(shared.plane.clock().sleep(pause), shared.signal.changed(seen)).await;
    }
}

/// When something is due. A worker that drains retries nothing: what is due then must not keep it awake.
fn next_ns<P: Plane>(shared: &Shared<P>, now_ns: u64) -> Option<u64> {
    if shared.phase() != Phase::Running {
        return None;
    }
    let scheduler = shared.scheduler.lock();
    let settle_ns = scheduler.has_unsettled().then(|| now_ns.saturating_add(shared.config.settle_after_ns));
    scheduler.next_later_ns().into_iter().chain(settle_ns).min()
}

/// Writes the heartbeat of the worker with its capacity, or removes it.
async fn heartbeat<P: Plane>(shared: &Shared<P>, started_at_ns: u64) {
    let WorkerConfig { universe, worker, worlds_max, lease_ttl_ns, .. } = shared.config;
    let worlds = u32::try_from(shared.scheduler.lock().busy()).unwrap_or(u32::MAX);
    let record = WorkerRecord {
        started_at_ns,
        expires_at_ns: shared.plane.now_ns().saturating_add(lease_ttl_ns),
        worlds_max,
        draining: shared.phase() == Phase::Draining,
        schema_version: u32::from(SchemaVersion::CURRENT.major),
        address: shared.address.lock().clone(),
        worlds: Some(worlds),
        roles: shared.roles.get().cloned(),
    };
    let record = (shared.phase() != Phase::Over).then_some(record);
    if let Err(error) = shared.plane.run(&Heartbeat { universe, worker, record }).await {
        tracing::warn!(%error, "the heartbeat could not be written");
    }
}

/// Worlds that rest and whose next snapshot is due by age get work. All workers look for them now and then; one comes first.
async fn wake_due<P: Plane>(shared: &Shared<P>) {
    let (universe, now_ns) = (shared.config.universe, shared.plane.now_ns());
    let wake = WakeDueSnapshots { universe, now_ns, items_max: DUE_MAX };
    match shared.plane.run(&wake).await {
        Ok(done) if done.output > 0 => tracing::debug!(worlds = done.output, "snapshots are due"),
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "worlds whose snapshots are due were not woken"),
    }
}

fn tidy<P: Plane>(shared: &Shared<P>, now_ns: u64) -> bool {
    let mut scheduler = shared.scheduler.lock();
    let config = &shared.config;
    let running = shared.phase() == Phase::Running;
    let woken = running && (scheduler.wake_later(now_ns) | scheduler.settle(now_ns, config.settle_after_ns));
    let idle_ns = if planted(Mutant::IdleKept) { u64::MAX } else { config.idle_release_ns };
    let worlds_max = config.worlds_max as usize;
    woken | (scheduler.release_surplus(now_ns, idle_ns, config.resident_bytes_max, worlds_max) > 0)
}

/// A renewal that fails for one world stops that world; one that fails for all is tried again until leases expire.
async fn renew<P: Plane>(shared: &Shared<P>) {
    let fences = shared.scheduler.lock().fences();
    for chunk in fences.chunks(limits::RENEWALS_MAX) {
        let now_ns = shared.plane.now_ns();
        let held: Vec<Fence> = chunk.iter().map(|(fence, _)| *fence).collect();
        let (worker, ttl_ns) = (shared.config.worker, shared.config.lease_ttl_ns);
        let renewed = shared.plane.run(&RenewLeases { worker, fences: held, now_ns, ttl_ns }).await;
        shared.metrics.observe_ns(Timing::LeaseRenewal, shared.plane.now_ns().saturating_sub(now_ns));
        match renewed {
            Ok(done) => {
                shared.metrics.add(Metric::LeasesRenewed, done.output.renewed.len() as u64);
                let mut scheduler = shared.scheduler.lock();
                done.output.renewed.iter().for_each(|fence| scheduler.renewed(*fence, now_ns));
                done.output.elsewhere.iter().for_each(|fence| scheduler.release(fence.world, now_ns));
                drop(scheduler);
                if !done.output.elsewhere.is_empty() {
                    shared.work.notify();
                }
                done.output.lost.iter().for_each(|fence| lose(shared, *fence));
            }
            Err(error) => {
                tracing::warn!(%error, "leases could not be renewed");
                let expired = |(_, renewed_at_ns): &&(Fence, u64)| now_ns >= renewed_at_ns.saturating_add(ttl_ns);
                chunk.iter().filter(expired).for_each(|(fence, _)| lose(shared, *fence));
            }
        }
    }
}

fn lose<P: Plane>(shared: &Shared<P>, fence: Fence) {
    let lost = shared.scheduler.lock().lose(fence);
    if lost {
        shared.note_behind(fence.world, 0); // how old its inbox is its next holder knows
        shared.metrics.add(Metric::LeasesLost, 1);
        shared.signal.notify();
        let (plane, Fence { universe, world, .. }) = (shared.plane.clone(), fence);
        // The renewal of the other leases does not wait for a name.
        shared.plane.spawner().spawn(Box::pin(async move {
            let name = world_name(&plane, universe, world).await;
            tracing::info!(%world, name, "the lease was lost");
        }));
    }
}
