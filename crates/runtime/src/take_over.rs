//! Holds a world's lease for the length of one operation that an operator asked for, from whatever process.
//!
//! A worker that holds the world is asked to release it and gets it again afterwards; one that crashed is replaced when its lease has
//! expired; where no worker runs at all the lease is free. Each operation takes it under an id of its own: it is never mistaken for a
//! worker of the same process, which could take its own lease again and fence it.
//!
//! The operation is a task of its own: a caller that goes away in the middle leaves no world without a holder. If the process crashes, the
//! lease expires after [`TTL`], or the request for it after [`REQUEST_TTL`].

use crate::{
    Plane, RuntimeError,
    shell::{Command, send_commands},
};
use futures_channel::oneshot;
use futures_util::future::{BoxFuture, Either, select};
use mundi_engine::Engine;
use mundi_model::{UniverseId, WorkerId, WorldId, limits};
use mundi_store::{
    Fence,
    keyspace::assignment,
    protocol::{
        IsReady, LeaseError, ListWorkers, Purpose, ReleaseLease, RenewLeases, TakeOverLease, TakenOver,
        WithdrawLeaseRequest,
    },
};
use std::{collections::BTreeSet, pin::pin, time::Duration};

/// Workers that find the lease held try again after it; the successor of a process that crashed gets the lease then.
const TTL: Duration = Duration::from_secs(5);
const RENEW_EVERY: Duration = Duration::from_millis(1_250);
/// It is repeated with each look.
const REQUEST_TTL: Duration = Duration::from_secs(5);
/// Between two looks; doubles up to the longest.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_LONGEST: Duration = Duration::from_millis(250);

/// An operation under a lease.
pub(crate) type Work<P, T> = Box<dyn FnOnce(P, Fence) -> BoxFuture<'static, Result<T, RuntimeError>> + Send>;

/// Takes a world's lease over, works, and returns it to its holder. Refuses with `LEASE_HELD` if its holder keeps it for longer
/// than [`TAKE_OVER_MS_MAX`](limits::TAKE_OVER_MS_MAX).
pub(crate) async fn take_over<P: Plane, T: Send + 'static>(
    plane: &P,
    (universe, world): (UniverseId, WorldId),
    purpose: Purpose,
    work: Work<P, T>,
) -> Result<T, RuntimeError> {
    let (done, waiting) = oneshot::channel();
    let operation = Operation {
        plane: plane.clone(),
        universe,
        world,
        purpose,
        by: WorkerId::of_operation(plane.random()),
        told: BTreeSet::new(),
    };
    plane.spawner().spawn(Box::pin(async move {
        let _nobody_waits_any_more = done.send(operation.run(work).await);
    }));
    waiting.await.unwrap_or(Err(RuntimeError::Cancelled("the process ends; what was asked for may be done in part")))
}

/// Pauses that double up to the longest one.
pub(crate) struct Looks(Duration);

impl Looks {
    pub(crate) fn new() -> Self {
        Self(LOOK_FIRST)
    }

    pub(crate) async fn pause<P: Plane>(&mut self, plane: &P) {
        plane.clock().sleep(self.0).await;
        self.0 = (self.0 * 2).min(LOOK_LONGEST);
    }
}

struct Operation<P> {
    plane: P,
    universe: UniverseId,
    world: WorldId,
    purpose: Purpose,
    by: WorkerId,
    /// The workers that were asked to release the world.
    told: BTreeSet<WorkerId>,
}

impl<P: Plane> Operation<P> {
    async fn run<T>(mut self, work: Work<P, T>) -> Result<T, RuntimeError> {
        let taken = match self.take().await {
            Ok(fence) => Ok(self.work(fence, work).await),
            Err(error) => {
                let Self { universe, world, by, .. } = self;
                if let Err(error) = self.plane.run(&WithdrawLeaseRequest { universe, world, by }).await {
                    tracing::debug!(%error, %world, "a request for a lease could not be withdrawn and will expire");
                }
                Err(error)
            }
        };
        if self.purpose == Purpose::Upkeep
            && let Err(error) = self.hand_back().await
        {
            tracing::debug!(%error, world = %self.world, "the worker could not be notified and will find the world later");
        }
        taken?
    }

