//! The keys that a commit group wrote, as one value: sorted, each as what differs from the one before.
//!
//! Every process reads every footprint, so they are small: keys of one world share most of their bytes.

use crate::recent::Writes;
use bytes::{BufMut, Bytes, BytesMut};
use mundi_model::limits;

/// Of keys in order, without repetition.
pub(super) fn encode<'a>(keys: impl Iterator<Item = &'a Bytes>) -> Vec<u8> {
    let (mut out, mut before) = (Vec::new(), &Bytes::new());
    for key in keys {
        let shared = before.iter().zip(key).take_while(|(one, other)| one == other).count();
        // A key has at most ten thousand bytes.
        out.put_u16(u16::try_from(shared).unwrap_or(u16::MAX));
        out.put_u16(u16::try_from(key.len() - shared).unwrap_or(u16::MAX));
        out.put_slice(&key[shared..]);
        before = key;
    }
    out
}

/// The keys, as writes of unknown value; `None` if these bytes are no footprint.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Writes> {
    let (mut writes, mut before) = (Writes::new(), Bytes::new());
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(4)?;
        let shared = usize::from(u16::from_be_bytes([head[0], head[1]]));
        let (own, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([head[2], head[3]])))?;
        let mut key = BytesMut::with_capacity(shared + own.len());
        key.extend_from_slice(before.get(..shared)?);
        key.extend_from_slice(own);
        if key.len() > limits::KEY_BYTES_MAX || (!before.is_empty() && *key <= *before) {
            return None;
        }
        before = key.freeze();
        writes.push((before.clone(), None));
        bytes = rest;
    }
    Some(writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_come_back(keys in prop::collection::btree_set(prop::collection::vec(0..4u8, 1..40), 0..50)) {
            let keys: Vec<Bytes> = keys.into_iter().map(Bytes::from).collect();
            let read: Vec<Bytes> = decode(&encode(keys.iter())).unwrap().into_iter().map(|(key, _)| key).collect();
            prop_assert_eq!(read, keys);
        }

        #[test]
        fn other_bytes_are_refused_or_are_keys_in_order(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(writes) = decode(&bytes) {
                prop_assert!(writes.windows(2).all(|pair| pair[0].0 < pair[1].0));
            }
        }
    }
}
