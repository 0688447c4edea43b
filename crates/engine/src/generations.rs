//! A two-generation cache: entries go into the young generation, a hit in the old one promotes the entry, and when the young one is full it
//! becomes the old one, whose entries are dropped. So what is used stays, and what is not goes, without a list to keep in order.
//!
//! Both caches of values (`embedded/key_cache.rs`, `postgres/value_cache.rs`) are made of it. What an entry means, and until when it is true,
//! is theirs: they replace and drop entries by key and version under a lock of their own, which the caches of crates do not let them do.

use bytes::Bytes;
use hashbrown::HashTable;
use std::mem;

/// The cached value of a key.
struct Entry<V> {
    /// Of the key, which is hashed once for each question.
    hash: u64,
    key: Bytes,
    value: V,
    weight: usize,
}

pub(crate) struct Generations<V> {
    young: Generation<V>,
    old: Generation<V>,
    /// The weight that each generation may have.
    weight_max: usize,
}

struct Generation<V> {
    entries: HashTable<Entry<V>>,
    weight: usize,
}

impl<V> Default for Generation<V> {
    fn default() -> Self {
        Self { entries: HashTable::new(), weight: 0 }
    }
}

impl<V> Generations<V> {
    pub(crate) fn new(weight_max: usize) -> Self {
        Self { young: Generation::default(), old: Generation::default(), weight_max }
    }

    /// Reads a key's value; a hit in the old generation promotes the entry.
    pub(crate) fn get<R>(&mut self, hash: u64, key: &[u8], read: impl FnOnce(&V) -> R) -> Option<R> {
        if let Some(value) = self.young.find(hash, key) {
            return Some(read(value));
        }
        let entry = self.old.take(hash, key)?;
        let found = read(&entry.value);
        self.add(entry);
        Some(found)
    }

    /// Reads a key's value without promoting it.
    #[cfg(any(feature = "postgres", test))]
    pub(crate) fn peek(&self, hash: u64, key: &[u8]) -> Option<&V> {
        self.young.find(hash, key).or_else(|| self.old.find(hash, key))
    }

    pub(crate) fn take(&mut self, hash: u64, key: &[u8]) -> Option<(Bytes, V)> {
        let entry = self.young.take(hash, key).or_else(|| self.old.take(hash, key))?;
        Some((entry.key, entry.value))
    }

    /// Adds what is in neither generation.
    pub(crate) fn insert(&mut self, hash: u64, key: Bytes, value: V, weight: usize) {
        self.add(Entry { hash, key, value, weight });
    }

    fn add(&mut self, entry: Entry<V>) {
        if self.young.weight >= self.weight_max {
            self.old = mem::take(&mut self.young);
        }
        self.young.weight += entry.weight;
        self.young.entries.insert_unique(entry.hash, entry, |entry| entry.hash);
    }
}

impl<V> Generation<V> {
    fn find(&self, hash: u64, key: &[u8]) -> Option<&V> {
        self.entries.find(hash, |entry| entry.key == key).map(|entry| &entry.value)
    }

    fn take(&mut self, hash: u64, key: &[u8]) -> Option<Entry<V>> {
        let (entry, _) = self.entries.find_entry(hash, |entry| entry.key == key).ok()?.remove();
        self.weight -= entry.weight;
        Some(entry)
    }
}

#[cfg(test)]
impl<V> Generations<V> {
    /// The weight of each generation.
    pub(crate) fn weights(&self) -> [usize; 2] {
        [&self.young, &self.old].map(|generation| {
            assert_eq!(generation.entries.iter().map(|entry| entry.weight).sum::<usize>(), generation.weight);
            generation.weight
        })
    }
}
