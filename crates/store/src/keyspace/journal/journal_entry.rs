//! `u/<u>/w/<w>/journal/e/<height>`: records that were appended together, under the height of the last one.
//!
//! Under the last, so that who looks for any height finds the entry that holds it by one look ahead. The first record stands
//! there as its canonical bytes. Of each further one there is only the body: its height is one more, and it names the hash of
//! the record before it, so both are made again when it is read. A record that was changed, added or lost breaks the link to
//! the next entry, or to the head.
//!
//! Written by every protocol that appends; removed by `segment_export` once a segment holds all of it, and by
//! `delete_world`. Immutable.

use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span};
use crate::{StoreError, journal::JournalError};
use bytes::Bytes;
use minicbor::{Decoder, decode};
use mundi_engine::Transaction;
use mundi_model::{Hash, Height, UniverseId, WorldId, cbor, record::Record};

/// A read of one record reads its whole entry, so a large turn is cut into several.
const ENTRY_BYTES_MAX: usize = 16 << 10;

/// One record as it was appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    pub height: Height,
    pub bytes: Bytes,
    /// The hash of the bytes: what the next record names.
    pub hash: Hash,
}

impl StoredRecord {
    pub(crate) fn new(height: Height, bytes: Bytes) -> Self {
        let hash = Hash::of(&bytes);
        Self { height, bytes, hash }
    }

    /// The record. The chain has been checked, so this fails only for records of a later format.
    pub fn decode(&self) -> Result<Record, cbor::CborError> {
        cbor::decode(&self.bytes)
    }
}

/// The key of the entry whose last record stands at this height.
pub fn key(universe: UniverseId, world: WorldId, last: Height) -> Key {
    KeyBuilder::world(universe, world, Family::JournalEntry).u64(last.get()).key()
}

pub(crate) fn prefix(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::JournalEntry).key()
}

/// The entries that end in `from..until`.
pub(crate) fn ending(universe: UniverseId, world: WorldId, from: Height, until: Height) -> Span {
    Span { start: key(universe, world, from), end: key(universe, world, until) }
}

fn parse(universe: UniverseId, world: WorldId, key: &[u8]) -> Result<Height, StoreError> {
    let mut reader = KeyReader::after(Family::JournalEntry, &prefix(universe, world), key)?;
    let height = Height::new(reader.u64()?);
    reader.end(height)
}

/// Sets the bytes of records from a height on; the caller has checked that the height is the next one.
pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    first: Height,
    records: &[Bytes],
) -> Result<(), StoreError> {
    let (mut rest, mut height) = (records, first);
    while let [first, following @ ..] = rest {
        let (value, further) = pack(first, following);
        let last = height.plus(further as u64);
        tx.put(key(universe, world, last).as_bytes(), value)?;
        (rest, height) = (&following[further..], last.next());
    }
    Ok(())
}

/// An entry of a record and as many of those that follow as have room in it; and how many those are.
fn pack(first: &Bytes, following: &[Bytes]) -> (Bytes, usize) {
    if following.is_empty() {
        return (first.clone(), 0);
    }
    let mut entry =
        Vec::with_capacity(first.len() + following.iter().map(Bytes::len).sum::<usize>().min(ENTRY_BYTES_MAX));
    entry.extend_from_slice(first);
    let mut further = 0;
    for record in following {
        let Ok(Link { body, .. }) = Link::of(record) else { break };
        if entry.len() + record.len() - body > ENTRY_BYTES_MAX {
            break;
        }
        entry.extend_from_slice(&record[body..]);
        further += 1;
    }
    (entry.into(), further)
}

