//! From a configuration to a node: which engine, which objects.

use super::{FleetClock, Node, NodeConfig, NodeError};
use crate::{
    config::{Config, ConfigError},
    programs::Programs,
};
use mundi_engine::{AnyEngine, Embedded, embedded, foundationdb};
#[cfg(feature = "postgres")]
use mundi_engine::{Postgres, postgres};
use mundi_model::WorkerId;
use mundi_runtime::Plane;
use mundi_runtime::effects::AdapterWorkerConfig;
use mundi_store::objects::{self, Objects};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How long a world that rests keeps its hint where no other process finds it.
const SETTLE_AFTER_ALONE: Duration = Duration::from_secs(2);

/// Machines' clocks drift by milliseconds in such a time.
const SET_RIGHT_EVERY: Duration = Duration::from_secs(30);

/// How often the clock is set right by this engine. On FoundationDB processes publish their time, so what is read is as old as this.
const fn set_right_every(engine: &AnyEngine) -> Duration {
    #[cfg(feature = "foundationdb")]
    if matches!(engine, AnyEngine::FoundationDb(_)) {
        return foundationdb::PUBLISH_EVERY;
    }
    let _others = engine;
    SET_RIGHT_EVERY
}

impl Node {
    /// A node on the engine and the object store that the configuration names.
    pub async fn open_configured(config: &Config, programs: Programs) -> Result<Self, NodeError> {
        Self::open_configured_as(config, programs, config.node()?).await
    }

    /// The same, but in other roles than the configuration says.
    pub async fn open_configured_as(config: &Config, programs: Programs, node: NodeConfig) -> Result<Self, NodeError> {
        let engine = engine(config).await?;
        let objects = objects(config).await?;
        // Alone on a folder it takes up its own leases where the last process left them, and ends its claims; beside others it
        // needs a number that no other has, and nothing proves that a process of the same number is gone.
        let shared = config.engine.is_shared();
        let own = if shared { None } else { WorkerId::new(1) };
        let settle_after = if shared { node.settle_after } else { SETTLE_AFTER_ALONE };
        let spool = node.spool.clone().or_else(|| Some(config.data.folder.join("spool")));
        let adapters = AdapterWorkerConfig { is_alone: !shared, ..node.adapters };
        let worker = node.worker.or(own);
        let node = NodeConfig { worker, spool, settle_after, adapters, forwards: shared, ..node };
        let clock = Arc::new(FleetClock::new(config.node.clock_skew_ms.saturating_mul(1_000_000)));
        set_right(&clock, &engine).await?;
        let node = Self::start_by(clock.clone(), engine, objects, programs, node).await?;
        let _it_is_new = node.0.configured.set(config.clone());
        let engine = node.plane().engine.clone();
        node.plane().spawner().spawn(Box::pin(async move {
            loop {
                tokio::time::sleep(set_right_every(&engine)).await;
                if let Err(error) = set_right(&clock, &engine).await {
                    tracing::debug!(%error, "the database's time could not be read");
                }
            }
        }));
        Ok(node)
    }
}

/// Processes that share a database share its clock.
async fn set_right(clock: &FleetClock, engine: &AnyEngine) -> Result<(), NodeError> {
    match engine {
        #[cfg(feature = "postgres")]
        AnyEngine::Postgres(engine) => {
            let (ahead_ns, uncertain_ns) = engine.clock_ahead_ns(|| clock.own_now_ns()).await?;
            clock.set_right(ahead_ns, uncertain_ns);
        }
        #[cfg(feature = "foundationdb")]
        AnyEngine::FoundationDb(engine) => {
            let (ahead_ns, uncertain_ns) = engine.clock_ahead_ns(|| clock.own_now_ns()).await?;
            clock.set_right(ahead_ns, uncertain_ns);
        }
        _ => {
            let _alone = clock;
        }
    }
    Ok(())
}

/// The engine that the configuration names.
pub async fn engine(config: &Config) -> Result<AnyEngine, NodeError> {
    engine_above(config, 0).await
}

