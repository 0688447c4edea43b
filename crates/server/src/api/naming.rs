//! Names of worlds beside their ids, in whatever lists them.

use super::Problem;
use crate::node::Universe;
use mundi_model::WorldId;
use std::collections::BTreeMap;

/// A value that names a world by its id, and has room for its name.
pub(super) trait NamesWorld {
    fn world(&self) -> Option<&str>;
    fn set_name(&mut self, name: String);
}

/// Implements [`NamesWorld`] for structs with the fields `world: String` and `world_name: Option<String>`.
macro_rules! names_world {
    ($($item:ty),*) => {
        $(impl $crate::api::naming::NamesWorld for $item {
            fn world(&self) -> Option<&str> {
                Some(&self.world)
            }

            fn set_name(&mut self, name: String) {
                self.world_name = Some(name);
            }
        })*
    };
}
pub(super) use names_world;

/// Fills in the names of all worlds of a page, by one read.
pub(super) async fn with_names<T: NamesWorld>(universe: &Universe, mut items: Vec<T>) -> Result<Vec<T>, Problem> {
    let worlds = items.iter().filter_map(|item| item.world()?.parse().ok()).collect();
    let names: BTreeMap<WorldId, String> = universe.names_of_worlds(worlds).await?;
    if names.is_empty() {
        return Ok(items);
    }
    for item in &mut items {
        let name = item.world().and_then(|world| names.get(&world.parse().ok()?)).cloned();
        if let Some(name) = name {
            item.set_name(name);
        }
    }
    Ok(items)
}

/// The same for one.
pub(super) async fn with_name<T: NamesWorld>(universe: &Universe, mut item: T) -> Result<T, Problem> {
    if let Some(world) = item.world().and_then(|world| world.parse::<WorldId>().ok())
        && let Some(name) = universe.names_of_worlds([world].into()).await?.remove(&world)
    {
        item.set_name(name);
    }
    Ok(item)
}
