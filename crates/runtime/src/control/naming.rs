//! Names and labels of worlds, and how worlds are found by them.

use super::Ops;
use crate::{
    Plane, RuntimeError,
    lifecycle::{self, Beginning, ForkAt, ForkPolicy, ForkWorld, Forked, Naming, NewWorld},
};
use mundi_model::{Hash, LabelChange, Labels, WorldAddress, WorldId, WorldName};
use mundi_store::{
    StoreError,
    protocol::{
        FindNamed, FindWorlds, FreeName, LabelWorld, Page, ReadNames, WorldCreated, WorldCursor, WorldError,
        WorldQuery, WorldSummary,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// How much of an id stands for a world that has no name.
const SHORT_ID_CHARS: usize = 10;

impl<P: Plane> Ops<P> {
    /// The worlds that a query asks for, in pages.
    pub async fn find_worlds(
        &self,
        query: WorldQuery,
        after: Option<WorldCursor>,
        items_max: usize,
    ) -> Result<Page<WorldSummary, WorldCursor>, RuntimeError> {
        Ok(self.plane.run(&FindWorlds { universe: self.universe, query, after, items_max }).await?.output)
    }

    /// The world that a name was given to. Most ids follow from the name; those of imports and of some forks are looked up.
    pub async fn world_named(&self, name: &WorldName) -> Result<Option<WorldId>, RuntimeError> {
        Ok(self.plane.run(&FindNamed { universe: self.universe, name: name.clone() }).await?.output)
    }

    /// The names of worlds that have one.
    pub async fn names_of_worlds(&self, worlds: BTreeSet<WorldId>) -> Result<BTreeMap<WorldId, String>, RuntimeError> {
        if worlds.is_empty() {
            return Ok(BTreeMap::new());
        }
        Ok(self.plane.run(&ReadNames { universe: self.universe, worlds }).await?.output)
    }

    /// Sets and removes labels; says what they are now. The world journals it with its next turn.
    pub async fn label_world(&self, world: WorldId, change: LabelChange) -> Result<Labels, RuntimeError> {
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        Ok(self.plane.run(&LabelWorld { universe, world, change, now_ns }).await?.output)
    }

    /// A name for a fork of a world that was given none: `alice-fork-2`.
    pub async fn name_for_fork(&self, parent: WorldId) -> Result<WorldName, RuntimeError> {
        let name = self.describe_world(parent).await?.meta.name;
        let of = name.unwrap_or_else(|| short_id(parent));
        Ok(self.plane.run(&FreeName { universe: self.universe, of, how: "fork", alone: false }).await?.output)
    }

    /// Creates a world with a name and labels; the name by which it is addressed is its name.
    pub async fn world_create_labelled(
        &self,
        address: WorldAddress,
        labels: Option<LabelChange>,
        manifest: Hash,
        now_ns: u64,
    ) -> Result<WorldCreated, RuntimeError> {
        let universe = self.universe;
        let new = NewWorld { universe, world: address.world(universe), manifest, inbox: None, now_ns };
        lifecycle::create_named(&self.plane, new, Naming { name: address.name().cloned(), labels }).await
    }

    /// Forks a world, on another manifest if one is given and with what its functions are told first, with a name and labels.
    #[expect(clippy::too_many_arguments, reason = "those of a fork, and its naming")]
    pub async fn world_fork_labelled(
        &self,
        Beginning { manifest, told }: Beginning,
        parent: WorldId,
        child: WorldId,
        naming: Naming,
        at: ForkAt,
        policy: ForkPolicy,
        now_ns: u64,
    ) -> Result<Forked, RuntimeError> {
        let request = ForkWorld { universe: self.universe, parent, child, at, policy, manifest, now_ns };
        lifecycle::fork_named(&self.plane, request, naming, told).await
    }
}

/// The beginning of an id, for a world that has no name.
pub(crate) fn short_id(world: WorldId) -> String {
    world.to_string().trim_start_matches("w_").chars().take(SHORT_ID_CHARS).collect()
}

/// Whether somebody else took a name first that was chosen for a new world: then another one is chosen.
pub fn is_name_taken(error: &RuntimeError) -> bool {
    matches!(error, RuntimeError::Store(StoreError::World(WorldError::NameTaken { .. })))
}
