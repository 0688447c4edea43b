//! Change the labels of a world.
//!
//! Guarantees: the labels, their entries in the index and the command that says so in the journal are written in one transaction; the world journals
//! the command with its next turn. Commands stand in the inbox in the order in which labels changed. A change that changes nothing writes nothing.
//! Unknown commit: run again; labels that are set already are not set again.

use crate::protocol::{Enqueue, NewItem, WorldError, require_live};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::world_meta::{self, WorldMeta},
};
use mundi_engine::Transaction;
use mundi_model::{
    LabelChange, Labels, UniverseId, WorldId, cbor, limits,
    mutants::{Mutant, planted},
    record::{InboxItem, Input, Origin, Payload},
};

#[derive(Debug, Clone)]
pub struct LabelWorld {
    pub universe: UniverseId,
    pub world: WorldId,
    pub change: LabelChange,
    pub now_ns: u64,
}

/// The command by which a change is journaled.
pub(super) fn command(change: &LabelChange, now_ns: u64) -> InboxItem {
    let payload = Payload::Inline(cbor::encode(change));
    InboxItem {
        input: Input::Control { command: LabelChange::COMMAND.to_owned(), payload },
        origin: Origin::new(now_ns),
    }
}

impl Protocol for LabelWorld {
    /// The labels after the change.
    type Output = Labels;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Labels, StoreError> {
        let Self { universe, world, change, now_ns } = self;
        let meta = require_live(tx, *universe, *world).await?;
        let before = meta.labels.clone().unwrap_or_default();
        let labels = before.after(change).map_err(WorldError::from)?;
        if labels == before {
            return Ok(labels);
        }
        let stored = Some(labels.clone()).filter(|labels| !labels.is_empty());
        let after = WorldMeta { labels: stored, ..meta.clone() };
        world_meta::write(tx, *universe, *world, Some(&meta), &after)?;
        if planted(Mutant::LabelUnjournaled) {
            return Ok(labels);
        }
        let new = NewItem { item: command(change, *now_ns), dedupe: None };
        Enqueue::new(*universe, *world, &[new], *now_ns, limits::DEDUPE_WINDOW_NS)?.run_within(tx).await?;
        Ok(labels)
    }
}
