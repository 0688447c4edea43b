//! The orders of a parent's children: as they were spawned, as they were dispatched, by their runs, and as they ended.
//!
//! Rows are immutable, and removed with their token. A number that has a row is never given to another child.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    child::{ChildId, RunId},
};

/// The child that has a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ChildRow {
    #[n(0)]
    pub child: ChildId,
}

/// `u/<u>/w/<w>/children/queue/<queue_seq>`
pub fn queue_key(universe: UniverseId, parent: WorldId, queue_seq: u64) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildQueue).u64(queue_seq).key()
}

/// `u/<u>/w/<w>/children/dispatch/<dispatch_seq>`
pub fn dispatch_key(universe: UniverseId, parent: WorldId, dispatch_seq: u64) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildDispatch).u64(dispatch_seq).key()
}

/// `u/<u>/w/<w>/children/runs/<run>`
pub fn run_key(universe: UniverseId, parent: WorldId, run: RunId) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildRun).bytes(run.as_bytes()).key()
}

/// `u/<u>/w/<w>/children/ended/<number>`
pub fn ended_key(universe: UniverseId, parent: WorldId, number: u64) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildEnded).u64(number).key()
}

pub(crate) fn queue_prefix(universe: UniverseId, parent: WorldId) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildQueue).key()
}

/// The number of a row of the queue.
pub(crate) fn parse_queue(universe: UniverseId, parent: WorldId, key: &[u8]) -> Result<u64, StoreError> {
    let mut reader = KeyReader::after(Family::ChildQueue, &queue_prefix(universe, parent), key)?;
    let seq = reader.u64()?;
    reader.end(seq)
}

/// The child of a row; the commit depends on it, also on its absence.
pub async fn read<T: Transaction>(tx: &mut T, family: Family, key: &Key) -> Result<Option<ChildId>, StoreError> {
    Ok(get::<_, ChildRow>(tx, family, key).await?.map(|row| row.child))
}

pub(crate) fn write<T: Transaction>(tx: &mut T, key: &Key, child: ChildId) -> Result<(), StoreError> {
    put(tx, key, &ChildRow { child })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_number(a: u64, b: u64) {
            let (universe, world) = (laws::universe(), laws::world());
            laws::keys_are_ordered(
                (a, b), |seq| queue_key(universe, world, *seq), |key| parse_queue(universe, world, key))?;
            for key in [dispatch_key, ended_key] {
                prop_assert_eq!(key(universe, world, a).cmp(&key(universe, world, b)), a.cmp(&b));
            }
        }

        #[test]
        fn the_value_survives(child: [u8; 16], noise: Vec<u8>) {
            laws::value_survives(Family::ChildQueue, &ChildRow { child: ChildId::from_bytes(child) }, &noise)?;
        }
    }
}
