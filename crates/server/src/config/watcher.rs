//! The section `[watcher]`: how the role `watcher` looks at pools.

use super::{ConfigError, check::within, millis};
use crate::node::NodeConfig;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// How the holders of pools' leases are watched. What is done about them is a policy of each pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WatcherSection {
    /// The time from the end of a round to the start of the next one. Times of policies are rounded up to it.
    pub interval_ms: u64,
}

impl Default for WatcherSection {
    fn default() -> Self {
        Self { interval_ms: millis(NodeConfig::default().watch_interval) }
    }
}

impl WatcherSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("watcher.interval_ms", self.interval_ms, 10..=3_600_000)
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}
