//! Values that this process has read or written lately, as long as nobody else has written them: what a worker asks for again with
//! every turn of its worlds. Bounded: what was not asked for in a while is forgotten.

use bytes::Bytes;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// Some keys of each of some ten thousand worlds.
const KEYS_MAX: usize = 65_536;
/// Larger values are rarely asked for twice.
const VALUE_BYTES_MAX: usize = 1_024;

/// Two generations: what is asked for moves to the young one, and when that is full, the old one goes.
#[derive(Default)]
pub(super) struct ValueCache {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation(HashTable<Entry>);

struct Entry {
    key: Bytes,
    value: Option<Bytes>,
    /// The version that it was known at.
    version: u64,
    why: Why,
}

/// Why a key is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It was asked for, and so it may be again.
    Asked,
    /// Who wrote it said that it will be asked for, which is over when it is deleted.
    Expected,
}

impl ValueCache {
    /// Why a key is remembered, if it is.
    pub(super) fn why(&self, key: &Bytes) -> Option<Why> {
        self.find(xxh3_64(key), key).map(|entry| entry.why)
    }

    pub(super) fn get(&mut self, key: &Bytes) -> Option<Option<Bytes>> {
        let hash = xxh3_64(key);
        if let Some(entry) = self.young.find(hash, key) {
            return Some(entry.value.clone());
        }
        let entry = self.old.take(hash, key)?;
        let value = entry.value.clone();
        self.insert(hash, entry);
        Some(value)
    }

    /// Unless a later value is known.
    pub(super) fn put(&mut self, key: Bytes, value: Option<Bytes>, version: u64, why: Why) {
        let hash = xxh3_64(&key);
        if self.find(hash, &key).is_some_and(|known| known.version > version) {
            return;
        }
        self.old.take(hash, &key);
        self.young.take(hash, &key);
        if value.as_ref().is_none_or(|value| value.len() <= VALUE_BYTES_MAX) {
            // A value is a part of what a whole page of answers was read into: a copy of its own does not hold on to that.
            let value = value.map(|value| Bytes::copy_from_slice(&value));
            self.insert(hash, Entry { key, value, version, why });
        }
    }

    /// It was written with this version, and how is not known.
    pub(super) fn forget(&mut self, key: &Bytes, version: u64) {
        let hash = xxh3_64(key);
        for generation in [&mut self.young, &mut self.old] {
            if generation.find(hash, key).is_some_and(|known| known.version < version) {
                generation.take(hash, key);
            }
        }
    }

    fn find(&self, hash: u64, key: &Bytes) -> Option<&Entry> {
        self.young.find(hash, key).or_else(|| self.old.find(hash, key))
    }

    fn insert(&mut self, hash: u64, entry: Entry) {
        if self.young.0.len() >= KEYS_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.0.insert_unique(hash, entry, |entry| xxh3_64(&entry.key));
    }
}

impl Generation {
    fn find(&self, hash: u64, key: &Bytes) -> Option<&Entry> {
        self.0.find(hash, |entry| entry.key == *key)
    }

    fn take(&mut self, hash: u64, key: &Bytes) -> Option<Entry> {
        self.0.find_entry(hash, |entry| entry.key == *key).ok().map(|found| found.remove().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn only_what_was_written_later_is_forgotten() {
        let mut remembered = ValueCache::default();
        remembered.put(bytes("k"), Some(bytes("7")), 7, Why::Asked);
        remembered.forget(&bytes("k"), 7);
        assert_eq!(remembered.get(&bytes("k")), Some(Some(bytes("7"))), "it was known with that write");
        remembered.put(bytes("k"), Some(bytes("6")), 6, Why::Asked);
        assert_eq!(remembered.get(&bytes("k")), Some(Some(bytes("7"))), "news from the past");
        remembered.forget(&bytes("k"), 8);
        assert_eq!(remembered.get(&bytes("k")), None);
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut remembered = ValueCache::default();
        remembered.put(bytes("asked"), None, 1, Why::Asked);
        for number in 0..3 * KEYS_MAX as u64 {
            remembered.put(Bytes::copy_from_slice(&number.to_be_bytes()), None, 1, Why::Asked);
            assert!(remembered.get(&bytes("asked")).is_some());
        }
        assert!(remembered.young.0.len() + remembered.old.0.len() <= KEYS_MAX);
        remembered.put(bytes("large"), Some(Bytes::from(vec![0; VALUE_BYTES_MAX + 1])), 1, Why::Asked);
        assert_eq!(remembered.get(&bytes("large")), None);
    }
}
