//! `u/<u>/quotas`: what a universe may take, as an operator has set it.
//!
//! Written by `write_quotas`. Free. What is not said here is as the configuration of each process says.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get_snapshot, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

/// Bounds on what one universe or one token takes. `None` says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Quotas {
    #[n(0)]
    pub worlds_max: Option<u64>,
    #[n(1)]
    pub stored_bytes_max: Option<u64>,
    #[n(2)]
    pub events_per_second_max: Option<u64>,
    /// Calls, queries and waits for a reply at a time.
    #[n(3)]
    pub calls_max: Option<u64>,
    #[n(4)]
    pub fuel_per_second_max: Option<u64>,
    /// At a time.
    #[n(5)]
    pub effects_max: Option<u64>,
    #[n(6)]
    pub effects_per_second_max: Option<u64>,
    /// Objects of the content store.
    #[n(7)]
    pub blobs_max: Option<u64>,
    #[n(8)]
    pub programs_max: Option<u64>,
    /// At a time.
    #[n(9)]
    pub streams_max: Option<u64>,
}

impl Quotas {
    /// These, and the others where these say nothing.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        Self {
            worlds_max: self.worlds_max.or(others.worlds_max),
            stored_bytes_max: self.stored_bytes_max.or(others.stored_bytes_max),
            events_per_second_max: self.events_per_second_max.or(others.events_per_second_max),
            calls_max: self.calls_max.or(others.calls_max),
            fuel_per_second_max: self.fuel_per_second_max.or(others.fuel_per_second_max),
            effects_max: self.effects_max.or(others.effects_max),
            effects_per_second_max: self.effects_per_second_max.or(others.effects_per_second_max),
            blobs_max: self.blobs_max.or(others.blobs_max),
            programs_max: self.programs_max.or(others.programs_max),
            streams_max: self.streams_max.or(others.streams_max),
        }
    }
}

pub fn key(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::Quotas).key()
}

/// The quotas that were set, read without a conflict: they concern later requests.
pub async fn read<T: Transaction>(tx: &mut T, universe: UniverseId) -> Result<Option<Quotas>, StoreError> {
    get_snapshot(tx, Family::Quotas, &key(universe)).await
}

pub(crate) fn write<T: Transaction>(tx: &mut T, universe: UniverseId, quotas: &Quotas) -> Result<(), StoreError> {
    put(tx, &key(universe), quotas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(n: [Option<u64>; 10], noise: Vec<u8>) {
            let quotas = Quotas {
                worlds_max: n[0],
                stored_bytes_max: n[1],
                events_per_second_max: n[2],
                calls_max: n[3],
                fuel_per_second_max: n[4],
                effects_max: n[5],
                effects_per_second_max: n[6],
                blobs_max: n[7],
                programs_max: n[8],
                streams_max: n[9],
            };
            laws::value_survives(Family::Quotas, &quotas, &noise)?;
            prop_assert_eq!(Quotas::default().or(&quotas), quotas);
            prop_assert_eq!(quotas.or(&Quotas { worlds_max: Some(7), ..quotas }).worlds_max, n[0].or(Some(7)));
        }
    }
}
