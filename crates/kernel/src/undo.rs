//! A map that can go back: changes are made in place and remembered until they are kept or undone.
//!
//! A failed step goes back to where the step began, an abandoned turn to where the turn began. The usual
//! case, success, costs one entry in a list.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

#[derive(Debug, Clone)]
pub(crate) struct UndoMap<K, V> {
    map: BTreeMap<K, V>,
    /// The value of a key before each change, the oldest change first.
    log: Vec<(K, Option<V>)>,
}

/// A point to go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize);

impl<K: Ord + Clone, V> UndoMap<K, V> {
    pub(crate) fn new(map: BTreeMap<K, V>) -> Self {
        Self { map, log: Vec::new() }
    }

    pub(crate) fn map(&self) -> &BTreeMap<K, V> {
        &self.map
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        let before = self.map.insert(key.clone(), value);
        self.log.push((key, before));
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        V: Clone,
    {
        let (key, before) = self.map.remove_entry(key)?;
        self.log.push((key, Some(before.clone())));
        Some(before)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    pub(crate) fn undo_to(&mut self, mark: Mark) {
        for (key, before) in self.log.drain(mark.0..).rev() {
            match before {
                Some(value) => self.map.insert(key, value),
                None => self.map.remove(&key),
            };
        }
    }

    /// There is no way back from here.
    pub(crate) fn keep(&mut self) {
        self.log.clear();
    }

    pub(crate) fn changed_since(&self, mark: Mark) -> BTreeSet<&K> {
        self.log[mark.0..].iter().map(|(key, _)| key).collect()
    }

    /// Takes the whole content out, and keeps that.
    pub(crate) fn take(&mut self) -> BTreeMap<K, V> {
        self.keep();
        std::mem::take(&mut self.map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn undoing_gives_back_what_was_there_at_the_mark(
            before in prop::collection::vec((0u8..8, any::<Option<u8>>()), 0..20),
            after in prop::collection::vec((0u8..8, any::<Option<u8>>()), 0..20),
        ) {
            let mut map = UndoMap::new(BTreeMap::new());
            let apply = |map: &mut UndoMap<u8, u8>, changes: &[(u8, Option<u8>)]| {
                for &(key, value) in changes {
                    match value {
                        Some(value) => map.insert(key, value),
                        None => { map.remove(&key); }
                    }
                }
            };
            apply(&mut map, &before);
            let (mark, expected) = (map.mark(), map.map().clone());
            apply(&mut map, &after);
            map.undo_to(mark);
            prop_assert_eq!(map.map(), &expected);
            map.undo_to(Mark(0));
            prop_assert!(map.map().is_empty());
        }
    }
}
