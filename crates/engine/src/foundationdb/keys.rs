//! Where a deployment's keys lie in the cluster.
//!
//! ```text
//! NAME / d KEY      a key of the layers above
//! NAME / m WHAT     a key of the engine: the highest version seen, the clock
//! ```
//!
//! A name has no `/`, so no deployment lies within another. Deployments share nothing but the cluster: its order of commits is one, so a
//! stamp is unique in all of them.

use bytes::{BufMut, Bytes, BytesMut};
use mundi_model::Stamp;

const SEPARATOR: u8 = b'/';
const DATA: u8 = b'd';
const OWN: u8 = b'm';

/// The keys of one deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keyspace {
    data: Bytes,
    own: Bytes,
}

impl Keyspace {
    pub(super) fn new(name: &str) -> Self {
        let prefix = |kind| Bytes::from([name.as_bytes(), &[SEPARATOR, kind]].concat());
        Self { data: prefix(DATA), own: prefix(OWN) }
    }

    /// A key, or the bound of a range, as it is stored.
    pub(super) fn stored(&self, key: &[u8]) -> Bytes {
        let mut stored = BytesMut::with_capacity(self.data.len() + key.len());
        stored.put_slice(&self.data);
        stored.put_slice(key);
        stored.freeze()
    }

    /// The key that is stored so; `None` if it is none of this deployment's.
    pub(super) fn key(&self, stored: &[u8]) -> Option<Bytes> {
        stored.strip_prefix(&self.data[..]).map(Bytes::copy_from_slice)
    }

    /// The client's input for a key with a stamp: the key with room for the stamp, and the offset of the room (four bytes,
    /// little-endian), which the client takes off.
    pub(super) fn stamped(&self, prefix: &[u8], suffix: &[u8]) -> Bytes {
        let place = self.data.len() + prefix.len();
        let mut key = BytesMut::with_capacity(place + Stamp::LEN + suffix.len() + size_of::<u32>());
        key.put_slice(&self.data);
        key.put_slice(prefix);
        key.put_bytes(0, Stamp::LEN);
        key.put_slice(suffix);
        key.put_u32_le(u32::try_from(place).unwrap_or(u32::MAX)); // a key has at most ten thousand bytes
        key.freeze()
    }

    /// All keys of the layers above.
    pub(super) fn data_range(&self) -> (Bytes, Bytes) {
        (self.data.clone(), self.stored(&[u8::MAX]))
    }

    pub(super) fn highest_version(&self) -> Bytes {
        [&self.own[..], b"version"].concat().into()
    }

    pub(super) fn clock(&self) -> Bytes {
        [&self.own[..], b"clock"].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction_size::PREFIX_BYTES;
    use mundi_model::limits;
    use proptest::prelude::*;

    /// The bound of FoundationDB on a key; the room for a stamp's place counts.
    const CLUSTER_KEY_BYTES_MAX: usize = 10_000;

    #[test]
    fn the_largest_key_of_the_longest_name_fits_the_cluster() {
        let keys = Keyspace::new(&"n".repeat(limits::ENGINE_PREFIX_BYTES_MAX));
        let largest = vec![b'k'; limits::KEY_BYTES_MAX];
        assert_eq!(keys.stored(b"").len(), PREFIX_BYTES, "what every key is counted with");
        assert!(keys.stored(&largest).len() <= CLUSTER_KEY_BYTES_MAX);
        let stamped = keys.stamped(&largest[Stamp::LEN..], b"");
        assert!(stamped.len() <= CLUSTER_KEY_BYTES_MAX, "{}", stamped.len());
    }

    #[test]
    fn a_stamp_is_put_where_the_key_says() {
        let keys = Keyspace::new("mundi");
        let given = keys.stamped(b"inbox/", b"/7");
        let (key, place) = given.split_at(given.len() - 4);
        let place = u32::from_le_bytes(place.try_into().unwrap()) as usize;
        let mut filled = key.to_vec();
        let stamp = Stamp::new(11, 3);
        filled[place..place + Stamp::LEN].copy_from_slice(stamp.as_bytes());
        let expected = [b"inbox/", &stamp.as_bytes()[..], b"/7"].concat();
        assert_eq!(keys.key(&filled).as_deref(), Some(&expected[..]));
    }

    #[test]
    fn no_deployment_lies_within_another_and_own_keys_are_not_data() {
        let one = Keyspace::new("mundi");
        for name in ["mundi2", "mundid", "mundidd", "mund"] {
            let other = Keyspace::new(name);
            let ((start, end), (other_start, other_end)) = (one.data_range(), other.data_range());
            assert!(end <= other_start || other_end <= start, "{name} lies within mundi, or around it");
            assert_eq!((one.key(&other.stored(b"k")), other.key(&one.stored(b"k"))), (None, None), "{name}");
        }
        for own in [one.highest_version(), one.clock()] {
            let (start, end) = one.data_range();
            assert!(!(start..end).contains(&own));
        }
    }

    proptest! {
        #[test]
        fn keys_come_back_and_keep_their_order(one: Vec<u8>, other: Vec<u8>) {
            let keys = Keyspace::new("a.b-c_9");
            let (stored_one, stored_other) = (keys.stored(&one), keys.stored(&other));
            prop_assert_eq!(stored_one.cmp(&stored_other), one.cmp(&other));
            prop_assert_eq!(keys.key(&stored_one).unwrap(), one);
        }

        #[test]
        fn every_key_of_a_layer_lies_in_the_range_of_data(key in prop::collection::vec(any::<u8>(), 1..50)) {
            prop_assume!(key[0] != u8::MAX);
            let keys = Keyspace::new("mundi");
            let (start, end) = keys.data_range();
            prop_assert!((start..end).contains(&keys.stored(&key)));
        }
    }
}
