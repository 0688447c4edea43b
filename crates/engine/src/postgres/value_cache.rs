//! The value cache: values that this process has read or written recently, as long as no other process has written them; a worker reads
//! the same keys in every turn of a world. Bounded: entries that were not read for a while are dropped.

use crate::generations::Generations;
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

/// Some keys of each of some ten thousand worlds.
const KEYS_MAX: usize = 65_536;
/// Larger values are rarely asked for twice.
const VALUE_BYTES_MAX: usize = 1_024;

/// Bounded: each key weighs one.
pub(super) struct ValueCache(Generations<Known>);

struct Known {
    value: Option<Bytes>,
    /// The version that it was known at.
    version: u64,
    why: Why,
}

impl Default for ValueCache {
    fn default() -> Self {
        Self(Generations::new(KEYS_MAX / 2))
    }
}

/// Why a key is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It was asked for, and so it may be again.
    Asked,
    /// The writer announced that it will be read, which ends when it is deleted.
    Expected,
}

impl ValueCache {
    /// Why a key is remembered, if it is.
    pub(super) fn why(&self, key: &Bytes) -> Option<Why> {
        self.0.peek(xxh3_64(key), key).map(|known| known.why)
    }

    pub(super) fn get(&mut self, key: &Bytes) -> Option<Option<Bytes>> {
        self.0.get(xxh3_64(key), key, |known| known.value.clone())
    }

    /// Unless a later value is known.
    pub(super) fn put(&mut self, key: Bytes, value: Option<Bytes>, version: u64, why: Why) {
        let hash = xxh3_64(&key);
        if self.0.peek(hash, &key).is_some_and(|known| known.version > version) {
            return;
        }
        self.0.take(hash, &key);
        if value.as_ref().is_none_or(|value| value.len() <= VALUE_BYTES_MAX) {
            // A value is a part of what a whole page of answers was read into: a copy of its own does not hold on to that.
            let value = value.map(|value| Bytes::copy_from_slice(&value));
            self.0.insert(hash, key, Known { value, version, why }, 1);
        }
    }

    /// It was written with this version, and how is not known.
    pub(super) fn forget(&mut self, key: &Bytes, version: u64) {
        let hash = xxh3_64(key);
        if self.0.peek(hash, key).is_some_and(|known| known.version < version) {
            self.0.take(hash, key);
        }
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
        assert!(remembered.0.weights().iter().sum::<usize>() <= KEYS_MAX);
        remembered.put(bytes("large"), Some(Bytes::from(vec![0; VALUE_BYTES_MAX + 1])), 1, Why::Asked);
        assert_eq!(remembered.get(&bytes("large")), None);
    }
}
