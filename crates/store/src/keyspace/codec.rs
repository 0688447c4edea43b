//! Encodings of keys and values, and how damaged ones are distinguished from absent ones.

use super::{Family, QueueShard, queue::QueueSeq};
use crate::{Damaged, StoreError};
use bytes::Bytes;
use minicbor::{Decode, Encode};
use mundi_engine::{Engine, EngineError, Read, ReadPlan, Source, Transaction};
use mundi_model::{Hash, InboxSeq, IntentHash, UniverseId, WorldId, cbor};
use smallvec::SmallVec;
use std::fmt;

/// A key of a known family. Only the constructors of the families make one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(Parts);

/// Nearly every key has its place on the stack: it lives for one read or one write.
type Parts = SmallVec<[u8; 64]>;

impl Key {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The smallest key above this one.
    pub(crate) fn successor(&self) -> Self {
        let mut bytes = self.0.clone();
        bytes.push(0);
        Self(bytes)
    }

    /// A get of it, to be planned.
    pub(crate) fn planned(&self) -> Read {
        Read::get(&self.0)
    }

    /// All keys that begin with this one.
    pub(crate) fn span(&self) -> Span {
        Span { start: self.clone(), end: Self(prefix_end(&self.0)) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A range of keys, `start..end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub start: Key,
    pub end: Key,
}

impl Span {
    /// The part above a key that was already seen.
    pub(crate) fn after(self, seen: &Key) -> Self {
        Self { start: seen.successor().max(self.start), end: self.end }
    }

    /// As [`Self::after`], for a key as the engine gave it.
    pub(crate) fn after_bytes(self, seen: &[u8]) -> Self {
        self.after(&Key(seen.into()))
    }

    /// The part below a key that was already seen, as the engine gave it.
    pub(crate) fn before_bytes(self, seen: &[u8]) -> Self {
        Self { start: self.start, end: Key(seen.into()).min(self.end) }
    }

    pub(crate) fn read(&self, limit: usize) -> mundi_engine::RangeRead {
        mundi_engine::RangeRead::new(self.start.0.to_vec(), self.end.0.to_vec(), limit)
    }
}

fn prefix_end(prefix: &[u8]) -> Parts {
    let mut end = Parts::from_slice(prefix);
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    Parts::from_slice(&[u8::MAX]) // every key is below the engine's own range
}

/// Builds a key from its parts, each of fixed width, so that order is kept and no separator is needed.
pub(crate) struct KeyBuilder(Parts);

impl KeyBuilder {
    /// A key of a universe's own family.
    pub(crate) fn universe(universe: UniverseId, family: Family) -> Self {
        let mut bytes = Parts::new();
        bytes.extend_from_slice(universe.as_bytes());
        bytes.push(family as u8);
        Self(bytes)
    }

    /// A key of a family of one world.
    pub(crate) fn world(universe: UniverseId, world: WorldId, family: Family) -> Self {
        Self::universe(universe, Family::World).bytes(world.as_bytes()).u8(family as u8)
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(self, number: u8) -> Self {
        self.bytes(&[number])
    }

    pub(crate) fn u64(self, number: u64) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(crate) fn queue_shard(self, queue_shard: QueueShard) -> Self {
        self.u64(queue_shard.kind).u8(queue_shard.shard.get())
    }

    pub(crate) fn key(self) -> Key {
        Key(self.0)
    }
}

/// Takes a key apart again; what does not fit is damage, because only constructors made keys.
pub(crate) struct KeyReader<'a> {
    family: Family,
    key: &'a [u8],
    rest: &'a [u8],
}

impl<'a> KeyReader<'a> {
    /// Reads the parts after `prefix`, which the range read has already matched.
    pub(crate) fn after(family: Family, prefix: &Key, key: &'a [u8]) -> Result<Self, StoreError> {
        let rest = key.strip_prefix(prefix.as_bytes());
        rest.map(|rest| Self { family, key, rest }).ok_or_else(|| bad_key(family, key))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| bad_key(self.family, self.key))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, StoreError> {
        Ok(u8::from_be_bytes(self.take()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, StoreError> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    pub(crate) fn world(&mut self) -> Result<WorldId, StoreError> {
        Ok(WorldId::from_bytes(self.take()?))
    }

    pub(crate) fn hash(&mut self) -> Result<Hash, StoreError> {
        Ok(Hash::from_bytes(self.take()?))
    }

    pub(crate) fn intent(&mut self) -> Result<IntentHash, StoreError> {
        Ok(IntentHash::from_bytes(self.take()?))
    }

    pub(crate) fn seq(&mut self) -> Result<InboxSeq, StoreError> {
        Ok(InboxSeq::from_bytes(self.take()?))
    }

    pub(crate) fn queue_seq(&mut self) -> Result<QueueSeq, StoreError> {
        Ok(QueueSeq::from_bytes(self.take()?))
    }

    /// All that is left, as text.
    pub(crate) fn text(self) -> Result<String, StoreError> {
        std::str::from_utf8(self.rest).map(str::to_owned).map_err(|_| self.bad())
    }

    /// The error for bytes that cannot be a key.
    pub(crate) fn bad(&self) -> StoreError {
        bad_key(self.family, self.key)
    }

    /// Nothing may follow.
    pub(crate) fn end<V>(self, value: V) -> Result<V, StoreError> {
        if self.rest.is_empty() { Ok(value) } else { Err(bad_key(self.family, self.key)) }
    }
}

fn bad_key(family: Family, key: &[u8]) -> StoreError {
    Damaged::new(family, key, "the key has not the shape of its family".to_owned()).into()
}

/// The value of a family's key, out of the bytes that were stored there.
pub(crate) fn decode_value<V: for<'b> Decode<'b, ()> + Encode<()>>(
    family: Family,
    key: &[u8],
    bytes: &[u8],
) -> Result<V, StoreError> {
    cbor::decode(bytes).map_err(|cause| Damaged::new(family, key, cause.to_string()).into())
}

/// The value under a key; the commit depends on it.
pub(crate) async fn get<T: Transaction, V: for<'b> Decode<'b, ()> + Encode<()>>(
    tx: &mut T,
    family: Family,
    key: &Key,
) -> Result<Option<V>, StoreError> {
    let bytes = tx.get(key.as_bytes()).await?;
    bytes.map(|bytes| decode_value(family, key.as_bytes(), &bytes)).transpose()
}

/// The value under a key, without depending on it.
pub(crate) async fn get_snapshot<T: Transaction, V: for<'b> Decode<'b, ()> + Encode<()>>(
    tx: &mut T,
    family: Family,
    key: &Key,
) -> Result<Option<V>, StoreError> {
    let bytes = tx.get_snapshot(key.as_bytes()).await?;
    bytes.map(|bytes| decode_value(family, key.as_bytes(), &bytes)).transpose()
}

/// One key of the newest state, and the version of that state, without a transaction of the caller's. An engine at the other end of a network
/// connection reads many such keys in one round trip.
pub(crate) async fn newest<E: Engine>(engine: &E, key: &Key) -> Result<(Option<Bytes>, u64), EngineError> {
    let planned = engine.begin_planned(Source::SharedSnapshot, || ReadPlan::reads([key.planned()])).await?;
    let mut tx = match planned {
        Some(tx) => tx,
        None => engine.begin().await?,
    };
    Ok((tx.get_snapshot(key.as_bytes()).await?, tx.version().await?))
}

pub(crate) fn put<T: Transaction>(tx: &mut T, key: &Key, value: &impl Encode<()>) -> Result<(), StoreError> {
    Ok(tx.put(key.as_bytes(), cbor::encode(value))?)
}

/// A counter's value: eight bytes, little-endian, as [`Transaction::add`] keeps it.
pub(crate) fn counter(family: Family, key: &Key, bytes: Option<Bytes>) -> Result<i64, StoreError> {
    let Some(bytes) = bytes else { return Ok(0) };
    let eight = <[u8; 8]>::try_from(&bytes[..]);
    let damaged = |_| Damaged::new(family, key.as_bytes(), format!("a counter of {} bytes", bytes.len())).into();
    eight.map(i64::from_le_bytes).map_err(damaged)
}
