//! Delete a world.

use crate::{Plane, RuntimeError, take_over::take_over};
use mundi_model::{Code, Coded, UniverseId, WorldId};
use mundi_store::{
    Clock,
    protocol::{CloseWorld, Purpose, delete_world},
};

/// Deletes a world, whichever worker runs it, or finishes a deletion. Deleting a deleted world changes nothing.
///
/// The first transaction ends the world: its holder is fenced, and a refusal leaves everything as it was. The rest is done under a lease
/// of its own, which only those who delete the world may have.
pub async fn delete<P: Plane>(plane: &P, universe: UniverseId, world: WorldId) -> Result<(), RuntimeError> {
    let deleted = async {
        plane.run(&CloseWorld { universe, world }).await?;
        take_over(
            plane,
            (universe, world),
            Purpose::Delete,
            Box::new(|plane: P, fence| {
                Box::pin(async move {
                    let clock: &dyn Clock = &**plane.clock();
                    Ok(delete_world(plane.engine(), clock, fence).await?)
                })
            }),
        )
        .await
    };
    match deleted.await {
        Err(error) if error.code() == Code::WorldDeleted => Ok(()),
        deleted => deleted,
    }
}
