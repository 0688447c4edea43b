//! `u/<u>/w/<w>/children/requests/<name>`: a request of a client that changed something, so that it is recognized when it comes again.
//!
//! Written by `set_budget`, `cancel_child` and the note of a spawn. Immutable until its window is over; then removed through
//! [`dedupe_bucket`](crate::keyspace::dedupe_bucket), or written anew if the same name comes again.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, Span, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId, WorldId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChildRequest {
    /// Of the payload.
    #[n(0)]
    pub payload: Hash,
    #[n(1)]
    pub expires_at_ns: u64,
    /// The answer that was given.
    #[n(2)]
    pub answer: String,
}

/// `name` covers the endpoint and the `client_request_id`.
pub fn key(universe: UniverseId, parent: WorldId, name: Hash) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildRequest).bytes(name.as_bytes()).key()
}

/// All requests of a parent.
pub fn all(universe: UniverseId, parent: WorldId) -> Span {
    KeyBuilder::world(universe, parent, Family::ChildRequest).key().span()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    name: Hash,
) -> Result<Option<ChildRequest>, StoreError> {
    get(tx, Family::ChildRequest, &key(universe, parent, name)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    name: Hash,
    request: &ChildRequest,
) -> Result<(), StoreError> {
    put(tx, &key(universe, parent, name), request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(payload in laws::hashes(), expires_at_ns: u64, answer: String, noise: Vec<u8>) {
            laws::value_survives(Family::ChildRequest, &ChildRequest { payload, expires_at_ns, answer }, &noise)?;
        }
    }
}
