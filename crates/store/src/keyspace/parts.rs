//! Any key, taken apart as far as all families agree: for tools and checkers, which meet keys of every family.

use super::Family;
use mundi_model::{UniverseId, WorldId};

/// The parts of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'k> {
    pub universe: UniverseId,
    /// The world that the key lies in; `None` for a key of the universe itself.
    pub world: Option<WorldId>,
    pub family: Family,
    /// The family's part of the key.
    pub rest: &'k [u8],
}

impl<'k> Parts<'k> {
    /// `None` for what no constructor made.
    pub fn of(key: &'k [u8]) -> Option<Self> {
        let (universe, rest) = key.split_first_chunk::<16>()?;
        let (ordinal, rest) = rest.split_first()?;
        let universe = UniverseId::from_bytes(*universe);
        match family(*ordinal)? {
            Family::World => {
                let (world, rest) = rest.split_first_chunk::<16>()?;
                let (ordinal, rest) = rest.split_first()?;
                Some(Self { universe, world: Some(WorldId::from_bytes(*world)), family: family(*ordinal)?, rest })
            }
            family => Some(Self { universe, world: None, family, rest }),
        }
    }
}

fn family(ordinal: u8) -> Option<Family> {
    Family::ALL.iter().copied().find(|family| *family as u8 == ordinal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{cas_meta, journal_entry, laws};
    use mundi_model::{Hash, Height};

    #[test]
    fn a_key_tells_its_universe_its_world_and_its_family() {
        let (universe, world, hash) = (laws::universe(), laws::world(), Hash::of(b"x"));
        let key = journal_entry::key(universe, world, Height::new(7));
        let rest = &7u64.to_be_bytes()[..];
        let parts = Parts { universe, world: Some(world), family: Family::JournalEntry, rest };
        assert_eq!(Parts::of(key.as_bytes()), Some(parts));
        let key = cas_meta::key(universe, hash);
        let parts = Parts { universe, world: None, family: Family::CasMeta, rest: hash.as_bytes() };
        assert_eq!(Parts::of(key.as_bytes()), Some(parts));
        for len in 0..17 {
            assert_eq!(Parts::of(&key.as_bytes()[..len]), None);
        }
    }
}
