//! Shards: which part of a shared queue an item lies in.

use std::fmt;

/// Into how many parts each shared queue is cut, so that claimers do not fight over one key range.
/// Persisted in keys: changing it would orphan what is queued.
pub const SHARDS: u8 = 16;

/// One part of a shared queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard(u8);

impl Shard {
    /// For what has only one.
    pub const FIRST: Self = Self(0);

    /// The shard of whatever has this name. XXH3 is fixed by its specification; the standard library's
    /// hasher may change with every compiler release, and with it would the place of every queued item.
    pub fn of(name: &[u8]) -> Self {
        let place = xxhash_rust::xxh3::xxh3_64(name) % u64::from(SHARDS);
        #[expect(clippy::cast_possible_truncation, reason = "a remainder of a u8")]
        Self(place as u8)
    }

    /// `None` beyond the last shard.
    pub fn new(number: u8) -> Option<Self> {
        (number < SHARDS).then_some(Self(number))
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..SHARDS).map(Self)
    }

    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once a partition was chosen with a hash that changed with the compiler, and queued items were lost.
    #[test]
    fn the_shard_of_a_name_never_changes() {
        let shards = [&b""[..], b"a", &[0; 32], &[7; 16], &[0xff; 32]].map(|name| Shard::of(name).get());
        assert_eq!(shards, [2, 15, 13, 3, 2]);
    }

    #[test]
    fn names_spread_over_all_shards() {
        let mut counts = [0u32; SHARDS as usize];
        for name in 0..16_000u32 {
            counts[usize::from(Shard::of(&name.to_be_bytes()).get())] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
