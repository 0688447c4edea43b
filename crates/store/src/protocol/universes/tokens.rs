//! Tokens: write, revoke, list.
//!
//! Guarantees: what a commit says holds for every request that begins after it.
//! Unknown commit: run again; each is idempotent.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, decode_value,
        token::{self, TokenId, TokenRecord},
        token_usage,
    },
};
use mundi_engine::Transaction;
use mundi_model::limits;
use std::collections::BTreeMap;

/// Writes a token; `None` revokes it, and says whether there was one.
#[derive(Debug, Clone)]
pub struct WriteToken {
    pub id: TokenId,
    pub record: Option<TokenRecord>,
}

impl Protocol for WriteToken {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let before = token::read(tx, self.id).await?.is_some();
        match &self.record {
            Some(record) => token::write(tx, self.id, record)?,
            None => {
                tx.delete(token::key(self.id).as_bytes())?;
                tx.delete(token_usage::key(self.id).as_bytes())?;
            }
        }
        Ok(before)
    }
}

/// All tokens: as many as people and services, so the list is read whole.
#[derive(Debug, Clone, Copy)]
pub struct ListTokens;

impl Protocol for ListTokens {
    type Output = BTreeMap<TokenId, TokenRecord>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let page = tx.range(token::prefix().span().read(limits::RANGE_ITEMS_MAX).snapshot()).await?;
        let entry = |(key, bytes): &(bytes::Bytes, bytes::Bytes)| {
            Ok((token::parse(key)?, decode_value(Family::Token, key, bytes)?))
        };
        page.items.iter().map(entry).collect()
    }
}
