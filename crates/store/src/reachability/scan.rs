//! Reading a long range, page by page, each in a transaction of its own.

use super::pace::Pace;
use crate::{StoreError, keyspace::Span};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};

/// Items per transaction: short enough for the age bound of every engine.
const PAGE: usize = 1_000;

/// Calls `each` with every item of a span, no faster than the pace allows. Items that change meanwhile are seen before or after the change.
pub(super) async fn scan<E: Engine>(
    engine: &E,
    pace: &Pace,
    mut span: Span,
    mut each: impl FnMut(&Bytes, &Bytes) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    loop {
        let mut tx = engine.begin().await?;
        let page = tx.range(span.read(PAGE).snapshot()).await?;
        drop(tx);
        for (key, value) in &page.items {
            each(key, value)?;
        }
        pace.after_keys(page.items.len()).await;
        match page.items.last() {
            Some((last, _)) if page.more => span = span.after_bytes(last),
            _ => return Ok(()),
        }
    }
}