/// The same, for what is taken over from another engine: its commits stand above this version, if it can be brought there.
/// PostgreSQL can; a folder only when it is made; a FoundationDB cluster only by its operator, so it is refused.
pub async fn engine_above(config: &Config, version: u64) -> Result<AnyEngine, NodeError> {
    match config.engine.url.as_deref() {
        None => embedded(folder(&config.data.folder)?.join("engine"), version).await,
        Some(url) if url.starts_with("file://") => {
            embedded(PathBuf::from(url.trim_start_matches("file://")), version).await
        }
        Some(url) if url.starts_with(foundationdb::SCHEME) => cluster(config, url, version).await,
        Some(url) => database(config, url, version).await,
    }
}

async fn embedded(path: PathBuf, version: u64) -> Result<AnyEngine, NodeError> {
    let options = embedded::Options { first_version: version.saturating_add(1), ..embedded::Options::default() };
    let opening = tokio::task::spawn_blocking(move || Embedded::open_with(path, &options));
    Ok(opening.await.map_err(|error| NodeError::Panicked(error.to_string()))??.into())
}

#[cfg(feature = "postgres")]
async fn database(config: &Config, url: &str, version: u64) -> Result<AnyEngine, NodeError> {
    let mut options = postgres::Options { schema: config.engine.schema.clone(), ..postgres::Options::default() };
    options.connections_max = config.engine.connections_max;
    let engine = Postgres::open_with(url, options).await?;
    if version > 0 {
        engine.raise_version(version).await?;
    }
    Ok(engine.into())
}

#[cfg(not(feature = "postgres"))]
async fn database(_config: &Config, _url: &str, _version: u64) -> Result<AnyEngine, NodeError> {
    Err(ConfigError::new("engine.url", "a database needs a build with the feature `postgres`").into())
}

#[cfg(feature = "foundationdb")]
async fn cluster(config: &Config, url: &str, version: u64) -> Result<AnyEngine, NodeError> {
    let options = foundationdb::Options { imported_version: version, ..cluster_options(config) };
    Ok(foundationdb::FoundationDb::open_with(url, options).await?.into())
}

/// A cluster file that is given by its contents lies in the data folder.
#[cfg(feature = "foundationdb")]
pub(crate) fn cluster_options(config: &Config) -> foundationdb::Options {
    foundationdb::Options { folder: config.data.folder.clone(), ..foundationdb::Options::default() }
}

#[cfg(not(feature = "foundationdb"))]
async fn cluster(_config: &Config, url: &str, _version: u64) -> Result<AnyEngine, NodeError> {
    foundationdb::parse(url)?;
    Err(ConfigError::new("engine.url", "a FoundationDB cluster needs a build with the feature `foundationdb`").into())
}

/// The object store that the configuration names. One that others share is tried out.
pub async fn objects(config: &Config) -> Result<Objects, NodeError> {
    let Some(url) = &config.objects.url else {
        return Ok(objects::open(&folder(&config.data.folder)?.join("objects").display().to_string())?);
    };
    let opened = objects::open_with(url, object_settings(config))?;
    objects::try_out(&opened, url).await?;
    Ok(opened)
}

/// The variables `AWS_*`, and what is configured, which wins.
pub(crate) fn object_settings(config: &Config) -> Vec<(String, String)> {
    let variables = crate::config::environment().into_iter().filter(|(name, _)| name.starts_with("AWS_"));
    let variables = variables.map(|(name, value)| (name.to_lowercase(), value));
    let given = config.objects.settings.iter().map(|(name, value)| (name.clone(), value.clone()));
    variables.chain(given).collect()
}

fn folder(path: &Path) -> Result<PathBuf, NodeError> {
    std::fs::create_dir_all(path).map_err(|error| NodeError::folder(path, &error))?;
    path.canonicalize().map_err(|error| NodeError::folder(path, &error))
}

impl From<ConfigError> for NodeError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}
