//! `directory/token_usage/<id>`: what was brought in with a token, since it was made.
//!
//! Written by `charge_token` for tokens that have a quota on it; removed with the token. It only falls when a request that was
//! charged comes to nothing.

use crate::StoreError;
use crate::keyspace::{DIRECTORY, Family, Key, KeyBuilder, get, put, token::TokenId};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct TokenUsage {
    #[n(0)]
    pub worlds: u64,
    #[n(1)]
    pub bytes: u64,
    #[n(2)]
    pub blobs: u64,
    #[n(3)]
    pub programs: u64,
}

pub fn key(id: TokenId) -> Key {
    KeyBuilder::universe(DIRECTORY, Family::TokenUsage).u64(id).key()
}

pub(crate) async fn read<T: Transaction>(tx: &mut T, id: TokenId) -> Result<Option<TokenUsage>, StoreError> {
    get(tx, Family::TokenUsage, &key(id)).await
}

pub(crate) fn write<T: Transaction>(tx: &mut T, id: TokenId, usage: &TokenUsage) -> Result<(), StoreError> {
    put(tx, &key(id), usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(worlds: u64, bytes: u64, blobs: u64, programs: u64, noise: Vec<u8>) {
            let usage = TokenUsage { worlds, bytes, blobs, programs };
            laws::value_survives(Family::TokenUsage, &usage, &noise)?;
        }
    }
}
