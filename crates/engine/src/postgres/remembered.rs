//! Values that this process has read or written lately, as long as nobody else has written them: what a worker asks for again with
//! every turn of its worlds. Bounded: what was not asked for in a while is forgotten.

use bytes::Bytes;
use std::collections::BTreeMap;

/// Some keys of each of some ten thousand worlds.
const KEYS_MAX: usize = 65_536;
/// Larger values are rarely asked for twice.
const VALUE_BYTES_MAX: usize = 1_024;

/// A value, and the version that it was known at.
type Known = (Option<Bytes>, u64);

/// Two generations: what is asked for moves to the young one, and when that is full, the old one goes.
#[derive(Default)]
pub(super) struct Remembered {
    young: BTreeMap<Bytes, Known>,
    old: BTreeMap<Bytes, Known>,
}

impl Remembered {
    pub(super) fn contains(&self, key: &Bytes) -> bool {
        self.young.contains_key(key) || self.old.contains_key(key)
    }

    pub(super) fn get(&mut self, key: &Bytes) -> Option<Option<Bytes>> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, (value, version)) = self.old.remove_entry(key)?;
        self.insert(key, value.clone(), version);
        Some(value)
    }

    /// Unless a later value is known.
    pub(super) fn put(&mut self, key: Bytes, value: Option<Bytes>, version: u64) {
        let known = self.young.get(&key).or_else(|| self.old.get(&key));
        if known.is_some_and(|(_, known)| *known > version) {
            return;
        }
        self.old.remove(&key);
        self.young.remove(&key);
        if value.as_ref().is_none_or(|value| value.len() <= VALUE_BYTES_MAX) {
            // A value is a part of what a whole page of answers was read into: a copy of its own does not hold on to that.
            self.insert(key, value.map(|value| Bytes::copy_from_slice(&value)), version);
        }
    }

    /// It was written with this version, and how is not known.
    pub(super) fn forget(&mut self, key: &Bytes, version: u64) {
        for generation in [&mut self.young, &mut self.old] {
            if generation.get(key).is_some_and(|(_, known)| *known < version) {
                generation.remove(key);
            }
        }
    }

    fn insert(&mut self, key: Bytes, value: Option<Bytes>, version: u64) {
        if self.young.len() >= KEYS_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, (value, version));
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
        let mut remembered = Remembered::default();
        remembered.put(bytes("k"), Some(bytes("7")), 7);
        remembered.forget(&bytes("k"), 7);
        assert_eq!(remembered.get(&bytes("k")), Some(Some(bytes("7"))), "it was known with that write");
        remembered.put(bytes("k"), Some(bytes("6")), 6);
        assert_eq!(remembered.get(&bytes("k")), Some(Some(bytes("7"))), "news from the past");
        remembered.forget(&bytes("k"), 8);
        assert_eq!(remembered.get(&bytes("k")), None);
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut remembered = Remembered::default();
        remembered.put(bytes("asked"), None, 1);
        for number in 0..3 * KEYS_MAX as u64 {
            remembered.put(Bytes::copy_from_slice(&number.to_be_bytes()), None, 1);
            assert!(remembered.get(&bytes("asked")).is_some());
        }
        assert!(remembered.young.len() + remembered.old.len() <= KEYS_MAX);
        remembered.put(bytes("large"), Some(Bytes::from(vec![0; VALUE_BYTES_MAX + 1])), 1);
        assert_eq!(remembered.get(&bytes("large")), None);
    }
}
