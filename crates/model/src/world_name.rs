//! Names of worlds, which people choose, and what stands for a world where one is meant: its id or its name.

use crate::{Hash, ParseIdError, UniverseId, WorldId, limits, text::serde_as_text};
use std::{fmt, str::FromStr};

/// A name of a world. It is another way to write an id: the id follows from the universe and the name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorldName(String);

impl WorldName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The world that has this name in a universe.
    pub fn world(&self, universe: UniverseId) -> WorldId {
        let hash = Hash::of_parts([b"mundi.world.1\0", &universe.as_bytes()[..], self.0.as_bytes()]);
        let mut id = [0; WorldId::LEN];
        id.copy_from_slice(&hash.as_bytes()[..WorldId::LEN]);
        WorldId::from_bytes(id)
    }
}

impl FromStr for WorldName {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
        // Clients and proxies resolve `.` and `..` in addresses before they send them.
        let is_name = !matches!(text, "" | "." | "..") && !text.starts_with("w_") && text.bytes().all(fits);
        if is_name && text.len() <= limits::WORLD_NAME_BYTES_MAX {
            return Ok(Self(text.to_owned()));
        }
        let expected = "letters, digits and -_.:@, not beginning with `w_`, and not `.` or `..`";
        Err(ParseIdError::new("name of a world", expected, text))
    }
}

impl fmt::Display for WorldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

serde_as_text!(WorldName);

/// Which world is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorldAddress {
    Id(WorldId),
    Name(WorldName),
}

impl WorldAddress {
    /// The world in a universe. It depends on nothing else, so it is the same whenever it is asked.
    pub fn world(&self, universe: UniverseId) -> WorldId {
        match self {
            Self::Id(world) => *world,
            Self::Name(name) => name.world(universe),
        }
    }

    pub fn name(&self) -> Option<&WorldName> {
        match self {
            Self::Id(_) => None,
            Self::Name(name) => Some(name),
        }
    }
}

impl From<WorldId> for WorldAddress {
    fn from(world: WorldId) -> Self {
        Self::Id(world)
    }
}

impl FromStr for WorldAddress {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if let Ok(world) = text.parse() {
            return Ok(Self::Id(world));
        }
        let expected = "an id (`w_…`), or a name of letters, digits and -_.:@ that does not begin with `w_` and is not `.` or `..`";
        text.parse().map(Self::Name).map_err(|_| ParseIdError::new("world", expected, text))
    }
}

impl fmt::Display for WorldAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(world) => world.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_an_id_and_a_name_is_a_name() {
        let id = WorldId::from_bytes([7; 16]);
        assert_eq!(id.to_string().parse(), Ok(WorldAddress::Id(id)));
        let universe = UniverseId::from_bytes([1; 16]);
        let alice: WorldAddress = "alice.2@shop:a-b_c".parse().unwrap();
        assert_eq!(alice.to_string(), "alice.2@shop:a-b_c");
        assert_ne!(alice.world(universe), alice.world(UniverseId::from_bytes([2; 16])));
        assert_eq!(alice.world(universe), alice.world(universe));
        for bad in ["", ".", "..", "w_1", "w_alice", "a b", "a/b", "é", &"x".repeat(limits::WORLD_NAME_BYTES_MAX + 1)]
        {
            assert!(bad.parse::<WorldAddress>().is_err(), "{bad}");
        }
    }
}
