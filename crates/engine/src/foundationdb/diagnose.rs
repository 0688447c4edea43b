//! Diagnosis of a cluster for its operator.

use super::{
    client_error::refused,
    engine::{Options, Shared},
    shared_clock,
};
use crate::EngineError;
use bytes::Bytes;

/// Where a cluster describes itself.
const STATUS_KEY: &[u8] = b"\xff\xff/status/json";

/// The diagnosis. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The cluster's description of itself, as JSON.
    pub status: Bytes,
    /// The version of the cluster, and the highest one that the deployment has seen.
    pub version: u64,
    pub highest_version: Option<u64>,
    /// The time that the fleet last agreed on, in nanoseconds since 1970; `None` if no process has run yet.
    pub clock_ns: Option<u64>,
}

/// Looks at the cluster that a URL names. Called within a tokio runtime.
pub async fn diagnose(url: &str, options: &Options) -> Result<Diagnosis, EngineError> {
    let shared = Shared::connect(url, options)?;
    let looking = async {
        let (version, highest_version) = shared.versions().await?;
        let clock = shared.begin()?.get(&shared.keys.clock(), true).await?;
        let status = shared.database.create_trx()?.get(STATUS_KEY, true).await?;
        Ok((version, highest_version, clock, status))
    };
    let looked = looking.await;
    let (version, highest_version, clock, status) = looked.map_err(|error| refused("looking at the cluster", error))?;
    let status = status.map(|status| Bytes::copy_from_slice(&status)).unwrap_or_default();
    let clock_ns = clock.and_then(|value| shared_clock::read(&value));
    Ok(Diagnosis { status, version, highest_version, clock_ns })
}
