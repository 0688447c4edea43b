//! Start a child that is a world.
//!
//! Guarantees: the world, its first input and the child's start are one transaction, which commits only while the executor holds the lease. So there is no
//! world of a child that was not started, and no started child without its world. From then on nobody has to keep the child alive: its lease
//! has no end, and recovery does not touch it. It ends by [`EndWorldChild`](super::EndWorldChild) or by a cancel.
//! The snapshot's blob is stored before; if the rest fails, it is unreachable and is swept one day.
//! Unknown commit: run again; a child that is started under this very lease was started by an earlier run, which made the world.

use super::{
    ChildClaim,
    start_child::{Until, start},
};
use crate::protocol::worlds::create_world::{Create, prepare};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    blob::Blobs,
    keyspace::child_of::{self, ChildOf},
    protocol::CreateWorld,
    run,
    snapshot::ReadSnapshot,
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    child::DispatchToken,
    mutants::{Mutant, planted},
};

/// A child, and the world that runs it.
#[derive(Debug, Clone)]
pub struct StartWorldChild {
    pub claim: ChildClaim,
    /// [`ChildId::world`](mundi_model::child::ChildId::world) says under which id.
    pub world: CreateWorld,
    pub now_ns: u64,
}

/// Stores the snapshot, then starts the child.
pub async fn start_world_child<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    reader: &dyn ReadSnapshot,
    request: &StartWorldChild,
) -> Result<DispatchToken, StoreError> {
    let create = prepare(blobs, reader, &request.world).await?;
    Ok(run(engine, clock, &StartWorld { request, create }).await?.output)
}

struct StartWorld<'a, B> {
    request: &'a StartWorldChild,
    create: Create<'a, B>,
}

impl<B: Blobs> Protocol for StartWorld<'_, B> {
    type Output = DispatchToken;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<DispatchToken, StoreError> {
        let StartWorldChild { claim, ref world, now_ns } = *self.request;
        let token = start(tx, &claim, now_ns, Until::End).await?;
        if planted(Mutant::ChildWorldMissing) {
            return Ok(token);
        }
        self.create.run(tx).await?;
        child_of::write(tx, claim.universe, world.world, &ChildOf { parent: claim.parent, child: claim.child })?;
        Ok(token)
    }
}
