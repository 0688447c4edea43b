//! The append that all protocols share: the head must be where the batch starts.

use super::{Batch, JournalError};
use crate::{
    StoreError,
    keyspace::journal_head::{self, JournalHead, Position},
    protocol::explain_missing,
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

/// Whether a batch is still to be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appending {
    Write,
    /// An earlier attempt, whose result was unknown, has appended it: the chain hash proves that it is this
    /// very batch.
    AlreadyThere,
}

/// Decides from the head alone.
pub(crate) fn plan(head: JournalHead, batch: &Batch) -> Result<Appending, JournalError> {
    let start = batch.start();
    if head == start {
        Ok(Appending::Write)
    } else if head == batch.end() {
        Ok(Appending::AlreadyThere)
    } else if head.height != start.height {
        Err(JournalError::HeadAdvanced { expected: start.height, actual: head.height })
    } else {
        Err(JournalError::ChainBroken { height: start.height, expected: head.chain, found: start.chain })
    }
}

/// How far a world that exists has come.
pub(crate) async fn position<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Position, StoreError> {
    match journal_head::read(tx, universe, world).await? {
        Some(position) => Ok(position),
        None => Err(explain_missing(tx, universe, world).await?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{Hash, Height, record::Body};

    fn head(height: u64, chain: &[u8]) -> JournalHead {
        JournalHead { height: Height::new(height), chain: Hash::of(chain) }
    }

    #[test]
    fn a_batch_is_appended_at_its_place_once() {
        let batch = Batch::from_bodies(head(5, b"c"), [Body::OutcomeDigest(Hash::of(b""))]).unwrap();
        assert_eq!(plan(head(5, b"c"), &batch), Ok(Appending::Write));
        assert_eq!(plan(batch.end(), &batch), Ok(Appending::AlreadyThere));
    }

    #[test]
    fn another_head_is_a_typed_conflict_and_another_chain_is_broken() {
        let batch = Batch::from_bodies(head(5, b"c"), [Body::OutcomeDigest(Hash::of(b""))]).unwrap();
        for actual in [4, 6, 9] {
            let expected = JournalError::HeadAdvanced { expected: Height::new(5), actual: Height::new(actual) };
            assert_eq!(plan(head(actual, b"other"), &batch), Err(expected));
        }
        assert!(matches!(plan(head(5, b"other"), &batch), Err(JournalError::ChainBroken { .. })));
    }
}
