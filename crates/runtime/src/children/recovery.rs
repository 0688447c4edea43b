//! Recovery of children whose executors are gone: per parent, one after another, in the order of their dispatch.

use super::ChildCounts;
use crate::{Plane, world_name::world_name};
use mundi_model::{Coded, UniverseId, WorkerId, WorldId, limits};
use mundi_store::{
    StoreError,
    protocol::{ChildError, HoldParent, ListChildParents, RecoverChild},
};

/// Ends all children of a parent whose leases have run out, or belong to a worker that is gone.
pub async fn recover_parent<P: Plane>(
    plane: &P,
    universe: UniverseId,
    parent: WorldId,
    gone: Option<WorkerId>,
    counts: &ChildCounts,
) -> Result<(), StoreError> {
    loop {
        let recover = RecoverChild { universe, parent, gone, now_ns: plane.now_ns() };
        let Some(recovered) = plane.run(&recover).await?.output else { return Ok(()) };
        let (child, dispatch_seq, code) = (recovered.child, recovered.dispatch_seq, recovered.code);
        counts.ended(&recovered.kind, Some(code.as_str()));
        let name = world_name(plane, universe, parent).await;
        tracing::warn!(%universe, %parent, name, %child, dispatch_seq, %code, "a child lost its executor");
    }
}

/// As [`recover_parent`], for every parent of a universe.
pub async fn recover_universe<P: Plane>(
    plane: &P,
    universe: UniverseId,
    gone: Option<WorkerId>,
    counts: &ChildCounts,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = plane.run(&ListChildParents { universe, after }).await?.output;
        for (parent, _) in &page {
            let recovered = recover_parent(plane, universe, *parent, gone, counts).await;
            hold_on_violation(plane, (universe, *parent), recovered).await?;
        }
        match page.last() {
            Some((last, _)) if page.len() == limits::CHILD_PARENTS_PAGE => after = Some(*last),
            _ => return Ok(()),
        }
    }
}

/// Puts a parent on hold whose children contradict each other, and passes over one whose children cannot be read; other parents go on. `None` if
/// it is one of these.
pub async fn hold_on_violation<P: Plane, V>(
    plane: &P,
    (universe, parent): (UniverseId, WorldId),
    result: Result<V, StoreError>,
) -> Result<Option<V>, StoreError> {
    match hold_violated(plane, universe, result).await {
        Err(StoreError::Child(ChildError::Violation { .. })) => Ok(None),
        Err(StoreError::Damaged(damage)) => {
            let name = world_name(plane, universe, parent).await;
            tracing::error!(%universe, %parent, name, %damage, "the children of a world cannot be read");
            Ok(None)
        }
        result => result.map(Some),
    }
}

/// The same result. If it says that the children of a world contradict each other, that world is on hold.
pub async fn hold_violated<P: Plane, V>(
    plane: &P,
    universe: UniverseId,
    result: Result<V, StoreError>,
) -> Result<V, StoreError> {
    if let Err(StoreError::Child(violation @ ChildError::Violation { parent, .. })) = &result {
        let (parent, code, reason, now_ns) = (*parent, violation.code(), violation.to_string(), plane.now_ns());
        let name = world_name(plane, universe, parent).await;
        tracing::error!(%universe, %parent, name, %code, reason, "the children of a world contradict each other");
        plane.run(&HoldParent { universe, parent, code, reason, now_ns }).await?;
    }
    result
}
