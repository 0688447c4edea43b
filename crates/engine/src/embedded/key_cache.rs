//! What hot keys hold.
//!
//! The tree needs several microseconds to find one key, and most transactions read the same few: a lease, a head, a
//! counter. Their values are kept here, and every group that is shown brings those up to date that it writes.
//!
//! An entry says what a key holds from some version on, up to the last one that was shown. A reader of an older state, and
//! one whose key is not here, asks the tree.

use bytes::Bytes;
use hashbrown::HashTable;
use parking_lot::Mutex;
use std::{array, mem};
use xxhash_rust::xxh3::xxh3_64;

/// As many as threads that read at a time, and more.
const SHARDS: usize = 16;
/// What one shard may hold in each of its two generations: 8 MiB in all.
const GENERATION_BYTES: usize = 256 << 10;
/// Larger values are worth a look into the tree.
const VALUE_BYTES_MAX: usize = 1_024;
/// What an entry takes besides key and value, roughly.
const ENTRY_BYTES: usize = 96;

pub(super) struct KeyCache([Mutex<Shard>; SHARDS]);

struct Shard {
    /// The version up to which its entries hold, or are about to.
    version: u64,
    /// What is full grows old; what is read there becomes young again; what is old when the young are full again goes.
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    entries: HashTable<Entry>,
    bytes: usize,
}

struct Entry {
    /// Of the key, which is hashed once for each question.
    hash: u64,
    key: Bytes,
    since: u64,
    value: Option<Bytes>,
}

impl KeyCache {
    /// Nothing yet, of a tree that shows this version.
    pub(super) fn new(version: u64) -> Self {
        let shard = |_| Mutex::new(Shard { version, young: Generation::default(), old: Generation::default() });
        Self(array::from_fn(shard))
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // Bits from the middle: the tables go by the lowest and by the highest.
        let place = usize::try_from(hash >> 40).unwrap_or(0);
        &self.0[place % SHARDS]
    }

    /// What a key holds at a version, if that is known here: `Some(None)` if it is surely not there.
    pub(super) fn get(&self, key: &[u8], version: u64) -> Option<Option<Bytes>> {
        let hash = xxh3_64(key);
        let mut shard = self.shard(hash).lock();
        let at_version = |entry: &Entry| (entry.since <= version).then(|| entry.value.clone());
        if let Some(entry) = shard.young.entries.find(hash, |entry| entry.key == key) {
            return at_version(entry);
        }
        let entry = shard.old.take(hash, key)?;
        let value = at_version(&entry);
        shard.add(entry);
        value
    }

    /// Keeps what the tree said of a key at a version, unless something was shown since.
    pub(super) fn keep(&self, key: &[u8], version: u64, value: Option<&Bytes>) {
        if value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            return;
        }
        let hash = xxh3_64(key);
        let mut shard = self.shard(hash).lock();
        if shard.version == version {
            shard.take(hash, key);
            // Copies: the tree's are parts of much larger pieces.
            let value = value.map(|value| Bytes::copy_from_slice(value));
            shard.add(Entry { hash, key: Bytes::copy_from_slice(key), since: version, value });
        }
    }

    /// A version is about to be shown. Until that is done, nobody reads at it, and nobody adds what it makes old.
    pub(super) fn show(&self, version: u64, writes: &[(Bytes, Option<Bytes>)]) {
        self.0.iter().for_each(|shard| shard.lock().version = version);
        for (key, value) in writes {
            let hash = xxh3_64(key);
            let mut shard = self.shard(hash).lock();
            let Some(Entry { key, .. }) = shard.take(hash, key) else { continue };
            if value.as_ref().is_none_or(|value| value.len() <= VALUE_BYTES_MAX) {
                let value = value.as_ref().map(|value| Bytes::copy_from_slice(value));
                shard.add(Entry { hash, key, since: version, value });
            }
        }
    }
}

impl Shard {
    fn take(&mut self, hash: u64, key: &[u8]) -> Option<Entry> {
        self.young.take(hash, key).or_else(|| self.old.take(hash, key))
    }

