//! Queue shards: the part of a shared queue that holds one kind of work in one shard.

use super::Shard;
use mundi_model::IntentHash;

/// All items of one kind in one shard. A worker looks only into the queue shards of the kinds that it serves, so a kind that
/// nobody serves, or that is slow, is never in the way of another.
///
/// The kind stands in keys by its hash. Two kinds that share one also share a queue shard, and lose nothing but speed: each
/// item says its own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueShard {
    pub(super) kind: u64,
    pub(super) shard: Shard,
}

impl QueueShard {
    pub fn new(kind: &str, shard: Shard) -> Self {
        Self { kind: kind_hash(kind), shard }
    }

    /// The queue shard of the same kind in another shard.
    pub(crate) fn in_shard(self, shard: Shard) -> Self {
        Self { shard, ..self }
    }

    /// Where an intent of this kind lies.
    pub fn of(kind: &str, intent: IntentHash) -> Self {
        Self::new(kind, Shard::of(intent.as_bytes()))
    }

    /// All queue shards of a kind, from a shard on, around: workers that begin at different ones rarely meet.
    pub fn all(kind: &str, first: Shard) -> impl Iterator<Item = Self> {
        let kind = kind_hash(kind);
        let (below, from) = Shard::all().partition::<Vec<_>, _>(|shard| *shard < first);
        from.into_iter().chain(below).map(move |shard| Self { kind, shard })
    }

    pub fn shard(self) -> Shard {
        self.shard
    }
}

/// XXH3 is fixed by its specification, as [`Shard::of`] needs it too.
pub(super) fn kind_hash(kind: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(kind.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_shard_of_a_kind_never_changes() {
        assert_eq!(kind_hash("http.request"), 0x353f_6f28_7a2a_49f6);
    }

    #[test]
    fn all_queue_shards_are_visited_once_from_any_shard_on() {
        let first = Shard::of(b"x");
        let queue_shards: Vec<_> = QueueShard::all("k", first).collect();
        assert_eq!(queue_shards.first().map(|queue_shard| queue_shard.shard()), Some(first));
        let mut shards: Vec<_> = queue_shards.iter().map(|queue_shard| queue_shard.shard()).collect();
        shards.sort();
        assert_eq!(shards, Shard::all().collect::<Vec<_>>());
    }
}
