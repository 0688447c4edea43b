//! The roles of one universe in this process.

use super::{Delayed, Node, NodeConfig, NodeError, NodePlane, Role};
use crate::quotas::UniverseQuotas;
use mundi_adapters::{
    blob::BlobAdapter, child_agent::AgentChildren, child_cancel::ChildCancelAdapter, child_done::ChildDoneAdapter,
    child_process::ProcessChildren, child_world::WorldChildren, fabric::FabricAdapter, fork::ForkAdapter,
    http::HttpAdapter, llm::LlmAdapter, process::ProcessAdapter, reach::Reach, room::Room, spawn::SpawnAdapter,
    world_call::WorldCallAdapter,
};
use mundi_engine::AnyEngine;
use mundi_model::{UniverseId, WorkerId};
use mundi_runtime::{
    LocalWorlds, Plane, RuntimeError,
    calls::Calls,
    children::{ChildExecutor, ChildExecutorConfig, OutsideCalls, recover_universe},
    control::Ops,
    delivery::DeliverDelayed,
    effects::{AdapterWorker, AdapterWorkerConfig, slots::RegisteredSlots},
    orchestrator::{Orchestrator, OrchestratorConfig},
    shell::{self, Ended, Report, Shell, ShellConfig, Stop, WorkerCommands},
    sweeper::{Sweeper, SweeperConfig},
    tidying::Tidying,
    timers::{TimerWorker, TimerWorkerConfig},
    watcher::{Watcher, WatcherConfig},
    worker::{WorkerConfig, WorldWorker},
};
use std::{sync::Arc, time::Duration};

