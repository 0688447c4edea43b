//! Which world a name stands for. Most ids follow from the name; those of imports and of some forks are looked up once.

use super::{NodeError, Universe};
use mundi_model::{WorldAddress, WorldId, WorldName, limits};
use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

/// The worlds of names that were looked up. A name is given once and for all, so nothing here grows old.
#[derive(Debug, Default)]
pub(super) struct WorldNames(RwLock<BTreeMap<String, WorldId>>);

impl WorldNames {
    fn get(&self, name: &str) -> Option<WorldId> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    fn keep(&self, name: &str, world: WorldId) {
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= limits::WORLD_NAMES_REMEMBERED_MAX {
            names.clear();
        }
        names.insert(name.to_owned(), world);
    }
}

impl Universe {
    /// The world that an id or a name stands for. That it exists is not known yet: a name that nobody has stands for the id that follows from it.
    pub async fn world_at(&self, address: &WorldAddress) -> Result<WorldId, NodeError> {
        match address {
            WorldAddress::Id(world) => Ok(*world),
            WorldAddress::Name(name) => self.world_named(name).await,
        }
    }

    async fn world_named(&self, name: &WorldName) -> Result<WorldId, NodeError> {
        if let Some(world) = self.world_names.get(name.as_str()) {
            return Ok(world);
        }
        let Some(world) = self.ops().world_named(name).await? else { return Ok(name.world(self.id())) };
        self.world_names.keep(name.as_str(), world);
        Ok(world)
    }
}
