//! `u/<u>/dedupe/bucket/<bucket>/<shard>/<kind>/<world>/<id>`: which dedupe records end when.
//!
//! Written beside each dedupe record; removed with it once its bucket is over. Immutable. Time comes first, so
//! that what ended lies together at the low end and is dropped without a scan of what lives.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Shard, Span};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId, WorldId};

/// How much time one bucket holds: dedupe records live up to this much longer than they must.
pub const BUCKET_NS: u64 = 300_000_000_000;

/// The owner of a dedupe record. Ordinals are persisted in keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DedupeKind {
    Inbox = 1,
    Effect = 2,
    Timer = 3,
    ChildRequest = 4,
}

impl DedupeKind {
    fn from_ordinal(ordinal: u8) -> Option<Self> {
        [Self::Inbox, Self::Effect, Self::Timer, Self::ChildRequest].into_iter().find(|kind| *kind as u8 == ordinal)
    }
}

/// One dedupe record that ends with its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ending {
    /// The bucket's number: when it is over, in units of [`BUCKET_NS`].
    pub bucket: u64,
    pub shard: u8,
    pub kind: DedupeKind,
    pub world: WorldId,
    pub id: Hash,
}

impl Ending {
    pub fn new(kind: DedupeKind, world: WorldId, id: Hash, expires_at_ns: u64) -> Self {
        let bucket = expires_at_ns / BUCKET_NS + 1;
        Self { bucket, shard: Shard::of(id.as_bytes()).get(), kind, world, id }
    }
}

pub fn key(universe: UniverseId, ending: &Ending) -> Key {
    let place = KeyBuilder::universe(universe, Family::DedupeBucket).u64(ending.bucket).u8(ending.shard);
    place.u8(ending.kind as u8).bytes(ending.world.as_bytes()).bytes(ending.id.as_bytes()).key()
}

/// All records whose bucket is over, from the bucket that `from_ns` lies in.
pub fn over(universe: UniverseId, from_ns: u64, now_ns: u64) -> Span {
    let bucket = |time_ns: u64| KeyBuilder::universe(universe, Family::DedupeBucket).u64(time_ns / BUCKET_NS);
    Span { start: bucket(from_ns).key(), end: bucket(now_ns.saturating_add(BUCKET_NS)).key() }
}

pub fn parse(universe: UniverseId, key: &[u8]) -> Result<Ending, StoreError> {
    let prefix = KeyBuilder::universe(universe, Family::DedupeBucket).key();
    let mut reader = KeyReader::after(Family::DedupeBucket, &prefix, key)?;
    let (bucket, shard, kind) = (reader.u64()?, reader.u8()?, reader.u8()?);
    let kind = DedupeKind::from_ordinal(kind).ok_or_else(|| reader.bad())?;
    let ending = Ending { bucket, shard, kind, world: reader.world()?, id: reader.hash()? };
    reader.end(ending)
}

pub(crate) fn write<T: Transaction>(tx: &mut T, universe: UniverseId, ending: &Ending) -> Result<(), StoreError> {
    Ok(tx.put(key(universe, ending).as_bytes(), Vec::new())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    fn endings() -> impl Strategy<Value = Ending> {
        let kind = (1..=4u8).prop_map(|ordinal| DedupeKind::from_ordinal(ordinal).unwrap());
        (kind, laws::worlds(), laws::hashes(), any::<u64>())
            .prop_map(|(kind, world, id, expires_at_ns)| Ending::new(kind, world, id, expires_at_ns))
    }

    proptest! {
        #[test]
        fn keys_sort_by_end(a in endings(), b in endings()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |ending| key(universe, ending), |key| parse(universe, key))?;
        }

        #[test]
        fn nothing_is_over_before_it_expires(expires_at_ns: u64, now_ns: u64) {
            let ending = Ending::new(DedupeKind::Inbox, laws::world(), Hash::of(b"i"), expires_at_ns);
            let key = key(laws::universe(), &ending);
            if key < over(laws::universe(), 0, now_ns).end {
                prop_assert!(now_ns >= expires_at_ns);
            }
        }
    }
}
