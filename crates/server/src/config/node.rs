//! The section `[node]`, and the configuration of a node that all sections together make.

use super::{
    Config, ConfigError, UniverseSection,
    check::{NUMBER_MAX, within},
    millis,
};
use crate::node::{DEFAULT_UNIVERSE, NodeConfig, Role};
use mundi_model::WorkerId;
use mundi_store::blobs::CasConfig;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::PathBuf, time::Duration};
use utoipa::ToSchema;

/// The roles of this process, and their bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSection {
    /// The roles of this process: some of `world`, `adapter`, `timer`, `orchestrator`, `watcher`, `api`.
    #[schema(value_type = Vec<String>)]
    pub roles: BTreeSet<Role>,
    /// The number of this process in its fleet, above zero. Random if absent.
    pub worker: Option<u64>,
    /// How many worlds of a universe run at the same time.
    pub runners: usize,
    /// The most active worlds of this process; idle worlds do not count. Further ones are refused.
    pub worlds_max: u32,
    /// The universes that this process serves, by name; missing ones are created.
    pub universes: BTreeSet<String>,
    /// How long a process that was told to stop drains.
    pub drain_timeout_ms: u64,
    /// How long a lease lasts without a renewal. Leases are renewed four times as often.
    pub lease_ttl_ms: u64,
    /// A file that gets a line for each step of the worker shells, for postmortem analysis.
    #[schema(value_type = Option<String>)]
    pub replay_log: Option<PathBuf>,
    /// A larger file is renamed to `….1`, which replaces the previous one, and a new file is started.
    pub replay_log_bytes_max: u64,
    /// An offset of the machine's clock, for tests only.
    #[serde(skip_serializing)]
    pub clock_skew_ms: i64,
}

impl Default for NodeSection {
    fn default() -> Self {
        let NodeConfig { roles, runners, worlds_max, drain_timeout, lease_ttl, replay_log_bytes_max, .. } =
            NodeConfig::default();
        let universes = [DEFAULT_UNIVERSE.to_owned()].into();
        let (drain_timeout_ms, lease_ttl_ms) = (millis(drain_timeout), millis(lease_ttl));
        Self {
            roles,
            worker: None,
            runners,
            worlds_max,
            universes,
            drain_timeout_ms,
            lease_ttl_ms,
            replay_log: None,
            replay_log_bytes_max,
            clock_skew_ms: 0,
        }
    }
}

impl NodeSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("node.replay_log_bytes_max", self.replay_log_bytes_max, 4_096..=NUMBER_MAX)?;
        within("node.runners", self.runners, 1..=65_536)?;
        // Below a second, a pause of the machine or of the database costs leases.
        within("node.lease_ttl_ms", self.lease_ttl_ms, 1_000..=3_600_000)
    }
}

impl Config {
    /// The configuration of the node.
    pub fn node(&self) -> Result<NodeConfig, ConfigError> {
        let worker = self
            .node
            .worker
            .map(|number| WorkerId::new(number).ok_or_else(|| ConfigError::new("node.worker", "must be above zero")));
        let rules = |(name, section): (&String, &UniverseSection)| {
            let rules = section.rules().map_err(|cause| ConfigError::new(format!("universes.{name}"), cause))?;
            Ok((name.clone(), rules))
        };
        let universe_rules = self.universes.iter().map(rules).collect::<Result<_, ConfigError>>()?;
        Ok(NodeConfig {
            roles: self.node.roles.clone(),
            worker: worker.transpose()?,
            runners: self.node.runners,
            weights: self.programs.weights.clone(),
            worlds_max: self.node.worlds_max.max(1),
            deaths_max: self.worlds.deaths_max,
            universes: self.node.universes.clone(),
            snapshots: self.worlds.snapshots(),
            cycle: self.worlds.cycle.budget(),
            segments: self.worlds.segments.policy(),
            inbox_grace: Duration::from_millis(self.worlds.inbox_grace_ms),
            content: CasConfig { inline_bytes_max: self.objects.inline_bytes_max, ..CasConfig::default() },
            shell: self.shell.policy(),
            quotas: self.quotas.defaults(),
            admission: self.api.admission(),
            replay_log: self.node.replay_log.clone(),
            replay_log_bytes_max: self.node.replay_log_bytes_max,
            dedupe_window: Duration::from_millis(self.worlds.dedupe_window_ms),
            objects: self.objects.requests(),
            sweep: self.sweep.sweep(),
            sweep_interval: self.sweep.interval(),
            watch_interval: self.watcher.interval(),
            adapters: self.effects.adapters(),
            attempts: self.effects.attempts(),
            retry: self.effects.retry.policy(),
            http: self.http.adapter(),
            llm: self.llm.adapter()?,
            process: self.process.adapter()?,
            universe_rules,
            drain_timeout: Duration::from_millis(self.node.drain_timeout_ms),
            lease_ttl: Duration::from_millis(self.node.lease_ttl_ms),
            ..NodeConfig::default()
        })
    }
}
