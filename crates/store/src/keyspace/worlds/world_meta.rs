//! `u/<u>/w/<w>/meta`: that a world exists, where it comes from, and its bounds.
//!
//! Written by `create_world`, `import_world`, `inherit`, `name_world`, `label_world`, `archive_world`, `hold_world`, `delete_world`, and `commit_turn` if a turn pauses the world or ends a pause. The state only moves forward, `Live`, `Deleting`, `Deleted`,
//! except into the archive and out of it; priority, hold, name, labels, pause and what is left to inherit change; all else is immutable. It outlives the world: an id is never used twice.

use crate::StoreError;
use crate::keyspace::{
    Family, Key, KeyBuilder, KeyReader, get, put, queue_notify, ready::PRIORITY_NORMAL, world_change, world_index,
};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, Height, InboxSeq, Labels, UniverseId, WorldId, record::EffectPolicy};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WorldMeta {
    #[n(0)]
    pub created_at_ns: u64,
    #[n(1)]
    pub state: WorldState,
    /// The hash of its first record: tells a repeated creation from another world with the same id.
    #[n(2)]
    pub first_record: Hash,
    /// Where its own journal begins: genesis, or the height at which it was forked.
    #[n(3)]
    pub first_height: Height,
    #[n(4)]
    pub lineage: Option<Lineage>,
    #[n(5)]
    pub inbox: InboxBounds,
    /// Under which priority its ready hint stands; `None` for the normal one. Follows its assignment.
    #[n(6)]
    pub priority: Option<u8>,
    /// Why no worker runs it, until an operator releases it.
    #[n(7)]
    pub hold: Option<Hold>,
    /// The policy for the effects of a fork, or of a world that arrived.
    #[n(8)]
    pub policy: Option<EffectPolicy>,
    /// Its name, unique in the universe: `worlds/names` leads back to it. Most ids follow from the name.
    #[n(9)]
    pub name: Option<String>,
    /// Whether it takes nothing but commands, as the turn left it that last changed it. `None`: written by a version that did not note it, and
    /// only the journal says.
    #[n(10)]
    pub paused: Option<bool>,
    /// The height up to which its inheritance is published; `None` if all is. Until then it takes no turn.
    #[n(11)]
    pub inherits_from: Option<u64>,
    /// Its labels; `None` if there are none.
    #[n(12)]
    pub labels: Option<Labels>,
    /// The first record of the turn that paused it: the command stands there. `None` if it is not paused, or was paused before it was created here,
    /// or by a version that did not note it.
    #[n(13)]
    pub paused_from: Option<Height>,
}

/// A world on hold: its turns failed again and again, and would fail again; or a step failed, and its manifest holds it there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hold {
    #[n(0)]
    pub since_ns: u64,
    /// Of the error that its last attempt ended with.
    #[n(1)]
    pub code: String,
    #[n(2)]
    pub reason: String,
    /// How many attempts failed in a row; one, for a step.
    #[n(3)]
    pub failures: u32,
    /// The record that says which step failed, or the next height of its journal, if its turns failed.
    #[n(4)]
    pub height: Height,
    /// The first item that waits in its inbox, if there is one.
    #[n(5)]
    pub seq: Option<InboxSeq>,
    /// A step of its program failed, and its manifest holds it there: what that input is, for people. Else its turns failed.
    #[n(6)]
    pub failed_input: Option<String>,
}

/// The state of a world as lists show it. Ordinals are persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ListedState {
    Live = 1,
    /// Takes nothing but commands.
    Paused,
    /// Its turns, or a step, failed.
    OnHold,
    Archived,
    Deleting,
    Deleted,
}

impl ListedState {
    pub const ALL: [Self; 6] = [Self::Live, Self::Paused, Self::OnHold, Self::Archived, Self::Deleting, Self::Deleted];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Paused => "paused",
            Self::OnHold => "on_hold",
            Self::Archived => "archived",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

impl WorldMeta {
    /// Of a world of a version that did not note pauses, `Live` although it may be paused.
    pub fn listed_state(&self) -> ListedState {
        match self.state {
            WorldState::Live if self.hold.is_some() => ListedState::OnHold,
            WorldState::Live if self.paused == Some(true) => ListedState::Paused,
            WorldState::Live => ListedState::Live,
            WorldState::Archived => ListedState::Archived,
            WorldState::Deleting => ListedState::Deleting,
            WorldState::Deleted => ListedState::Deleted,
        }
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref().and_then(|labels| labels.get(key))
    }