/// The records of the entry that stands under a key, in their order.
pub fn records(
    universe: UniverseId,
    world: WorldId,
    key: &[u8],
    value: &Bytes,
) -> Result<Vec<StoredRecord>, StoreError> {
    let last = parse(universe, world, key)?;
    let damaged = |cause: String| JournalError::RecordDamaged { world, height: last, cause };
    let records = unpack(value).map_err(|cause| damaged(cause.to_string()))?;
    match records.last() {
        Some(record) if record.height == last => Ok(records),
        Some(record) => Err(damaged(format!("its entry ends at {}", record.height)).into()),
        None => Err(damaged("its entry is empty".to_owned()).into()),
    }
}

fn unpack(entry: &Bytes) -> Result<Vec<StoredRecord>, decode::Error> {
    if entry.is_empty() {
        return Ok(Vec::new());
    }
    let Link { height, body, .. } = Link::of(entry)?;
    let mut end = value_end(entry, body)?;
    let mut record = StoredRecord::new(height, entry.slice(..end));
    let mut records = Vec::new();
    while end < entry.len() {
        let start = end;
        end = value_end(entry, start)?;
        let (height, prev) = (record.height.next(), record.hash);
        records.push(record);
        record = StoredRecord::new(height, Link::put_before(height, prev, &entry[start..end]));
    }
    records.push(record);
    Ok(records)
}

/// Where the CBOR value ends that begins at a place.
fn value_end(bytes: &[u8], start: usize) -> Result<usize, decode::Error> {
    let mut decoder = Decoder::new(bytes);
    decoder.set_position(start);
    decoder.skip()?;
    Ok(decoder.position())
}

/// The head of a record: its place in the chain.
pub(crate) struct Link {
    pub(crate) height: Height,
    pub(crate) prev: Hash,
    /// Where its body begins.
    body: usize,
}

impl Link {
    /// Without decoding what the record carries.
    pub(crate) fn of(record: &[u8]) -> Result<Self, decode::Error> {
        let mut decoder = Decoder::new(record);
        if decoder.array()? != Some(3) {
            return Err(decode::Error::message("a record has three parts"));
        }
        let (height, prev) = (decoder.decode()?, decoder.decode()?);
        Ok(Self { height, prev, body: decoder.position() })
    }

    /// The record that carries a body at a height.
    fn put_before(height: Height, prev: Hash, body: &[u8]) -> Bytes {
        const HEAD_BYTES_MAX: usize = 1 + 9 + 34;
        let mut record = Vec::with_capacity(HEAD_BYTES_MAX + body.len());
        record.push(0x83); // an array of three
        cbor::encode_into(&height, &mut record);
        cbor::encode_into(&prev, &mut record);
        record.extend_from_slice(body);
        record.into()
    }
}

/// The record at a height, if the engine has it.
pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    height: Height,
) -> Result<Option<StoredRecord>, StoreError> {
    let span = Span { start: key(universe, world, height), end: prefix(universe, world).span().end };
    let page = tx.range(span.read(1)).await?;
    let Some((key, value)) = page.items.first() else { return Ok(None) };
    Ok(records(universe, world, key, value)?.into_iter().find(|record| record.height == height))
}

