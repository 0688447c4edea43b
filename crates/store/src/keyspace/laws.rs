//! Rules that hold for every family, as test functions that each family's file calls.

use super::{Family, Key, decode_value};
use crate::StoreError;
use minicbor::{Decode, Encode};
use mundi_model::{
    Code, Coded, Hash, Height, InboxSeq, IntentHash, UniverseId, WorkerId, WorldId, cbor, record::Payload,
};
use proptest::prelude::*;
use std::fmt::Debug;

pub(crate) fn universe() -> UniverseId {
    UniverseId::from_bytes([0x11; 16])
}

pub(crate) fn world() -> WorldId {
    WorldId::from_bytes([0x22; 16])
}

pub(crate) fn worlds() -> impl Strategy<Value = WorldId> {
    any::<[u8; 16]>().prop_map(WorldId::from_bytes)
}

pub(crate) fn hashes() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash::from_bytes)
}

pub(crate) fn intents() -> impl Strategy<Value = IntentHash> {
    any::<[u8; 32]>().prop_map(IntentHash::from_bytes)
}

pub(crate) fn seqs() -> impl Strategy<Value = InboxSeq> {
    any::<[u8; 12]>().prop_map(InboxSeq::from_bytes)
}

pub(crate) fn heights() -> impl Strategy<Value = Height> {
    any::<u64>().prop_map(Height::new)
}

pub(crate) fn workers() -> impl Strategy<Value = WorkerId> {
    (1..=i64::MAX.unsigned_abs()).prop_filter_map("a worker id", WorkerId::new)
}

pub(crate) fn payloads() -> impl Strategy<Value = Payload> {
    prop_oneof![
        any::<Vec<u8>>().prop_map(Payload::Inline),
        (hashes(), any::<u64>()).prop_map(|(hash, len)| Payload::Blob(hash, len)),
    ]
}

/// A written value is read back, and bytes that encode no value are damage: never a panic, never a guess.
pub(crate) fn value_survives<V>(family: Family, value: &V, noise: &[u8]) -> Result<(), TestCaseError>
where
    V: for<'b> Decode<'b, ()> + Encode<()> + PartialEq + Debug,
{
    let bytes = cbor::encode(value);
    let back: V = decode_value(family, b"key", &bytes).expect("what was written");
    prop_assert_eq!(&back, value);
    for damaged in [noise, &bytes[..bytes.len() / 2], &[&bytes[..], noise].concat()] {
        match decode_value::<V>(family, b"key", damaged) {
            Ok(other) => prop_assert_eq!(cbor::encode(&other), damaged),
            Err(error) => prop_assert_eq!(error.code(), Code::StoreCorrupt),
        }
    }
    Ok(())
}

/// Keys compare as what they stand for, and give it back.
pub(crate) fn keys_are_ordered<P: Ord + Debug>(
    (a, b): (P, P),
    key: impl Fn(&P) -> Key,
    parse: impl Fn(&[u8]) -> Result<P, StoreError>,
) -> Result<(), TestCaseError> {
    let keys = (key(&a), key(&b));
    prop_assert_eq!(keys.0.cmp(&keys.1), a.cmp(&b));
    prop_assert_eq!(&parse(keys.0.as_bytes()).expect("a key of the family"), &a);
    let longer = keys.0.successor();
    prop_assert_eq!(parse(longer.as_bytes()).unwrap_err().code(), Code::StoreCorrupt);
    prop_assert!(parse(&keys.0.as_bytes()[..keys.0.as_bytes().len() - 1]).is_err());
    Ok(())
}

/// Keys that end with a name sort by it, and give it back.
pub(crate) fn keys_sort_by_name(
    key: fn(UniverseId, &str) -> Key,
    parse: fn(UniverseId, &[u8]) -> Result<String, StoreError>,
    a: &str,
    b: &str,
) -> Result<(), TestCaseError> {
    let (first, second) = (key(universe(), a), key(universe(), b));
    prop_assert_eq!(first.cmp(&second), a.cmp(b));
    prop_assert_eq!(parse(universe(), first.as_bytes()).expect("what was built"), a);
    Ok(())
}
