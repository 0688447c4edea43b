//! `u/<u>/w/<w>/inbox/depth/<items|bytes>`: how much waits after the cursor.
//!
//! Counters: `enqueue` adds, whoever moves the cursor subtracts, each in its own transaction, so that they
//! are always exactly what lies after the cursor. Blind additions: writers do not conflict.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, counter};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    record::{InboxItem, Input, Payload},
};

/// A number of items, and what they weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    pub items: u64,
    pub bytes: u64,
}

impl Depth {
    /// One item: its stored bytes, and those that it keeps in the content store.
    pub(crate) fn of(item: &InboxItem, stored_len: usize) -> Self {
        let payload = match &item.input {
            Input::Event { value: payload, .. }
            | Input::Message { payload, .. }
            | Input::TimerFired { payload, .. }
            | Input::Control { payload, .. } => payload,
            Input::Receipt(receipt) => &receipt.payload,
        };
        let spilled = match payload {
            Payload::Inline(_) => 0,
            Payload::Blob(_, len) => *len,
        };
        Self { items: 1, bytes: spilled.saturating_add(stored_len as u64) }
    }
}

impl std::iter::Sum for Depth {
    fn sum<I: Iterator<Item = Self>>(depths: I) -> Self {
        depths.fold(Self::default(), |a, b| Self { items: a.items + b.items, bytes: a.bytes.saturating_add(b.bytes) })
    }
}

pub(crate) fn keys(universe: UniverseId, world: WorldId) -> [Key; 2] {
    [0, 1].map(|which| KeyBuilder::world(universe, world, Family::InboxDepth).u8(which).key())
}

/// A snapshot read: a bound that is checked against it may be overshot by those who write at the same time.
pub async fn read<T: Transaction>(tx: &mut T, universe: UniverseId, world: WorldId) -> Result<Depth, StoreError> {
    let mut counts = [0; 2];
    for (key, count) in keys(universe, world).iter().zip(&mut counts) {
        let bytes = tx.get_snapshot(key.as_bytes()).await?;
        *count = counter(Family::InboxDepth, key, bytes)?.max(0).unsigned_abs();
    }
    Ok(Depth { items: counts[0], bytes: counts[1] })
}

pub(crate) fn add<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    depth: Depth,
) -> Result<(), StoreError> {
    change(tx, universe, world, depth, 1)
}

pub(crate) fn subtract<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    depth: Depth,
) -> Result<(), StoreError> {
    change(tx, universe, world, depth, -1)
}

fn change<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    depth: Depth,
    sign: i64,
) -> Result<(), StoreError> {
    for (key, amount) in keys(universe, world).iter().zip([depth.items, depth.bytes]) {
        // Wrapping, as the counter is: what was added is subtracted again, whatever its size.
        tx.add(key.as_bytes(), sign.wrapping_mul(amount.cast_signed()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_engine::{Engine, Memory};

    #[test]
    fn what_is_added_and_subtracted_is_gone() {
        let (universe, world) = (laws::universe(), laws::world());
        pollster::block_on(async {
            let mut tx = Memory::new().begin().await.unwrap();
            assert_eq!(read(&mut tx, universe, world).await.unwrap(), Depth::default());
            let depth = Depth { items: 3, bytes: 400 };
            add(&mut tx, universe, world, depth).unwrap();
            assert_eq!(read(&mut tx, universe, world).await.unwrap(), depth);
            subtract(&mut tx, universe, world, depth).unwrap();
            assert_eq!(read(&mut tx, universe, world).await.unwrap(), Depth::default());
        });
    }

    #[test]
    fn a_counter_of_another_length_is_damage() {
        let (universe, world) = (laws::universe(), laws::world());
        pollster::block_on(async {
            let mut tx = Memory::new().begin().await.unwrap();
            tx.put(keys(universe, world)[0].as_bytes(), vec![1, 2, 3]).unwrap();
            assert!(matches!(read(&mut tx, universe, world).await, Err(StoreError::Damaged(_))));
        });
    }
}
