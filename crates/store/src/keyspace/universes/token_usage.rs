//! `directory/token_usage/<id>`: what was brought in with a token, since it was made.
//!
//! Written by `charge_token` for tokens that have a quota on it; removed with the token. It only falls when a request that was
//! charged comes to nothing. Free.

use crate::StoreError;
use crate::keyspace::{DIRECTORY, Family, Key, KeyBuilder, get, put, token::TokenId};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::limits;

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

/// The stored record: the usage, and the changes that led to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct StoredUsage {
    #[n(0)]
    pub worlds: u64,
    #[n(1)]
    pub bytes: u64,
    #[n(2)]
    pub blobs: u64,
    #[n(3)]
    pub programs: u64,
    /// The numbers of the last changes, oldest first: one whose commit got no answer is found here, and not made twice.
    #[n(4)]
    pub changes: Option<Vec<u64>>,
}

impl StoredUsage {
    pub fn usage(&self) -> TokenUsage {
        let Self { worlds, bytes, blobs, programs, .. } = *self;
        TokenUsage { worlds, bytes, blobs, programs }
    }

    pub(crate) fn has(&self, change: u64) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.contains(&change))
    }

    /// The usage after one more change.
    pub(crate) fn after(self, change: u64, usage: TokenUsage) -> Self {
        let TokenUsage { worlds, bytes, blobs, programs } = usage;
        let mut changes = self.changes.unwrap_or_default();
        changes.push(change);
        let forgotten = changes.len().saturating_sub(limits::TOKEN_CHANGES_REMEMBERED);
        changes.drain(..forgotten);
        Self { worlds, bytes, blobs, programs, changes: Some(changes) }
    }
}

pub fn key(id: TokenId) -> Key {
    KeyBuilder::universe(DIRECTORY, Family::TokenUsage).u64(id).key()
}

pub(crate) async fn read<T: Transaction>(tx: &mut T, id: TokenId) -> Result<Option<StoredUsage>, StoreError> {
    get(tx, Family::TokenUsage, &key(id)).await
}

pub(crate) fn write<T: Transaction>(tx: &mut T, id: TokenId, usage: &StoredUsage) -> Result<(), StoreError> {
    put(tx, &key(id), usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(worlds: u64, bytes: u64, blobs: u64, programs: u64, changes: Option<Vec<u64>>, noise: Vec<u8>) {
            let usage = StoredUsage { worlds, bytes, blobs, programs, changes };
            laws::value_survives(Family::TokenUsage, &usage, &noise)?;
        }
    }
}