    /// Adds what is in neither generation.
    fn add(&mut self, entry: Entry) {
        if self.young.bytes >= GENERATION_BYTES {
            self.old = mem::take(&mut self.young);
        }
        self.young.bytes += entry.size();
        self.young.entries.insert_unique(entry.hash, entry, |entry| entry.hash);
    }
}

impl Generation {
    fn take(&mut self, hash: u64, key: &[u8]) -> Option<Entry> {
        let (entry, _) = self.entries.find_entry(hash, |entry| entry.key == key).ok()?.remove();
        self.bytes -= entry.size();
        Some(entry)
    }
}

impl Entry {
    fn size(&self) -> usize {
        ENTRY_BYTES + self.key.len() + self.value.as_ref().map_or(0, Bytes::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn write(key: &str, value: &str) -> (Bytes, Option<Bytes>) {
        (bytes(key), Some(bytes(value)))
    }

    #[test]
    fn an_entry_holds_from_its_version_on_until_it_is_written() {
        let hot = KeyCache::new(4);
        assert_eq!(hot.get(b"a", 4), None);
        hot.keep(b"a", 4, Some(&bytes("one")));
        hot.show(5, &[write("b", "other")]);
        assert_eq!(hot.get(b"a", 5), Some(Some(bytes("one"))));
        assert_eq!(hot.get(b"b", 5), None, "nobody asked for it");
        hot.show(6, &[write("a", "two")]);
        assert_eq!(hot.get(b"a", 5), None, "an older state");
        assert_eq!(hot.get(b"a", 6), Some(Some(bytes("two"))));
        hot.show(7, &[(bytes("a"), None)]);
        assert_eq!(hot.get(b"a", 7), Some(None));
    }

    #[test]
    fn what_was_read_before_the_last_group_is_not_kept() {
        let hot = KeyCache::new(4);
        hot.show(5, &[write("a", "two")]);
        hot.keep(b"a", 4, Some(&bytes("one")));
        assert_eq!(hot.get(b"a", 5), None);
    }

    #[test]
    fn it_stays_small_and_keeps_what_is_used() {
        let hot = KeyCache::new(1);
        let value = bytes("value");
        hot.keep(b"hot", 1, Some(&value));
        for number in 0..200_000u32 {
            hot.keep(&number.to_be_bytes(), 1, Some(&value));
            assert_eq!(hot.get(b"hot", 1), Some(Some(value.clone())), "after {number} others");
        }
        for shard in &hot.0 {
            let shard = shard.lock();
            for generation in [&shard.young, &shard.old] {
                let counted: usize = generation.entries.iter().map(Entry::size).sum();
                assert_eq!(counted, generation.bytes);
                assert!(counted <= GENERATION_BYTES + VALUE_BYTES_MAX, "{counted}");
            }
        }
        let large = Bytes::from(vec![0; VALUE_BYTES_MAX + 1]);
        hot.keep(b"large", 1, Some(&large));
        hot.show(2, &[(bytes("hot"), Some(large))]);
        assert_eq!((hot.get(b"large", 2), hot.get(b"hot", 2)), (None, None));
    }

    proptest! {
        /// Readers of the newest and of older states, with groups in between: what it knows is what was written.
        #[test]
        fn it_never_contradicts_the_history(steps in prop::collection::vec((0..6u8, prop::option::of(0..9u8), 0..3u64, any::<bool>()), 1..120)) {
            let (hot, mut history) = (KeyCache::new(0), vec![BTreeMap::<u8, u8>::new()]);
            for (key, value, back, writes) in steps {
                let newest = history.len() as u64 - 1;
                if writes {
                    let mut next = history[history.len() - 1].clone();
                    match value {
                        Some(value) => next.insert(key, value),
                        None => next.remove(&key),
                    };
                    history.push(next);
                    let value = value.map(|value| Bytes::copy_from_slice(&[value]));
                    hot.show(newest + 1, &[(Bytes::copy_from_slice(&[key]), value)]);
                } else {
                    let version = newest.saturating_sub(back);
                    let holds = history[usize::try_from(version).unwrap()].get(&key).map(|value| Bytes::copy_from_slice(&[*value]));
                    match hot.get(&[key], version) {
                        Some(found) => prop_assert_eq!(found, holds),
                        None => hot.keep(&[key], version, holds.as_ref()),
                    }
                }
            }
        }
    }
}
