//! Moving a universe: from the engine and objects of one configuration to an export, and from there into another.
//!
//! The universe must not be served meanwhile. [`mundi_store::transfer`] describes the format and its checks.

use crate::{
    config::Config,
    node::{self, NodeError, SystemClock},
};
use mundi_store::{
    Clock,
    objects::{self, Objects},
    protocol::{ListUniverses, ListWorkers},
    run,
    transfer::{self, Header, Progress, TransferError},
};

/// Writes a universe to a place: a folder's absolute path, `file://`, or `s3://`.
pub async fn export(
    config: &Config,
    name: &str,
    to: &str,
    progress: impl FnMut(Progress),
) -> Result<Header, NodeError> {
    let (engine, objects) = (node::engine(config).await?, node::configured_objects(config).await?);
    let named = run(&engine, &SystemClock, &ListUniverses).await?.output.remove(name);
    let Some(named) = named else {
        return Err(TransferError::Refused(format!("no universe is called `{name}` here")).into());
    };
    let (universe, now_ns) = (named.universe, SystemClock.now_ns());
    let workers = run(&engine, &SystemClock, &ListWorkers { universe }).await?.output;
    if let Some((worker, _)) = workers.iter().find(|(_, record)| record.expires_at_ns > now_ns) {
        return Err(
            TransferError::Refused(format!("{worker} serves the universe: stop every process that does")).into()
        );
    }
    let to = place(config, to)?;
    Ok(transfer::export(&engine, &objects, (name, universe), &to, now_ns, progress).await?)
}

/// Takes a universe in from a place.
pub async fn import(config: &Config, from: &str, progress: impl FnMut(Progress)) -> Result<Header, NodeError> {
    let from = place(config, from)?;
    let header = transfer::read_header(&from).await?;
    let engine = node::engine_above(config, header.version()).await?;
    let objects = node::configured_objects(config).await?;
    Ok(transfer::import(&from, &engine, &objects, &SystemClock, progress).await?)
}

/// Opened with the settings of the configuration's own objects.
fn place(config: &Config, url: &str) -> Result<Objects, NodeError> {
    Ok(objects::open_with(url, node::object_settings(config))?)
}
