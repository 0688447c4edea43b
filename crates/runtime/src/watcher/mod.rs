//! The watcher: looks at the holders of a pool's leases from outside, and revokes and reclaims by the pool's policy.
//!
//! Its findings are first recorded as evidence, then it sends `revoke`, and, when the delay of the policy has passed, `reclaim`. All three are
//! ordinary commands of the pool, under operation ids that follow from the lease: two watchers, or one that crashed and repeats itself, have
//! one result.
//!
//! It never frees anything early:
//! - It compares no clocks. It counts its own rounds, which are at least an interval apart, and only those that went well. A wall clock that
//!   jumps changes nothing.
//! - It keeps what it counted in memory only. A watcher that starts counts from zero, which is late and never early.
//! - It looks only at pools that stand in the list of pools. A fork or an imported copy of a pool has neither policy nor authority.
//!
//! Without a watcher nothing is revoked or reclaimed by itself.

mod probe;
mod rounds;

pub use probe::{Probe, ProbeFailed};

use crate::{
    Plane, RuntimeError,
    control::Ops,
    metrics::{Metric, Metrics},
    shell::{Role, Shell},
    world_name::world_name,
};
use futures_util::{
    future::{Either, select},
    stream::{self, StreamExt},
};
use mundi_kernel::lease_kernel::{
    command::{Command, Request},
    result::Outcome,
};
use mundi_model::{
    UniverseId, WorldId, WorldName, limits,
    pool::{ClientId, LeaseId, OperationId},
    watch::WatchPolicy,
};
use mundi_store::{
    StoreError,
    keyspace::queue_notify::{self, POOL_WATCHES, Seen},
    protocol::{ListWatches, PoolError, WaitingReclaims, WatchedLeases, WatchedPool, shard_name},
};
use rounds::{Finding, Memory, Rounds, ShardMemory};
use std::{pin::pin, sync::Arc, time::Duration};

/// The client in whose name watchers send commands: all of them are one.
pub const CLIENT: &str = "mundi.watcher";

/// How long a command is waited for. It may be carried out later all the same; the next round sends the same one.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Commands that are sent at the same time.
const COMMANDS_AT_ONCE: usize = 16;

/// Without a policy it looks again after this time even if no change was announced.
const IDLE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub struct WatcherConfig {
    pub universe: UniverseId,
    /// From the end of a round to the beginning of the next one.
    pub interval: Duration,
}

impl WatcherConfig {
    pub fn new(universe: UniverseId) -> Self {
        Self { universe, interval: Duration::from_secs(1) }
    }
}

/// Watches the pools of a universe. Any number of them may run.
pub struct Watcher<P: Plane> {
    plane: P,
    ops: Ops<P>,
    config: WatcherConfig,
    probe: Option<Arc<dyn Probe>>,
    metrics: Arc<Metrics>,
}

impl<P: Plane> Role<P> for Watcher<P> {
    const NAME: &'static str = "watcher";

    async fn run(shell: &Shell<P, Self>) -> Result<(), RuntimeError> {
        shell.until_asked(shell.role().watch()).await;
        Ok(())
    }
}

impl<P: Plane> Watcher<P> {
    pub fn new(plane: P, ops: Ops<P>, config: WatcherConfig, metrics: Arc<Metrics>) -> Self {
        Self { plane, ops, config, probe: None, metrics }
    }

    /// Probes are made by this; without it, a rule that needs one revokes nothing.
    #[must_use]
    pub fn with_probe(self, probe: Arc<dyn Probe>) -> Self {
        Self { probe: Some(probe), ..self }
    }

    /// Looks again and again.
    async fn watch(&self) {
        let mut memory = Memory::default();
        loop {
            let idle = match self.round(&mut memory).await {
                Ok((0, seen)) => Some(seen),
                Ok(_) => None,
                Err(error) => {
                    self.failed(&error, "pools could not be watched");
                    None
                }
            };
            match idle {
                Some(seen) => self.wait_for_a_policy(seen).await,
                None => self.plane.clock().sleep(self.config.interval).await,
            }
        }
    }

    /// Until a pool gets a policy.
    async fn wait_for_a_policy(&self, seen: Seen) {
        let idle = self.plane.clock().sleep(IDLE_MAX.max(self.config.interval));
        let changed = pin!(queue_notify::changed(self.plane.engine(), self.config.universe, POOL_WATCHES, seen));
        if let Either::Left((Err(_), idle)) = select(changed, idle).await {
            idle.await; // a watch that failed must not make it look without end
        }
    }

    /// One look at everything; says how many pools are watched.
    async fn round(&self, memory: &mut Memory) -> Result<(usize, Seen), RuntimeError> {
        let watches = self.plane.run(&ListWatches { universe: self.config.universe }).await?.output;
        let mut worlds = Vec::new();
        for pool in &watches.pools {
            for shard in 0..pool.record.shards {
                let world = self.world(pool, shard)?;
                worlds.push(world);
                // A shard that cannot be looked at keeps no other one from being looked at, and its rounds do not count.
                if let Err(error) = self.look(&pool.policy, world, memory.of(world)).await {
                    self.failed(&error, "a pool could not be watched");
                }
            }
        }
        memory.keep_only(&worlds);
        self.metrics.add(Metric::WatcherRounds, 1);
        Ok((watches.pools.len(), watches.seen))
    }

