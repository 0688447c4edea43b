//! `u/<u>/effects/gate/<kind>`: what a kind of effect that is limited in the whole universe has been granted.
//!
//! Written by each claim of such a kind, so that two of them conflict and neither goes beyond the limit. Kinds without a
//! limit have none. Free.

use crate::keyspace::{Family, Key, KeyBuilder, get, put, queue_shard::kind_hash};
use crate::{StoreError, keyspace::effect_rate::EffectRate};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

pub fn key(universe: UniverseId, kind: &str) -> Key {
    KeyBuilder::universe(universe, Family::EffectGate).u64(kind_hash(kind)).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    kind: &str,
) -> Result<Option<EffectRate>, StoreError> {
    get(tx, Family::EffectGate, &key(universe, kind)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    kind: &str,
    rate: &EffectRate,
) -> Result<(), StoreError> {
    put(tx, &key(universe, kind), rate)
}
