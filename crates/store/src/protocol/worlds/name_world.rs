//! Store the name that a world was created under, and find a world by its name.
//!
//! Guarantees: a world has at most one name, which it keeps; no two worlds of a universe have the same one.
//! Unknown commit: run again; it is idempotent.

use crate::protocol::{WorldError, require_world};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        named_world,
        world_meta::{self, WorldMeta},
    },
};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId, WorldName,
    mutants::{Mutant, planted},
};

#[derive(Debug, Clone)]
pub struct NameWorld {
    pub universe: UniverseId,
    pub name: WorldName,
}

impl Protocol for NameWorld {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let (universe, world) = (self.universe, self.name.world(self.universe));
        let meta = require_world(tx, universe, world).await?;
        if meta.state.is_gone() {
            return Err(WorldError::Deleted(world).into());
        }
        if meta.name.is_some() {
            return Ok(());
        }
        claim_name(tx, universe, &self.name, world).await?;
        let after = WorldMeta { name: Some(self.name.to_string()), ..meta.clone() };
        world_meta::write(tx, universe, world, Some(&meta), &after)
    }
}

/// The world that a name was given to; `None` if it was given to none.
#[derive(Debug, Clone)]
pub struct FindNamed {
    pub universe: UniverseId,
    pub name: WorldName,
}

impl Protocol for FindNamed {
    type Output = Option<WorldId>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<WorldId>, StoreError> {
        let entry = named_world::read(tx, self.universe, self.name.as_str()).await?;
        Ok(entry.map(|entry| entry.world))
    }
}

/// Gives a name to a world, unless another world has it, or has the id that follows from it.
pub(in crate::protocol) async fn claim_name<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &WorldName,
    world: WorldId,
) -> Result<(), StoreError> {
    let derived = name.world(universe);
    let by = match named_world::read(tx, universe, name.as_str()).await? {
        Some(entry) if entry.world == world => return Ok(()),
        Some(entry) => Some(entry.world),
        None if derived != world => world_meta::read(tx, universe, derived).await?.map(|_| derived),
        None => None,
    };
    match by.filter(|_| !planted(Mutant::NameTwice)) {
        Some(by) => Err(WorldError::NameTaken { name: name.to_string(), by }.into()),
        None => named_world::write(tx, universe, name.as_str(), world),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_engine::{Engine, Memory};
    use mundi_model::{Code, Coded};

    #[test]
    fn a_name_belongs_to_one_world() {
        let (universe, world) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
        let name: WorldName = "alice".parse().unwrap();
        pollster::block_on(async {
            let mut tx = Memory::new().begin().await.unwrap();
            claim_name(&mut tx, universe, &name, world).await.unwrap();
            claim_name(&mut tx, universe, &name, world).await.unwrap();
            for taker in [WorldId::from_bytes([9; 16]), name.world(universe)] {
                let refused = claim_name(&mut tx, universe, &name, taker).await.unwrap_err();
                assert_eq!(refused.code(), Code::WorldNameTaken);
            }
        });
    }
}
