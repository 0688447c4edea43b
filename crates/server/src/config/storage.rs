//! The sections `[data]`, `[engine]`, `[objects]` and `[sweep]`: where data is stored, and how unreferenced objects are removed.

use super::{ConfigError, check::within, millis};
use crate::node::NodeConfig;
use mundi_model::limits;
use mundi_store::{blobs::CasConfig, objects::RequestPolicy, reachability::SweepConfig};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};
use utoipa::ToSchema;

/// The data folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// The folder of the embedded engine, large bodies and compiled components.
    #[schema(value_type = String)]
    pub folder: PathBuf,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { folder: PathBuf::from("mundi-data") }
    }
}

/// The engine: a folder of this process, or a database that many processes share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EngineConfig {
    /// `postgres://…`; `foundationdb://` with the absolute path of a cluster file or its contents, and `?prefix=NAME`; or `file://` with the absolute
    /// path of a folder. If absent, the folder `engine` in the data folder. `config show` masks its password.
    pub url: Option<String>,
    /// The schema in the database; fleets with different schemas can share a database.
    pub schema: String,
    /// Transactions of this process that read from the database at the same time; three more connections are used for other purposes.
    pub connections_max: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { url: None, schema: "mundi".to_owned(), connections_max: 16 }
    }
}

impl EngineConfig {
    /// Whether other processes may use the same engine.
    pub fn is_shared(&self) -> bool {
        self.url.as_ref().is_some_and(|url| !url.starts_with("file:"))
    }
}

/// The object store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectsConfig {
    /// `s3://bucket/prefix`, or `file://` with the absolute path of a folder. If absent, the folder `objects` in the data folder;
    /// with a database it is required, because all processes need the same one.
    pub url: Option<String>,
    /// Bodies up to this size are stored in the engine.
    pub inline_bytes_max: usize,
    /// Settings of the object store by their usual names, such as `aws_endpoint`. They override the variables `AWS_*`; `config show` masks all.
    pub settings: BTreeMap<String, String>,
    /// A request that takes longer has failed.
    pub timeout_ms: u64,
    /// The most attempts of a request.
    pub attempts_max: u32,
}

impl Default for ObjectsConfig {
    fn default() -> Self {
        let RequestPolicy { timeout, attempts_max, .. } = RequestPolicy::default();
        Self {
            url: None,
            inline_bytes_max: CasConfig::default().inline_bytes_max,
            settings: BTreeMap::new(),
            timeout_ms: millis(timeout),
            attempts_max,
        }
    }
}

impl ObjectsConfig {
    pub(super) fn check(&self, engine: &EngineConfig) -> Result<(), ConfigError> {
        within("objects.inline_bytes_max", self.inline_bytes_max, 0..=limits::BLOB_INLINE_BYTES_MAX)?;
        if self.timeout_ms == 0 || self.attempts_max == 0 {
            return Err(ConfigError::new("objects", "`timeout_ms` and `attempts_max` must be above zero"));
        }
        if engine.is_shared() && self.url.is_none() {
            return Err(ConfigError::new(
                "objects.url",
                "is missing: processes that share a database must share an object store",
            ));
        }
        Ok(())
    }

    pub(super) fn requests(&self) -> RequestPolicy {
        let (timeout, attempts_max) = (Duration::from_millis(self.timeout_ms), self.attempts_max);
        RequestPolicy { timeout, attempts_max, ..RequestPolicy::default() }
    }
}

/// When and how fast unreferenced objects are removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SweepSection {
    /// If false, sweeps run only when an operator requests one.
    pub enabled: bool,
    /// The time from the end of a sweep to the start of the next one.
    pub interval_ms: u64,
    /// The least age of an object that is marked, and how long it stays after that; at least an hour.
    pub grace_ms: u64,
    /// Keys that a sweep reads per second; 0 for no bound.
    pub keys_per_second_max: u64,
    /// Objects that a sweep removes per second; 0 for no bound.
    pub removals_per_second_max: u64,
}

impl Default for SweepSection {
    fn default() -> Self {
        let NodeConfig { sweep, sweep_interval, .. } = NodeConfig::default();
        let SweepConfig { grace, keys_per_second_max, removals_per_second_max, .. } = sweep;
        Self {
            enabled: sweep_interval.is_some(),
            interval_ms: millis(sweep_interval.unwrap_or_default()),
            grace_ms: millis(grace),
            keys_per_second_max,
            removals_per_second_max,
        }
    }
}

impl SweepSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.sweep().check().map_err(|cause| ConfigError::new("sweep.grace_ms", cause))?;
        match self.interval_ms {
            0 => Err(ConfigError::new(
                "sweep.interval_ms",
                "must be above zero; `sweep.enabled = false` turns sweeps off",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn sweep(&self) -> SweepConfig {
        SweepConfig {
            grace: Duration::from_millis(self.grace_ms),
            keys_per_second_max: self.keys_per_second_max,
            removals_per_second_max: self.removals_per_second_max,
            ..SweepConfig::default()
        }
    }

    pub(super) fn interval(&self) -> Option<Duration> {
        self.enabled.then(|| Duration::from_millis(self.interval_ms))
    }
}
