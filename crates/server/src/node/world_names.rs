//! Which world a name stands for. Most ids follow from the name; those of imports and of some forks are looked up once.

use super::{NodeError, Universe};
use mundi_model::{WorldAddress, WorldId, WorldName, limits};
use mundi_runtime::RuntimeError;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{PoisonError, RwLock},
};

/// The worlds of names that were looked up, and the names of worlds. A name is given once and for all, so nothing here grows old.
#[derive(Debug, Default)]
pub(super) struct WorldNames {
    worlds: RwLock<BTreeMap<String, WorldId>>,
    names: RwLock<BTreeMap<WorldId, String>>,
}

impl WorldNames {
    fn get(&self, name: &str) -> Option<WorldId> {
        self.worlds.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    fn keep(&self, name: &str, world: WorldId) {
        let mut worlds = self.worlds.write().unwrap_or_else(PoisonError::into_inner);
        if worlds.len() >= limits::WORLD_NAMES_REMEMBERED_MAX {
            worlds.clear();
        }
        worlds.insert(name.to_owned(), world);
    }

    fn keep_names(&self, found: &BTreeMap<WorldId, String>) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() + found.len() > limits::WORLD_NAMES_REMEMBERED_MAX {
            names.clear();
        }
        names.extend(found.iter().map(|(world, name)| (*world, name.clone())));
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

    /// The names of worlds that have one. Those that were looked up before are remembered; the others are read together.
    pub(crate) async fn names_of_worlds(
        &self,
        worlds: BTreeSet<WorldId>,
    ) -> Result<BTreeMap<WorldId, String>, RuntimeError> {
        let known = |names: &BTreeMap<WorldId, String>| -> BTreeMap<WorldId, String> {
            worlds.iter().filter_map(|world| Some((*world, names.get(world)?.clone()))).collect()
        };
        let mut names = known(&self.world_names.names.read().unwrap_or_else(PoisonError::into_inner));
        let unknown: BTreeSet<WorldId> = worlds.iter().filter(|world| !names.contains_key(world)).copied().collect();
        let read = self.ops().names_of_worlds(unknown).await?;
        if !read.is_empty() {
            self.world_names.keep_names(&read);
            names.extend(read);
        }
        Ok(names)
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
