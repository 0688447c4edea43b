//! Create a universe under a name, and list the names.
//!
//! Guarantees: a name stands for one universe forever; naming it again returns that one. Universe and name are made
//! together.
//! Unknown commit: run again; what exists already is left as it is.

use crate::protocol::CreateUniverse;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, decode_value,
        universe_name::{self, NamedUniverse},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, limits};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub struct NameUniverse {
    /// The caller has checked that it is one.
    pub name: String,
    /// Taken if the name is new.
    pub universe: UniverseId,
    pub now_ns: u64,
}

/// The universe behind the name, and whether it was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniverseNamed {
    pub universe: UniverseId,
    pub before: bool,
}

impl Protocol for NameUniverse {
    type Output = UniverseNamed;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<UniverseNamed, StoreError> {
        let Self { name, universe, now_ns } = self;
        if let Some(NamedUniverse { universe, .. }) = universe_name::read(tx, name).await? {
            return Ok(UniverseNamed { universe, before: true });
        }
        CreateUniverse { universe: *universe, now_ns: *now_ns }.run(tx).await?;
        universe_name::write(tx, name, &NamedUniverse { universe: *universe, created_at_ns: *now_ns })?;
        Ok(UniverseNamed { universe: *universe, before: false })
    }
}

/// All names. There are as many as teams or tenants of one installation, so the list is read whole.
#[derive(Debug, Clone, Copy)]
pub struct ListUniverses;

impl Protocol for ListUniverses {
    type Output = BTreeMap<String, NamedUniverse>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let page = tx.range(universe_name::prefix().span().read(limits::RANGE_ITEMS_MAX).snapshot()).await?;
        let entry = |(key, bytes): &(bytes::Bytes, bytes::Bytes)| {
            Ok((universe_name::parse(key)?, decode_value(Family::UniverseName, key, bytes)?))
        };
        page.items.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_engine::{Engine, Memory};

    #[test]
    fn a_name_stands_for_the_universe_that_it_was_first_given_to() {
        pollster::block_on(async {
            let engine = Memory::new();
            let mut tx = engine.begin().await.unwrap();
            let name =
                |byte| NameUniverse { name: "default".into(), universe: UniverseId::from_bytes([byte; 16]), now_ns: 7 };
            let first = name(1).run(&mut tx).await.unwrap();
            let again = name(2).run(&mut tx).await.unwrap();
            assert_eq!((first.before, again.before, again.universe), (false, true, first.universe));
            let all = ListUniverses.run(&mut tx).await.unwrap();
            assert_eq!(all.keys().collect::<Vec<_>>(), ["default"]);
        });
    }
}