    async fn take(&mut self) -> Result<Fence, RuntimeError> {
        let Self { universe, world, by, purpose, .. } = *self;
        let until_ns = self.plane.now_ns().saturating_add(limits::TAKE_OVER_MS_MAX * 1_000_000);
        let mut looks = Looks::new();
        loop {
            let (now_ns, ttl_ns, request_ttl_ns) = (self.plane.now_ns(), nanos(TTL), nanos(REQUEST_TTL));
            let take = TakeOverLease { universe, world, by, now_ns, ttl_ns, request_ttl_ns, purpose };
            let held = match self.plane.run(&take).await?.output {
                TakenOver::Now(fence) => return Ok(fence),
                TakenOver::Requested(held) => {
                    self.tell_holder(held).await?;
                    held
                }
                TakenOver::Waits(requested) => requested,
            };
            if now_ns >= until_ns {
                return Err(held.into());
            }
            looks.pause(&self.plane).await;
        }
    }

    /// Only workers read their mail; another operation like this one gives the lease back by itself.
    async fn tell_holder(&mut self, held: LeaseError) -> Result<(), RuntimeError> {
        let LeaseError::Held { holder, .. } = held else { return Ok(()) };
        if self.told.contains(&holder) || !self.workers().await?.contains(&holder) {
            return Ok(());
        }
        send_commands(&self.plane, self.universe, holder, &[Command::Revoke(self.world)]).await?;
        self.told.insert(holder);
        Ok(())
    }

    async fn workers(&self) -> Result<BTreeSet<WorkerId>, RuntimeError> {
        Ok(self.plane.run(&ListWorkers { universe: self.universe }).await?.output.into_keys().collect())
    }

    /// Works as long as the lease can be renewed, then releases it. The result is that of the work, not that of the release.
    async fn work<T>(&self, fence: Fence, work: Work<P, T>) -> Result<T, RuntimeError> {
        let working = work(self.plane.clone(), fence);
        let done = match select(working, pin!(self.renew(fence))).await {
            Either::Left((done, _)) => done,
            Either::Right((lost, _)) => Err(lost),
        };
        if let Err(error) = self.plane.run(&ReleaseLease { fence, active_at_ns: None }).await {
            tracing::debug!(%error, world = %fence.world, "a lease could not be released and will expire");
        }
        done
    }

    /// Ends when the lease is lost: then the work would be refused anyway.
    async fn renew(&self, fence: Fence) -> RuntimeError {
        loop {
            self.plane.clock().sleep(RENEW_EVERY).await;
            let (now_ns, ttl_ns) = (self.plane.now_ns(), nanos(TTL));
            let renew = RenewLeases { worker: self.by, fences: vec![fence], now_ns, ttl_ns };
            match self.plane.run(&renew).await {
                Ok(done) if done.output.lost.is_empty() => {}
                Ok(_) => {
                    return mundi_store::StoreError::from(mundi_store::Fenced { fence, current: None }).into();
                }
                // It may go better the next time, and the work is fenced if it does not.
                Err(error) => tracing::debug!(%error, world = %fence.world, "a lease was not renewed"),
            }
        }
    }

    /// Notifies the workers that may run the world that it is free: they found it held, and would try again only when the lease had expired.
    async fn hand_back(&self) -> Result<(), RuntimeError> {
        let Self { universe, world, .. } = *self;
        let is_ready = self.plane.run(&IsReady { universe, world }).await?.output;
        if !is_ready && self.told.is_empty() {
            return Ok(());
        }
        let assigned = assignment::read(&mut self.plane.engine().begin().await?, universe, world).await?;
        let workers = match assigned.and_then(|assigned| assigned.desired) {
            Some(desired) => BTreeSet::from([desired]),
            None if self.told.is_empty() => self.workers().await?,
            None => self.told.clone(),
        };
        for worker in workers {
            send_commands(&self.plane, universe, worker, &[Command::Assign(world)]).await?;
        }
        Ok(())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
