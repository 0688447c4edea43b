//! Store the name that a world was created under.
//!
//! Guarantees: a world has at most one name, and it is the one that its id follows from; so names are unique in a universe.
//! Unknown commit: run again; it is idempotent.

use crate::protocol::{WorldError, require_world};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::world_meta::{self, WorldMeta},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldName};

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
        let name = Some(self.name.to_string());
        if meta.name == name {
            return Ok(());
        }
        world_meta::write(tx, universe, world, &WorldMeta { name, ..meta })
    }
}
