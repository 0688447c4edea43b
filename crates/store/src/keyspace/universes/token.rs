//! `directory/tokens/<id>`: tokens of the API.
//!
//! Only the hash of a token's secret is kept. Written by `write_token`; a revoked one is deleted. Free.

use crate::StoreError;
use crate::keyspace::{DIRECTORY, Family, Key, KeyBuilder, KeyReader, get, put, quotas::Quotas};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

/// The public half of a token: names it in lists and logs.
pub type TokenId = u64;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TokenRecord {
    /// Of the secret half.
    #[n(0)]
    pub secret: Hash,
    /// `None` for all universes.
    #[n(1)]
    pub universe: Option<UniverseId>,
    /// The bits of its verbs; the server knows their meaning.
    #[n(2)]
    pub verbs: u32,
    #[n(3)]
    pub created_at_ns: u64,
    /// For people.
    #[n(4)]
    pub label: String,
    /// Its quotas; those that are absent are as configured.
    #[n(5)]
    pub quotas: Option<Quotas>,
}

pub fn key(id: TokenId) -> Key {
    KeyBuilder::universe(DIRECTORY, Family::Token).u64(id).key()
}

pub fn prefix() -> Key {
    Family::Token.prefix(DIRECTORY)
}

pub(crate) fn parse(key: &[u8]) -> Result<TokenId, StoreError> {
    let mut reader = KeyReader::after(Family::Token, &prefix(), key)?;
    let id = reader.u64()?;
    reader.end(id)
}

pub async fn read<T: Transaction>(tx: &mut T, id: TokenId) -> Result<Option<TokenRecord>, StoreError> {
    get(tx, Family::Token, &key(id)).await
}

pub(crate) fn write<T: Transaction>(tx: &mut T, id: TokenId, record: &TokenRecord) -> Result<(), StoreError> {
    put(tx, &key(id), record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_id(a: u64, b: u64) {
            laws::keys_are_ordered((a, b), |id| key(*id), parse)?;
        }

        #[test]
        fn the_value_survives(secret in laws::hashes(), verbs: u32, created_at_ns: u64, label: String, calls_max: Option<u64>, noise: Vec<u8>) {
            let quotas = calls_max.map(|_| Quotas { calls_max, ..Quotas::default() });
            let record = TokenRecord { secret, universe: Some(laws::universe()), verbs, created_at_ns, label, quotas };
            laws::value_survives(Family::Token, &record, &noise)?;
        }
    }
}
