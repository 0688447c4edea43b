//! The references between objects: what follows from a set of them, and in which order they may go.

use mundi_model::Hash;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The references between objects.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph(BTreeMap<Hash, BTreeSet<Hash>>);

impl Graph {
    pub(super) fn new(edges: BTreeMap<Hash, BTreeSet<Hash>>) -> Self {
        Self(edges)
    }

    fn refs(&self, hash: &Hash) -> impl Iterator<Item = Hash> + '_ {
        self.0.get(hash).into_iter().flatten().copied()
    }

    /// Adds everything that the members of a set refer to, directly or not.
    pub(super) fn close(&self, set: &mut BTreeSet<Hash>) {
        let mut open: Vec<Hash> = set.iter().copied().collect();
        while let Some(hash) = open.pop() {
            open.extend(self.refs(&hash).filter(|hash| set.insert(*hash)));
        }
    }

    /// The members of a set, each before what it refers to; and those that no such order exists for.
    ///
    /// Removed in this order, an object goes only after all that could lead back to it: who puts a removed referrer
    /// again finds that what it refers to is gone, or reprieves it in time.
    pub(super) fn referrers_first(&self, set: &BTreeSet<Hash>) -> (Vec<Hash>, Vec<Hash>) {
        let mut referrers: BTreeMap<Hash, usize> = set.iter().map(|hash| (*hash, 0)).collect();
        for hash in set.iter().flat_map(|hash| self.refs(hash)) {
            if let Some(count) = referrers.get_mut(&hash) {
                *count += 1;
            }
        }
        let mut ready: VecDeque<Hash> =
            referrers.iter().filter(|(_, count)| **count == 0).map(|(hash, _)| *hash).collect();
        let mut ordered = Vec::new();
        while let Some(hash) = ready.pop_front() {
            referrers.remove(&hash);
            ordered.push(hash);
            for referred in self.refs(&hash) {
                let Some(count) = referrers.get_mut(&referred) else { continue };
                *count -= 1;
                if *count == 0 {
                    ready.push_back(referred);
                }
            }
        }
        (ordered, referrers.into_keys().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: u8) -> Hash {
        Hash::of(&[name])
    }

    fn graph(edges: &[(u8, &[u8])]) -> Graph {
        let edge = |(from, to): &(u8, &[u8])| (hash(*from), to.iter().map(|to| hash(*to)).collect());
        Graph::new(edges.iter().map(edge).collect())
    }

    fn set(names: &[u8]) -> BTreeSet<Hash> {
        names.iter().map(|name| hash(*name)).collect()
    }

    #[test]
    fn what_is_referred_to_indirectly_is_reachable() {
        let mut reachable = set(&[1]);
        graph(&[(1, &[2]), (2, &[3, 1]), (4, &[5])]).close(&mut reachable);
        assert_eq!(reachable, set(&[1, 2, 3]));
    }

    #[test]
    fn referrers_come_before_what_they_refer_to_and_circles_stay() {
        let graph = graph(&[(1, &[2, 3]), (2, &[3]), (4, &[5]), (5, &[4, 6])]);
        let (ordered, circular) = graph.referrers_first(&set(&[1, 2, 3, 4, 5, 6]));
        assert_eq!(ordered, [hash(1), hash(2), hash(3)]);
        assert_eq!(circular.into_iter().collect::<BTreeSet<_>>(), set(&[4, 5, 6]), "what a circle needs stays too");
    }
}
