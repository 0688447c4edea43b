//! The writes of a transaction, ordered by key.
//!
//! Most transactions write a handful of keys, or many in order. For those a sorted vector is several times
//! cheaper than a tree; one that writes many keys in disorder gets the tree.

use crate::overlay::Write;
use bytes::Bytes;
use smallvec::SmallVec;
use std::{collections::BTreeMap, ops::Bound};

/// How often a write may be put in between others before the vector costs more than a tree.
const INSERTIONS_MAX: usize = 64;

/// Room for what most transactions write that write more than one key, so that it is made once.
const WRITES_USUAL: usize = 8;

#[derive(Debug, Clone)]
pub(crate) enum WriteSet {
    /// In order, and how often one was put in between. A single one takes no memory of its own.
    Sorted(SmallVec<[(Bytes, Write); 1]>, usize),
    Tree(BTreeMap<Bytes, Write>),
}

impl Default for WriteSet {
    fn default() -> Self {
        Self::Sorted(SmallVec::new(), 0)
    }
}

impl WriteSet {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Sorted(writes, _) => writes.is_empty(),
            Self::Tree(writes) => writes.is_empty(),
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Write> {
        match self {
            Self::Sorted(writes, _) => {
                let place = writes.binary_search_by(|(stored, _)| stored[..].cmp(key)).ok()?;
                Some(&writes[place].1)
            }
            Self::Tree(writes) => writes.get(key),
        }
    }

    pub(crate) fn insert(&mut self, key: Bytes, write: Write) {
        match self {
            Self::Sorted(writes, _) if writes.last().is_none_or(|(last, _)| *last < key) => {
                if writes.len() == 1 {
                    writes.reserve(WRITES_USUAL - 1);
                }
                writes.push((key, write));
            }
            Self::Sorted(writes, insertions) => match writes.binary_search_by(|(stored, _)| stored.cmp(&key)) {
                Ok(place) => writes[place].1 = write,
                Err(place) if *insertions < INSERTIONS_MAX => {
                    writes.insert(place, (key, write));
                    *insertions += 1;
                }
                Err(_) => {
                    let mut tree: BTreeMap<_, _> = writes.drain(..).collect();
                    tree.insert(key, write);
                    *self = Self::Tree(tree);
                }
            },
            Self::Tree(writes) => {
                writes.insert(key, write);
            }
        }
    }

    /// Takes out every write in `start..end`.
    pub(crate) fn remove_range(&mut self, start: &Bytes, end: &Bytes) {
        match self {
            Self::Sorted(writes, _) => writes.retain(|(key, _)| *key < *start || *key >= *end),
            Self::Tree(writes) => writes.retain(|key, _| key < start || key >= end),
        }
    }

    /// The writes in `start..end`, in order or against it.
    pub(crate) fn range<'a>(
        &'a self,
        start: &Bytes,
        end: &Bytes,
        reverse: bool,
    ) -> Box<dyn Iterator<Item = (&'a Bytes, &'a Write)> + 'a> {
        match self {
            Self::Sorted(writes, _) => {
                let from = writes.partition_point(|(key, _)| key < start);
                let to = writes.partition_point(|(key, _)| key < end).max(from);
                let found = writes[from..to].iter().map(|(key, write)| (key, write));
                if reverse { Box::new(found.rev()) } else { Box::new(found) }
            }
            Self::Tree(writes) => {
                let found = writes.range::<Bytes, _>((Bound::Included(start), Bound::Excluded(end.max(start))));
                if reverse { Box::new(found.rev()) } else { Box::new(found) }
            }
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = (&Bytes, &Write)> + '_> {
        match self {
            Self::Sorted(writes, _) => Box::new(writes.iter().map(|(key, write)| (key, write))),
            Self::Tree(writes) => Box::new(writes.iter()),
        }
    }

    pub(crate) fn into_writes(self) -> SmallVec<[(Bytes, Write); 1]> {
        match self {
            Self::Sorted(writes, _) => writes,
            Self::Tree(writes) => writes.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vector_and_tree_behave_alike(keys in prop::collection::vec(any::<u8>(), 0..200), cut: (u8, u8)) {
            let key = |byte: u8| Bytes::copy_from_slice(&[byte]);
            let (mut set, mut map) = (WriteSet::default(), BTreeMap::new());
            for (index, byte) in (0i64..).zip(keys) {
                set.insert(key(byte), Write::Add(index));
                map.insert(key(byte), Write::Add(index));
            }
            let (start, end) = (key(cut.0.min(cut.1)), key(cut.0.max(cut.1)));
            let cloned = |found: Box<dyn Iterator<Item = (&Bytes, &Write)> + '_>| found.map(|(key, write)| (key.clone(), write.clone())).collect::<Vec<_>>();
            let expected: Vec<_> = map.range(start.clone()..end.clone()).map(|(key, write)| (key.clone(), write.clone())).collect();
            prop_assert_eq!(cloned(set.range(&start, &end, false)), expected.clone());
            prop_assert_eq!(cloned(set.range(&start, &end, true)), expected.into_iter().rev().collect::<Vec<_>>());
            set.remove_range(&start, &end);
            map.retain(|key, _| *key < start || *key >= end);
            prop_assert!(map.iter().all(|(key, write)| set.get(key) == Some(write)));
            prop_assert_eq!(set.into_writes().into_vec(), map.into_iter().collect::<Vec<_>>());
        }
    }
}
