//! Removes the records that were kept to recognize what comes twice, once their time is up. A duty of the role `timer`.

use crate::{
    Plane, RuntimeError,
    shell::{Role, Shell},
};
use mundi_model::UniverseId;
use mundi_store::protocol::expire_dedupe;
use std::time::Duration;

/// From one look to the next.
const EVERY: Duration = Duration::from_secs(60);

/// Tidies a universe.
pub struct Tidying<P> {
    pub plane: P,
    pub universe: UniverseId,
}

impl<P: Plane> Tidying<P> {
    async fn tidy(&self) {
        loop {
            self.plane.clock().sleep(EVERY).await;
            if let Err(error) = expire_dedupe(self.plane.engine(), &**self.plane.clock(), self.universe).await {
                tracing::warn!(%error, "old dedupe records could not be removed");
            }
        }
    }
}

impl<P: Plane> Role<P> for Tidying<P> {
    const NAME: &'static str = "tidying";

    async fn run(shell: &Shell<P, Self>) -> Result<(), RuntimeError> {
        shell.until_asked(shell.role().tidy()).await;
        Ok(())
    }
}
