//! Whether a universe may have more: asked before an effect makes it grow.

use futures_util::future::BoxFuture;
use mundi_model::UniverseId;
use mundi_store::protocol::Failure;

/// Refuses what would be beyond the quotas of a universe. A refusal may pass: the attempt counts as failed and is made again, as
/// the manifest says.
pub trait Room: Send + Sync {
    /// For one more world.
    fn world(&self, universe: UniverseId) -> BoxFuture<'_, Result<(), Failure>>;

    /// For one more object of so many bytes.
    fn blob(&self, universe: UniverseId, bytes: usize) -> BoxFuture<'_, Result<(), Failure>>;
}

/// There is room for everything.
pub struct Boundless;

impl Room for Boundless {
    fn world(&self, _: UniverseId) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn blob(&self, _: UniverseId, _: usize) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
