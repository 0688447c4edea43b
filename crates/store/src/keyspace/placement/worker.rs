//! `u/<u>/workers/<worker>`: the live workers and their capacity.
//!
//! Written by each worker, as its heartbeat; removed when it leaves. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WorkerRecord {
    #[n(0)]
    pub started_at_ns: u64,
    /// After this it counts as gone, unless it says otherwise.
    #[n(1)]
    pub expires_at_ns: u64,
    /// How many worlds that have work it takes at most.
    #[n(2)]
    pub worlds_max: u32,
    /// It finishes what it has and takes nothing new.
    #[n(3)]
    pub draining: bool,
    /// The version of the keyspace that it speaks.
    #[n(4)]
    pub schema_version: u32,
    /// Where people and other workers reach it.
    #[n(5)]
    pub address: Option<String>,
    /// How many of its worlds had work when it said so; those that rest make room.
    #[n(6)]
    pub worlds: Option<u32>,
    /// The roles of its process, as the configuration names them: for people.
    #[n(7)]
    pub roles: Option<Vec<String>>,
}

impl WorkerRecord {
    /// Whether worlds may be placed there, room or not.
    pub fn takes_worlds(&self, now_ns: u64) -> bool {
        !self.draining && self.expires_at_ns > now_ns
    }

    /// How many more worlds it takes.
    pub fn room(&self) -> u32 {
        self.worlds_max.saturating_sub(self.worlds.unwrap_or(0))
    }
}

pub fn key(universe: UniverseId, worker: WorkerId) -> Key {
    KeyBuilder::universe(universe, Family::Worker).u64(worker.get()).key()
}

pub fn prefix(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::Worker).key()
}

pub fn parse(universe: UniverseId, key: &[u8]) -> Result<WorkerId, StoreError> {
    let mut reader = KeyReader::after(Family::Worker, &prefix(universe), key)?;
    let number = reader.u64()?;
    let worker = WorkerId::new(number).ok_or_else(|| reader.bad())?;
    reader.end(worker)
}

pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
) -> Result<Option<WorkerRecord>, StoreError> {
    get(tx, Family::Worker, &key(universe, worker)).await
}

pub fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    record: &WorkerRecord,
) -> Result<(), StoreError> {
    put(tx, &key(universe, worker), record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_worker(a in laws::workers(), b in laws::workers()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |worker| key(universe, *worker), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(
            times: (u64, u64),
            worlds: (u32, Option<u32>),
            draining: bool,
            address: Option<String>,
            roles: Option<Vec<String>>,
            noise: Vec<u8>,
        ) {
            let (started_at_ns, expires_at_ns) = times;
            let (worlds_max, worlds) = worlds;
            let schema_version = 1;
            let record = WorkerRecord {
                started_at_ns,
                expires_at_ns,
                worlds_max,
                draining,
                schema_version,
                address,
                worlds,
                roles,
            };
            laws::value_survives(Family::Worker, &record, &noise)?;
        }
    }
}
