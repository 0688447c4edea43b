//! Choose a name for a fork or an import that was given none: `alice-fork-1`, `alice-fork-2`.
//!
//! Guarantees: the name belongs to no world when it is chosen, and no deleted world had it. The transaction that creates the world claims it; of two that chose the
//! same one, the second is refused with `WORLD_NAME_TAKEN` and chooses again.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::WorldError;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{named_world, world_meta},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldName, limits};

#[derive(Debug, Clone)]
pub struct FreeName {
    pub universe: UniverseId,
    /// The name of the parent.
    pub of: String,
    /// `fork` or `import`.
    pub how: &'static str,
    /// Try the first part alone before numbers are added.
    pub alone: bool,
}

impl FreeName {
    /// The n-th name that is tried. The first part is cut so that the number fits.
    fn nth(&self, number: u64) -> Option<WorldName> {
        let end = if number == 0 { String::new() } else { format!("-{}-{number}", self.how) };
        let room = limits::WORLD_NAME_BYTES_MAX.saturating_sub(end.len());
        let first = &self.of[..self.of.floor_char_boundary(room)];
        format!("{first}{end}").parse().ok()
    }
}

impl Protocol for FreeName {
    type Output = WorldName;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<WorldName, StoreError> {
        if self.alone
            && let Some(name) = self.free(tx, 0).await?
        {
            return Ok(name);
        }
        // Names are given in a row and never again: above a number that is taken, by doubling, and then halfway down.
        let (mut taken, mut number) = (0, 1);
        let mut name = loop {
            match self.free(tx, number).await? {
                Some(name) => break name,
                None if number > limits::DEFAULT_NAME_NUMBER_MAX / 2 => {
                    return Err(WorldError::NamesSpent(self.of.clone()).into());
                }
                None => (taken, number) = (number, number * 2),
            }
        };
        while number - taken > 1 {
            let middle = taken + (number - taken) / 2;
            match self.free(tx, middle).await? {
                Some(lower) => (number, name) = (middle, lower),
                None => taken = middle,
            }
        }
        Ok(name)
    }
}

impl FreeName {
    /// The n-th name, if no world has or had it.
    async fn free<T: Transaction>(&self, tx: &mut T, number: u64) -> Result<Option<WorldName>, StoreError> {
        let Some(name) = self.nth(number) else { return Ok(None) };
        let is_free = named_world::read(tx, self.universe, name.as_str()).await?.is_none()
            && world_meta::read(tx, self.universe, name.world(self.universe)).await?.is_none();
        Ok(is_free.then_some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_engine::{Engine, Memory};

    #[test]
    fn numbers_rise_and_long_names_are_cut() {
        pollster::block_on(async {
            let universe = UniverseId::from_bytes([1; 16]);
            let mut tx = Memory::new().begin().await.unwrap();
            let mut free = FreeName { universe, of: "alice".into(), how: "fork", alone: false };
            for expected in ["alice-fork-1", "alice-fork-2", "alice-fork-3"] {
                let name = free.run(&mut tx).await.unwrap();
                assert_eq!(name.as_str(), expected);
                named_world::write(&mut tx, universe, name.as_str(), name.world(universe)).unwrap();
            }
            for number in 4..=2_899 {
                let name = free.nth(number).unwrap();
                named_world::write(&mut tx, universe, name.as_str(), name.world(universe)).unwrap();
            }
            assert_eq!(free.run(&mut tx).await.unwrap().as_str(), "alice-fork-2900");
            free.of = "x".repeat(limits::WORLD_NAME_BYTES_MAX);
            assert_eq!(free.run(&mut tx).await.unwrap().as_str().len(), limits::WORLD_NAME_BYTES_MAX);
            let import = FreeName { universe, of: "bob".into(), how: "import", alone: true };
            assert_eq!(import.run(&mut tx).await.unwrap().as_str(), "bob");
        });
    }
}
