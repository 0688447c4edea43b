//! The keeper: renews leases in batches, drops worlds whose lease is lost, and gives back what is idle.

use super::{Phase, Shared};
use crate::{Plane, metrics::Metric};
use futures_util::future::select;
use mundi_model::limits;
use mundi_store::{Fence, protocol::RenewLeases};
use std::{sync::Arc, time::Duration};

pub(super) async fn run<P: Plane>(shared: Arc<Shared<P>>) {
    let mut renew_at_ns = shared.plane.now_ns().saturating_add(shared.config.renew_every_ns);
    while shared.phase() != Phase::Over {
        let seen = shared.signal.version();
        let now_ns = shared.plane.now_ns();
        if now_ns >= renew_at_ns {
            renew(&shared).await;
            renew_at_ns = now_ns.saturating_add(shared.config.renew_every_ns);
        }
        if tidy(&shared, now_ns) {
            shared.signal.notify();
        }
        let next_ns = shared.table.lock().next_later_ns().map_or(renew_at_ns, |later_ns| later_ns.min(renew_at_ns));
        let pause = Duration::from_nanos(next_ns.saturating_sub(shared.plane.now_ns()).max(1));
        select(shared.plane.clock().sleep(pause), shared.signal.changed(seen)).await;
    }
}

fn tidy<P: Plane>(shared: &Shared<P>, now_ns: u64) -> bool {
    let mut table = shared.table.lock();
    let woken = shared.phase() == Phase::Running && table.wake_later(now_ns);
    let config = &shared.config;
    woken | (table.release_surplus(now_ns, config.idle_release_ns, config.resident_bytes_max) > 0)
}

/// A renewal that fails for one world stops that world; one that fails for all is tried again until leases run out.
async fn renew<P: Plane>(shared: &Shared<P>) {
    let fences = shared.table.lock().fences();
    for chunk in fences.chunks(limits::RENEWALS_MAX) {
        let now_ns = shared.plane.now_ns();
        let held: Vec<Fence> = chunk.iter().map(|(fence, _)| *fence).collect();
        let (worker, ttl_ns) = (shared.config.worker, shared.config.lease_ttl_ns);
        match shared.plane.run(&RenewLeases { worker, fences: held, now_ns, ttl_ns }).await {
            Ok(done) => {
                shared.metrics.add(Metric::LeasesRenewed, done.output.renewed.len() as u64);
                let mut table = shared.table.lock();
                done.output.renewed.iter().for_each(|fence| table.renewed(*fence, now_ns));
                drop(table);
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
    let lost = shared.table.lock().lose(fence);
    if lost {
        tracing::info!(world = %fence.world, "the lease was lost");
        shared.metrics.add(Metric::LeasesLost, 1);
        shared.signal.notify();
    }
}
