//! The event schemas of a world's newest manifest, for its senders.

use crate::{
    Plane, RuntimeError,
    objects::{AtHand, with_objects},
};
use mundi_engine::Engine;
use mundi_kernel::manifest::{CheckError, CompiledManifest};
use mundi_model::{Hash, Height, UniverseId, WorldId};
use mundi_store::{keyspace::manifest_at, protocol::require_live};
use std::{sync::Arc, time::Duration};

/// How soon a check is tried again for which a universe has no place.
const CROWDED_NAP: Duration = Duration::from_millis(50);
/// The longest wait between two of its tries.
const CROWDED_NAP_MAX: Duration = Duration::from_secs(10);

/// The manifest that a world's journal ends with; `None` for a world that lives and has none on record.
pub async fn newest_manifest<P: Plane>(
    plane: &P,
    (universe, world): (UniverseId, WorldId),
) -> Result<Option<Arc<CompiledManifest>>, RuntimeError> {
    let mut tx = plane.engine().begin().await?;
    let Some(hash) = manifest_at::read(&mut tx, universe, world, Height::new(u64::MAX)).await? else {
        require_live(&mut tx, universe, world).await?;
        return Ok(None);
    };
    drop(tx);
    load_manifest(plane, (universe, world), hash).await.map(Some)
}

pub async fn load_manifest<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    manifest: Hash,
) -> Result<Arc<CompiledManifest>, RuntimeError> {
    let load = |objects: &AtHand| plane.registry().manifest(objects, manifest);
    with_objects(plane, place, &mut AtHand::default(), load).await
}

/// Whether a world takes an event, by the newest manifest on record. The world checks again when it takes the event in.
pub async fn check_event<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    schema: &str,
    value: &[u8],
) -> Result<(), RuntimeError> {
    match newest_manifest(plane, place).await? {
        Some(manifest) => Ok(in_time(plane, || manifest.check_event(schema, value)).await?),
        None => Ok(()),
    }
}

/// Checks as soon as there is a place for it. Meanwhile it occupies no thread.
pub async fn in_time<P: Plane>(plane: &P, check: impl Fn() -> Result<(), CheckError>) -> Result<(), CheckError> {
    let mut nap = CROWDED_NAP;
    loop {
        match check() {
            // Longer and longer: each time the check begins anew.
            Err(CheckError::Crowded(_)) => {
                plane.clock().sleep(nap).await;
                nap = (nap * 2).min(CROWDED_NAP_MAX);
            }
            checked => return checked,
        }
    }
}