/// Those of the records `from..until` that the next few entries hold. They are immutable, so the read depends on nothing.
pub(crate) async fn read_some<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    from: Height,
    until: Height,
    entries_max: usize,
) -> Result<Vec<StoredRecord>, StoreError> {
    let span = Span { start: key(universe, world, from), end: prefix(universe, world).span().end };
    let wanted = usize::try_from(until.since(from)).unwrap_or(usize::MAX); // an entry holds at least one
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let page = tx.range(span.read(wanted.min(entries_max)).snapshot()).await?;
    let mut some = Vec::with_capacity(page.items.len());
    for (key, value) in &page.items {
        if some.last().is_some_and(|record: &StoredRecord| record.height.next() >= until) {
            break; // what lies above is not asked for, damaged or not
        }
        let entry = records(universe, world, key, value)?;
        if some.is_empty() && entry.first().is_some_and(|record| record.height > from) {
            break; // the first one is not here, so a segment has it, and more
        }
        some.extend(entry.into_iter().filter(|record| (from..until).contains(&record.height)));
    }
    Ok(some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_model::record::{Body, Custom, Payload};
    use proptest::prelude::*;

    fn chain(first: Height, sizes: &[usize]) -> Vec<StoredRecord> {
        let mut prev = Hash::of(b"below");
        let record = |(height, size): (u64, &usize)| {
            let body = Body::Custom(Custom { kind: "test".into(), payload: Payload::Inline(vec![7; *size]) });
            let (bytes, hash) = Record { height: Height::new(height), prev, body }.seal();
            prev = hash;
            StoredRecord { height: Height::new(height), bytes: bytes.into(), hash }
        };
        (first.get()..).zip(sizes).map(record).collect()
    }

    fn entries(records: &[StoredRecord]) -> Vec<(Bytes, usize)> {
        let bytes: Vec<Bytes> = records.iter().map(|record| record.bytes.clone()).collect();
        let (mut entries, mut rest) = (Vec::new(), &bytes[..]);
        while let [first, following @ ..] = rest {
            let (entry, further) = pack(first, following);
            entries.push((entry, 1 + further));
            rest = &following[further..];
        }
        entries
    }

    #[test]
    fn the_link_is_what_the_record_says() {
        let record = Record { height: Height::new(77), prev: Hash::of(b"p"), body: Body::OutcomeDigest(Hash::of(b"")) };
        let link = Link::of(&record.seal().0).unwrap();
        assert_eq!((link.height, link.prev), (Height::new(77), Hash::of(b"p")));
    }

    #[test]
    fn one_record_alone_is_stored_as_it_is() {
        let records = chain(Height::new(5), &[20]);
        assert_eq!(entries(&records), [(records[0].bytes.clone(), 1)]);
    }

    #[test]
    fn a_large_turn_is_cut_into_entries_of_bounded_size() {
        let records = chain(Height::new(5), &[9_000, 9_000, 50_000, 10, 10, 16_400]);
        let entries = entries(&records);
        assert_eq!(entries.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 1, 1, 2, 1]);
        for (entry, count) in entries {
            assert!(count == 1 || entry.len() <= ENTRY_BYTES_MAX);
        }
    }

    proptest! {
        #[test]
        fn keys_sort_by_height(a in laws::heights(), b in laws::heights()) {
            let (universe, world) = (laws::universe(), laws::world());
            laws::keys_are_ordered((a, b), |height| key(universe, world, *height), |key| parse(universe, world, key))?;
        }

        #[test]
        fn what_is_packed_comes_out_again(first in 0..u64::MAX / 2, sizes in prop::collection::vec(0..6_000usize, 1..12)) {
            let records = chain(Height::new(first), &sizes);
            let unpacked = entries(&records).into_iter().map(|(entry, _)| unpack(&entry).unwrap());
            prop_assert_eq!(unpacked.flatten().collect::<Vec<_>>(), records);
        }

        #[test]
        fn a_changed_entry_never_passes_for_what_it_was(at: prop::sample::Index, bit in 0..8u8, sizes in prop::collection::vec(0..40usize, 1..5)) {
            let records = chain(Height::new(300), &sizes);
            let (entry, _) = entries(&records).remove(0);
            let mut changed = entry.to_vec();
            changed[at.index(entry.len())] ^= 1u8 << bit;
            // Who reads on compares the last hash with the next entry, or with the head.
            if let Ok(unpacked) = unpack(&changed.into()) {
                prop_assert_ne!(unpacked.last().map(|record| record.hash), records.last().map(|record| record.hash));
            }
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_right(bytes: Vec<u8>) {
            if let Ok(record) = cbor::decode::<Record>(&bytes) {
                let link = Link::of(&bytes).unwrap();
                prop_assert_eq!((link.height, link.prev), (record.height, record.prev));
            }
            let _refused = unpack(&bytes.into());
        }
    }
}