    fn world(&self, pool: &WatchedPool, shard: u64) -> Result<WorldId, RuntimeError> {
        let name: WorldName =
            pool.name.parse().map_err(|_| StoreError::from(PoolError::NotFound(pool.name.clone())))?;
        let name = shard_name(&name, shard).map_err(StoreError::from)?;
        Ok(name.world(self.config.universe))
    }

    fn failed(&self, error: &RuntimeError, what: &str) {
        tracing::warn!(%error, universe = %self.config.universe, "{what}");
        self.metrics.add(Metric::WatcherFailures, 1);
    }

    /// One look at a shard: revokes first, so that a delay begins as early as it may.
    async fn look(&self, policy: &WatchPolicy, world: WorldId, memory: &mut ShardMemory) -> Result<(), RuntimeError> {
        let rounds = Rounds::of(self.config.interval, self.plane.now_ns());
        let findings = self.findings(policy, world, rounds, memory).await?;
        let revoking = stream::iter(findings).map(|finding| self.revoke(policy, world, finding));
        let revoked: Vec<_> = revoking.buffer_unordered(COMMANDS_AT_ONCE).collect().await;
        let due = self.due_reclaims(world, rounds, memory).await?;
        let reclaiming = stream::iter(due).map(|lease| self.reclaim(world, lease));
        let reclaimed: Vec<_> = reclaiming.buffer_unordered(COMMANDS_AT_ONCE).collect().await;
        revoked.into_iter().chain(reclaimed).collect()
    }

    /// The active leases whose holders are taken for gone.
    async fn findings(
        &self,
        policy: &WatchPolicy,
        world: WorldId,
        rounds: Rounds,
        memory: &mut ShardMemory,
    ) -> Result<Vec<Finding>, RuntimeError> {
        let (universe, items_max) = (self.config.universe, limits::WATCH_PAGE_MAX);
        let (mut after, mut findings) = (None, Vec::new());
        memory.begin_leases(policy);
        loop {
            let page = WatchedLeases { universe, pool: world, after, items_max };
            let mut page = self.plane.run(&page).await?.output;
            let is_last = page.len() < items_max;
            after = page.last().map(|watched| watched.lease);
            page.retain(|watched| memory.has_room_for(watched.lease));
            let probed = match (&policy.probe, &self.probe) {
                (Some(rule), Some(probe)) => self.probe_all(rule, &**probe, world, &page, memory).await,
                _ => Vec::new(),
            };
            findings.extend(memory.leases_seen(policy, rounds, &page, &probed));
            if is_last {
                memory.end_leases();
                return Ok(findings);
            }
        }
    }

    async fn due_reclaims(
        &self,
        world: WorldId,
        rounds: Rounds,
        memory: &mut ShardMemory,
    ) -> Result<Vec<LeaseId>, RuntimeError> {
        let (universe, items_max) = (self.config.universe, limits::WATCH_PAGE_MAX);
        let (mut after, mut due) = (None, Vec::new());
        memory.begin_reclaims();
        loop {
            let page = self.plane.run(&WaitingReclaims { universe, pool: world, after, items_max }).await?.output;
            after = page.last().map(|(lease, _)| *lease);
            due.extend(memory.reclaims_seen(rounds, &page));
            if page.len() < items_max {
                memory.end_reclaims();
                return Ok(due);
            }
        }
    }

    /// Evidence first: a crash between the two leaves a record of what was seen, and the next round goes on.
    async fn revoke(&self, policy: &WatchPolicy, world: WorldId, finding: Finding) -> Result<(), RuntimeError> {
        let Finding { lease: lease_id, kind, detail } = finding;
        let evidence = Command::Evidence { lease_id, kind, detail };
        self.command(world, format!("evidence/{}/{lease_id}", kind.as_str()), evidence).await?;
        let revoke = Command::Revoke { lease_id, reclaim_after_ms: policy.reclaim_after_ms };
        let revoked = self.command(world, format!("revoke/{lease_id}"), revoke).await?;
        if revoked.result.error().is_none() {
            let name = world_name(&self.plane, self.config.universe, world).await;
            tracing::info!(%world, name, lease = %lease_id, kind = kind.as_str(), "a lease was revoked");
            self.metrics.add(Metric::WatcherRevokes, 1);
        }
        Ok(())
    }

    async fn reclaim(&self, world: WorldId, lease_id: LeaseId) -> Result<(), RuntimeError> {
        let reclaim = Command::Reclaim { lease_id };
        let reclaimed = self.command(world, format!("reclaim/{lease_id}"), reclaim).await?;
        if reclaimed.result.error().is_none() {
            let name = world_name(&self.plane, self.config.universe, world).await;
            tracing::info!(%world, name, lease = %lease_id, "a lease was reclaimed");
            self.metrics.add(Metric::WatcherReclaims, 1);
        }
        Ok(())
    }

    /// A refusal is no error: the lease ended in another way meanwhile.
    async fn command(&self, world: WorldId, operation: String, command: Command) -> Result<Outcome, RuntimeError> {
        let operation_id = Some(OperationId::of_name(&operation));
        let request = Request { operation_id, client_id: Some(ClientId::of_name(CLIENT)), command };
        let outcome = self.ops.pool_command(world, &request, COMMAND_TIMEOUT).await?;
        Ok(outcome)
    }
}
