//! The names of worlds, for what shows them beside ids.
//!
//! Guarantees: one consistent moment; a world without a name, or that does not exist, is left out.
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{Family, get_snapshot, world_meta},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, limits};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub struct ReadNames {
    pub universe: UniverseId,
    /// As many as one page of a list has.
    pub worlds: BTreeSet<WorldId>,
}

impl Protocol for ReadNames {
    type Output = BTreeMap<WorldId, String>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<BTreeMap<WorldId, String>, StoreError> {
        let universe = self.universe;
        tx.prefetch(|| self.worlds.iter().map(move |world| world_meta::key(universe, *world).planned()));
        let mut names = BTreeMap::new();
        for world in self.worlds.iter().take(limits::LIST_ITEMS_MAX) {
            let key = world_meta::key(universe, *world);
            let meta: Option<world_meta::WorldMeta> = get_snapshot(tx, Family::WorldMeta, &key).await?;
            if let Some(name) = meta.and_then(|meta| meta.name) {
                names.insert(*world, name);
            }
        }
        Ok(names)
    }
}