    pub fn ready_priority(&self) -> u8 {
        self.priority.unwrap_or(PRIORITY_NORMAL)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum WorldState {
    #[n(0)]
    Live,
    /// Takes nothing in any more; its keys are being removed.
    #[n(1)]
    Deleting,
    /// Only this record and the lease's epoch are left.
    #[n(2)]
    Deleted,
    /// Takes nothing in until it is taken out of the archive.
    #[n(3)]
    Archived,
}

impl WorldState {
    /// It takes nothing in, ever again.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Deleting | Self::Deleted)
    }
}

/// Where a fork comes from.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Lineage {
    #[n(0)]
    pub parent: WorldId,
    #[n(1)]
    pub forked_at: Height,
    /// The parent's snapshot at that height.
    #[n(2)]
    pub parent_snapshot: Hash,
}

/// How much may wait in an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct InboxBounds {
    #[n(0)]
    pub items_max: u64,
    #[n(1)]
    pub bytes_max: u64,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::WorldMeta).key()
}

/// All keys of all worlds of a universe; the world follows the prefix.
pub(crate) fn worlds_prefix(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::World).key()
}

/// The world that a key below [`worlds_prefix`] belongs to.
pub(crate) fn world_of_key(universe: UniverseId, key: &[u8]) -> Result<WorldId, StoreError> {
    KeyReader::after(Family::World, &worlds_prefix(universe), key)?.world()
}

/// All keys of one world.
pub(crate) fn world_prefix(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::World).bytes(world.as_bytes()).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<WorldMeta>, StoreError> {
    get(tx, Family::WorldMeta, &key(universe, world)).await
}

/// Writes the record, and the entries of the index that follow from it, over the one that was read; `None` for a new world.
pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    before: Option<&WorldMeta>,
    meta: &WorldMeta,
) -> Result<(), StoreError> {
    if before != Some(meta) {
        queue_notify::bump(tx, universe, queue_notify::WORLDS)?;
        world_change::write(tx, universe, world, meta)?;
    }
    world_index::follow(tx, universe, world, before, meta)?;
    put(tx, &key(universe, world), meta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    fn metas() -> impl Strategy<Value = WorldMeta> {
        let lineage = (laws::worlds(), laws::heights(), laws::hashes())
            .prop_map(|(parent, forked_at, parent_snapshot)| Lineage { parent, forked_at, parent_snapshot });
        let state = prop_oneof![
            Just(WorldState::Live),
            Just(WorldState::Deleting),
            Just(WorldState::Deleted),
            Just(WorldState::Archived)
        ];
        let bounds = any::<(u64, u64)>().prop_map(|(items_max, bytes_max)| InboxBounds { items_max, bytes_max });
        let priority = any::<Option<u8>>();
        let hold =
            (any::<(u64, u32)>(), "[A-Z_]{1,16}", any::<String>(), laws::heights(), prop::option::of(laws::seqs()));
        let hold = hold.prop_map(|((since_ns, failures), code, reason, height, seq)| Hold {
            since_ns,
            code,
            reason,
            failures,
            height,
            seq,
            failed_input: seq.map(|_| "event add".to_owned()),
        });
        let policy = prop::option::of(prop::sample::select(EffectPolicy::OFFERED.to_vec()));
        let rest = (
            bounds,
            priority,
            prop::option::of(hold),
            policy,
            any::<Option<String>>(),
            any::<(Option<bool>, Option<u64>)>(),
            prop::option::of(prop::collection::btree_map("[a-z]{1,8}", "[a-z0-9 ]{0,8}", 1..4)),
        );
        (any::<u64>(), state, laws::hashes(), laws::heights(), prop::option::of(lineage), rest).prop_map(
            |(created_at_ns, state, first_record, first_height, lineage, rest)| {
                let (inbox, priority, hold, policy, name, (paused, inherits_from), labels) = rest;
                WorldMeta {
                    created_at_ns,
                    state,
                    first_record,
                    first_height,
                    lineage,
                    inbox,
                    priority,
                    hold,
                    policy,
                    name,
                    paused,
                    inherits_from,
                    labels: labels.map(|labels| Labels::new(labels).unwrap()),
                    paused_from: paused.map(|_| first_height),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn the_value_survives(meta in metas(), noise: Vec<u8>) {
            laws::value_survives(Family::WorldMeta, &meta, &noise)?;
        }

        #[test]
        fn every_key_of_a_world_names_it(world in laws::worlds()) {
            let key = key(laws::universe(), world);
            prop_assert_eq!(world_of_key(laws::universe(), key.as_bytes()).unwrap(), world);
        }
    }
}