/// A duty of the orchestrator: of all processes that have it, one sweeps.
fn sweeper(node: &Node, universe: UniverseId) -> Sweeper<AnyEngine> {
    let (sweep, interval) = (node.config().sweep, node.config().sweep_interval);
    let config = SweeperConfig { universe, worker: node.worker(), interval, sweep };
    Sweeper::new(node.plane().clone(), config, node.0.metrics.clone())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn worker_config(config: &NodeConfig, universe: UniverseId, worker: WorkerId) -> WorkerConfig {
    let lease_ttl_ns = nanos(config.lease_ttl);
    WorkerConfig {
        runners: config.runners,
        worlds_max: config.worlds_max,
        deaths_max: config.deaths_max,
        cycle: config.cycle,
        snapshots: config.snapshots,
        segments: config.segments,
        inbox_grace_ns: nanos(config.inbox_grace),
        lease_ttl_ns,
        renew_every_ns: lease_ttl_ns / 4,
        settle_after_ns: nanos(config.settle_after),
        ..WorkerConfig::new(universe, worker)
    }
}

fn shell_config(config: &NodeConfig, universe: UniverseId, worker: WorkerId) -> ShellConfig {
    ShellConfig { policy: config.shell, ..ShellConfig::new(universe, worker) }
}

pub(super) struct Roles<P: Plane> {
    worlds: Option<Worlds<P>>,
    /// Those that begin to end as soon as the node drains: they finish what they hold while worlds are given back.
    finishing: Vec<Stop>,
    /// Those that end once the worlds are given back.
    shells: Vec<Stop>,
    /// Of the adapter worker, once it runs.
    slots: RegisteredSlots,
}

/// The world worker, and the shell that it runs in.
struct Worlds<P: Plane> {
    worker: WorldWorker<P>,
    shell: Stop,
}

impl Roles<NodePlane> {
    /// `plane` is the universe's own.
    pub(super) async fn start(
        node: &Node,
        plane: NodePlane,
        name: &str,
        quotas: Arc<UniverseQuotas>,
        calls: Calls,
    ) -> Result<Self, NodeError> {
        let universe = quotas.id();
        let slots = RegisteredSlots::default();
        let mut roles = Self { worlds: None, finishing: Vec::new(), shells: Vec::new(), slots };
        if node.config().roles.iter().any(|role| matches!(role, Role::World | Role::Adapter)) {
            // Before a world of this process runs, and with it a turn that spawns.
            recover_children(node, universe).await?;
        }
        if node.config().roles.contains(&Role::World) {
            // Before the other roles: they tell it of what they bring.
            roles.run_worlds(node, plane.clone(), quotas.clone(), calls.clone()).await?;
        }
        for role in &node.config().roles {
            match role {
                Role::World => {}
                Role::Adapter => roles.run_adapters(node, &plane, name, &quotas).await?,
                Role::Timer => roles.run_timers(node, universe).await?,
                Role::Orchestrator => {
                    let (config, plane) = (OrchestratorConfig::new(universe), node.plane().clone());
                    let orchestrator = Orchestrator::new(plane, config, node.0.metrics.clone());
                    let placing = run(node, universe, orchestrator, Arc::default()).await?;
                    let sweeping = run(node, universe, sweeper(node, universe), Arc::default()).await?;
                    roles.shells.extend([placing, sweeping]);
                }
                Role::Watcher => roles.run_watcher(node, plane.clone(), universe, calls.clone()).await?,
                Role::Api => {}
            }
        }
        Ok(roles)
    }

    pub(super) fn worlds(&self) -> Option<&WorldWorker<NodePlane>> {
        self.worlds.as_ref().map(|worlds| &worlds.worker)
    }

    /// The slots of its adapter worker: none before it runs, or without that role.
    pub(super) fn slots(&self) -> RegisteredSlots {
        self.slots.clone()
    }

    async fn run_worlds(
        &mut self,
        node: &Node,
        plane: NodePlane,
        quotas: Arc<UniverseQuotas>,
        calls: Calls,
    ) -> Result<(), NodeError> {
        let universe = quotas.id();
        let config = worker_config(node.config(), universe, node.worker());
        let (metrics, first_cycles) = (node.0.metrics.clone(), node.0.first_cycles.clone());
        let worker = WorldWorker::new(plane.clone(), config, calls, metrics, first_cycles);
        worker.keep_pace(quotas);
        worker.set_roles(node.config().roles.iter().map(|role| role.name().to_owned()).collect());
        let config = shell_config(node.config(), universe, node.worker());
        let shell = Shell::boot(plane.clone(), config, worker.clone(), Arc::default()).await?.0.start();
        let commands = WorkerCommands { plane: plane.clone(), worker: worker.clone() };
        self.worlds = Some(Worlds { worker, shell });
        let report = node.0.reports.commands.clone();
        self.run_shell(node, Shell::boot(plane, config, commands, report).await?.0.start());
        Ok(())
    }

    async fn run_adapters(
        &mut self,
        node: &Node,
        plane: &NodePlane,
        name: &str,
        quotas: &Arc<UniverseQuotas>,
    ) -> Result<(), NodeError> {
        let (config, universe) = (node.config(), quotas.id());
        let room: Arc<dyn Room> = Arc::new(node.room());
        let (engine, blobs, clock) = (plane.engine.clone(), plane.blobs.clone(), plane.clock.clone());
        let http = HttpAdapter::new(config.http.clone()).map_err(|error| NodeError::HttpClient(error.to_string()))?;
        let keys = node.rules(name, universe).map(|rules| rules.adapter_keys.clone()).unwrap_or_default();
        let mut worker = AdapterWorker::new(
            engine,
            blobs.clone(),
            clock,
            plane.entropy.clone(),
            universe,
            node.worker(),
            AdapterWorkerConfig { keys, ..config.adapters.clone() },
        );
        worker = worker.with_metrics(node.0.metrics.clone()).with_report(node.0.reports.adapters.clone());
        worker = worker.with_attempts(node.0.attempts.clone()).with_pace(quotas.clone()).with_slots(self.slots.clone());
        worker = worker.serve(Arc::new(BlobAdapter::new(blobs).with_room(room.clone())));
        let reach = Reach::new(plane.clone()).with_universes(Arc::new(node.universe_policy()));
        let mut reach = reach.with_dedupe_window_ns(config.dedupe_window_ns());
        if let Some(Worlds { worker: worlds, .. }) = &self.worlds {
            let local: Arc<dyn LocalWorlds> = Arc::new(worlds.clone());
            (worker, reach) = (worker.with_local_worlds(local.clone()), reach.with_local_worlds(local));
        }
        let (fabric, calls) = (FabricAdapter::over(reach.clone()), WorldCallAdapter::over(reach));
        worker = worker.serve(Arc::new(fabric)).serve(Arc::new(calls));
        let spawn = SpawnAdapter::new(plane.clone()).with_dedupe_window_ns(config.dedupe_window_ns());
        worker = worker.serve(Arc::new(spawn.with_room(room.clone()).with_built_in(node.built_in_names())));
        worker = worker.serve(Arc::new(ForkAdapter::new(plane.clone()).with_room(room)));
        worker = worker.serve(Arc::new(ChildCancelAdapter::new(plane.clone(), node.0.metrics.clone())));
        worker = worker.serve(Arc::new(ChildDoneAdapter::new(plane.clone(), node.0.metrics.clone())));
        if let Some(llm) = config.llm.clone() {
            worker = worker.serve(Arc::new(LlmAdapter::new(http.clone(), llm)));
        }
        if let Some(process) = config.process.clone() {
            worker = worker.serve(Arc::new(ProcessAdapter::new(process)));
        }
        worker = worker.serve(Arc::new(http));
        self.finishing.push(run(node, universe, worker, node.0.reports.adapters.clone()).await?);
        self.run_children(node, plane.clone(), quotas).await
    }

    /// Children run where adapters do.
    async fn run_children(
        &mut self,
        node: &Node,
        plane: NodePlane,
        quotas: &Arc<UniverseQuotas>,
    ) -> Result<(), NodeError> {
        let (config, universe) = (node.config(), quotas.id());
        let is_alone = config.adapters.is_alone;
        let lease_ns = nanos(config.adapters.claim_ttl);
        let children = ChildExecutorConfig { lease_ns, is_alone, ..ChildExecutorConfig::default() };
        let worlds = WorldChildren::new(plane.clone()).with_room(Arc::new(node.room()));
        let executor = ChildExecutor::new(plane.clone(), universe, node.worker(), children);
        let mut executor = executor.with_metrics(node.0.metrics.clone());
        executor = executor.serve(Arc::new(worlds.with_built_in(node.built_in_names())));
        if let Some(process) = config.process.clone() {
            executor = executor.serve(Arc::new(ProcessChildren::new(process)));
        }
        if let Some(llm) = config.llm.clone() {
            let http =
                HttpAdapter::new(config.http.clone()).map_err(|error| NodeError::HttpClient(error.to_string()))?;
            let outside = OutsideCalls::new(plane).with_limits(config.adapters.clone());
            let outside = outside.with_attempts(node.0.attempts.clone()).with_pace(quotas.clone());
            let mut outside = outside.serve(Arc::new(LlmAdapter::new(http.clone(), llm))).serve(Arc::new(http));
            if let Some(process) = config.process.clone() {
                outside = outside.serve(Arc::new(ProcessAdapter::new(process)));
            }
            executor = executor.serve(Arc::new(AgentChildren::new(outside)));
        }
        self.finishing.push(run(node, universe, executor, Arc::default()).await?);
        Ok(())
    }

    async fn run_watcher(
        &mut self,
        node: &Node,
        plane: NodePlane,
        universe: UniverseId,
        calls: Calls,
    ) -> Result<(), NodeError> {
        let mut ops = Ops::new(plane.clone(), universe, calls);
        if let Some(Worlds { worker, .. }) = &self.worlds {
            ops = ops.beside(worker.clone());
        }
        let config = WatcherConfig { interval: node.config().watch_interval, ..WatcherConfig::new(universe) };
        let probe = HttpAdapter::new(node.config().http.clone());
        let probe = probe.map_err(|error| NodeError::HttpClient(error.to_string()))?;
        let watcher = Watcher::new(plane, ops, config, node.0.metrics.clone()).with_probe(Arc::new(probe));
        self.finishing.push(run(node, universe, watcher, Arc::default()).await?);
        Ok(())
    }

    async fn run_timers(&mut self, node: &Node, universe: UniverseId) -> Result<(), NodeError> {
        let plane = node.plane().clone();
        let dedupe_window_ns = node.config().dedupe_window_ns();
        let config = TimerWorkerConfig { dedupe_window_ns, ..TimerWorkerConfig::default() };
        let timers = TimerWorker::new(plane.engine.clone(), plane.clock.clone(), universe, config)
            .with_metrics(node.0.metrics.clone())
            .with_report(node.0.reports.timers.clone());
        self.finishing.push(run(node, universe, timers, node.0.reports.timers.clone()).await?);
        let deliver = DeliverDelayed { plane: plane.clone(), dedupe_window_ns };
        let shell = delayed_config(node.config(), universe);
        let report = node.0.reports.delayed.clone();
        self.run_shell(node, Shell::boot(plane.clone(), shell, deliver, report).await?.0.start());
        self.shells.push(run(node, universe, Tidying { plane, universe }, Arc::default()).await?);
        Ok(())
    }

    /// Keeps a shell until the node drains. One that ends because of a failure is an error in the log, or the end of the process.
    fn run_shell(&mut self, node: &Node, stop: Stop) {
        self.shells.push(stop.clone());
        let (node, plane) = (node.clone(), node.plane().clone());
        plane.spawner().spawn(Box::pin(async move {
            match stop.join().await {
                Ended::Asked => {}
                Ended::Stopped(failed) => {
                    tracing::error!(code = %failed.code, reason = failed.reason, "a worker shell stopped; restart the process");
                }
                Ended::Escalated(failed) => {
                    tracing::error!(code = %failed.code, reason = failed.reason, "a worker shell failed; the process ends");
                    node.escalate(failed);
                }
            }
        }));
    }

    /// Claims and fires nothing more.
    pub(super) fn begin_drain(&self) {
        self.finishing.iter().for_each(Stop::request_stop);
    }

    /// Completes when all leases are released and all roles have ended.
    pub(super) async fn drain(&self) {
        self.begin_drain();
        if let Some(Worlds { shell, .. }) = &self.worlds {
            shell.request_drain();
            shell.join().await;
        }
        for shell in &self.shells {
            shell.request_stop();
            shell.join().await;
        }
        for shell in &self.finishing {
            shell.join().await;
        }
    }
}

/// Ends the children of an earlier life of this process, and those whose leases have run out.
async fn recover_children(node: &Node, universe: UniverseId) -> Result<(), NodeError> {
    let gone = node.config().adapters.is_alone.then_some(node.worker());
    let recovered = recover_universe(node.plane(), universe, gone, node.0.metrics.children()).await;
    Ok(recovered.map_err(RuntimeError::from)?)
}

/// Of the shell that delivers delayed sends.
fn delayed_config(config: &NodeConfig, universe: UniverseId) -> ShellConfig {
    let config = shell_config(config, universe, Delayed::WORKER);
    ShellConfig { policy: config.policy.for_deliveries(), ..config }
}

/// Runs a role in its shell.
async fn run<R: shell::Role<NodePlane>>(
    node: &Node,
    universe: UniverseId,
    role: R,
    report: Arc<Report>,
) -> Result<Stop, NodeError> {
    let config = shell_config(node.config(), universe, node.worker());
    Ok(Shell::boot(node.plane().clone(), config, role, report).await?.0.start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_runtime::{
        shell::{OnNonRetryable, Policy},
        worker::SegmentPolicy,
        world::{CycleBudget, SnapshotPolicy},
    };

    #[test]
    fn a_worker_and_its_shell_go_by_what_the_node_was_configured_with() {
        let (universe, worker) = (UniverseId::from_bytes([1; 16]), Delayed::WORKER);
        let config = NodeConfig {
            runners: 2,
            worlds_max: 15,
            cycle: CycleBudget { items_max: 3, steps_max: 4, effects_max: 5, wall_ms_max: 6 },
            snapshots: SnapshotPolicy { records: 7, bytes: 8, age_ns: 9 },
            segments: SegmentPolicy { enabled: false, segments_max: 10, ..SegmentPolicy::default() },
            inbox_grace: Duration::from_nanos(11),
            lease_ttl: Duration::from_nanos(12),
            settle_after: Duration::from_nanos(13),
            shell: Policy { batch_max: 14, ..Policy::default() },
            ..NodeConfig::default()
        };
        let made = worker_config(&config, universe, worker);
        assert_eq!((made.universe, made.worker, made.runners, made.worlds_max), (universe, worker, 2, 15));
        assert_eq!((made.cycle, made.snapshots, made.segments), (config.cycle, config.snapshots, config.segments));
        assert_eq!(
            (made.inbox_grace_ns, made.lease_ttl_ns, made.renew_every_ns, made.settle_after_ns),
            (11, 12, 3, 13)
        );
        assert_eq!(shell_config(&config, universe, worker).policy, config.shell);
    }

    /// Delivery of an accepted message is tried for as long as was promised, however briefly commands are tried; and a client that sends to a world that
    /// is deleted meanwhile stops no process.
    #[test]
    fn the_shell_of_delayed_sends_keeps_its_attempts_and_takes_the_rest_from_the_configuration() {
        let shell = Policy {
            claim_ttl_ms: 1,
            requeue_attempts_max: 2,
            retry_budget_max: 3,
            backoff_ms: 4,
            backoff_ms_max: 5,
            batch_max: 6,
            idle_ms_max: 7,
            on_non_retryable: OnNonRetryable::Escalate,
        };
        let expected = Policy { requeue_attempts_max: 2, batch_max: 6, idle_ms_max: 7, ..Policy::of_deliveries() };
        let config = NodeConfig { shell, ..NodeConfig::default() };
        assert_eq!(delayed_config(&config, UniverseId::from_bytes([1; 16])).policy, expected);
        assert_eq!(expected.on_non_retryable, OnNonRetryable::DeadLetter);
    }
}
