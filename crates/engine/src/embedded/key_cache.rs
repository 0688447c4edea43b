//! The key cache: values of keys that are read often.
//!
//! The tree needs several microseconds to find one key, and most transactions read the same few: a lease, a head, a
//! counter. Their values are kept here, and every commit group updates those that it writes before it becomes visible.
//!
//! An entry is the value of a key from some version up to the newest visible one. A reader of an older snapshot, and
//! one whose key is not here, reads the tree.

use crate::generations::Generations;
use bytes::Bytes;
use parking_lot::Mutex;
use std::array;
use xxhash_rust::xxh3::xxh3_64;

/// As many as threads that read at a time, and more.
const SHARDS: usize = 16;
/// The bytes that one shard may hold in each of its two generations: 8 MiB in all.
const GENERATION_BYTES: usize = 256 << 10;
/// Larger values are worth a look into the tree.
const VALUE_BYTES_MAX: usize = 1_024;
/// The bytes of an entry besides key and value, roughly.
const ENTRY_BYTES: usize = 96;

pub(super) struct KeyCache([Mutex<Shard>; SHARDS]);

struct Shard {
    /// The version up to which its entries hold, or are about to.
    version: u64,
    entries: Generations<Known>,
}

/// The value of a key from some version on.
struct Known {
    since: u64,
    value: Option<Bytes>,
}

impl KeyCache {
    /// Nothing yet, of a tree that shows this version.
    pub(super) fn new(version: u64) -> Self {
        let shard = |_| Mutex::new(Shard { version, entries: Generations::new(GENERATION_BYTES) });
        Self(array::from_fn(shard))
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // Bits from the middle: the tables go by the lowest and by the highest.
        let place = usize::try_from(hash >> 40).unwrap_or(0);
        &self.0[place % SHARDS]
    }

    /// The value of a key at a version, if that is known here: `Some(None)` if it is surely absent.
    pub(super) fn get(&self, key: &[u8], version: u64) -> Option<Option<Bytes>> {
        let hash = xxh3_64(key);
        let mut shard = self.shard(hash).lock();
        shard.entries.get(hash, key, |known| (known.since <= version).then(|| known.value.clone())).flatten()
    }

    /// Keeps what the tree said of a key at a version, unless something was shown since.
    pub(super) fn keep(&self, key: &[u8], version: u64, value: Option<&Bytes>) {
        if value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            return;
        }
        let hash = xxh3_64(key);
        let mut shard = self.shard(hash).lock();
        if shard.version == version {
            shard.entries.take(hash, key);
            // Copies: the tree's are parts of much larger pieces.
            let value = value.map(|value| Bytes::copy_from_slice(value));
            shard.add(hash, Bytes::copy_from_slice(key), Known { since: version, value });
        }
    }

    /// A version is about to be shown. Until that is done, nobody reads at it, and nobody adds what it makes old.
    pub(super) fn show(&self, version: u64, writes: &[(Bytes, Option<Bytes>)]) {
        self.0.iter().for_each(|shard| shard.lock().version = version);
        for (key, value) in writes {
            let hash = xxh3_64(key);
            let mut shard = self.shard(hash).lock();
            let Some((key, _)) = shard.entries.take(hash, key) else { continue };
            if value.as_ref().is_none_or(|value| value.len() <= VALUE_BYTES_MAX) {
                let value = value.as_ref().map(|value| Bytes::copy_from_slice(value));
                shard.add(hash, key, Known { since: version, value });
            }
        }
    }
}

impl Shard {
    fn add(&mut self, hash: u64, key: Bytes, known: Known) {
        let weight = ENTRY_BYTES + key.len() + known.value.as_ref().map_or(0, Bytes::len);
        self.entries.insert(hash, key, known, weight);
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
            let weights = shard.lock().entries.weights();
            assert!(weights.iter().all(|bytes| *bytes <= GENERATION_BYTES + VALUE_BYTES_MAX), "{weights:?}");
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
