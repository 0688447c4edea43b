//! Put a parent on hold whose children contradict each other.
//!
//! Guarantees: nobody acquires the world and none of its children is dispatched until an operator releases it. Its holder loses it. The first
//! hold stays. Nothing is healed.
//! Unknown commit: run again; it is idempotent.

use crate::protocol::{release_lease::clear_holder, require_world};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        journal_head,
        lease::{self, Lease},
        ready,
        world_meta::{self, Hold, WorldMeta},
    },
};
use mundi_engine::Transaction;
use mundi_model::{Code, Height, UniverseId, WorldId, limits};

#[derive(Debug, Clone)]
pub struct HoldParent {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub code: Code,
    pub reason: String,
    pub now_ns: u64,
}

impl Protocol for HoldParent {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, parent, .. } = *self;
        let meta = require_world(tx, universe, parent).await?;
        if meta.hold.is_some() || meta.state.is_gone() {
            return Ok(());
        }
        let position = journal_head::read(tx, universe, parent).await?;
        let hold = Hold {
            since_ns: self.now_ns,
            code: self.code.to_string(),
            reason: self.reason[..self.reason.floor_char_boundary(limits::REASON_BYTES_MAX)].to_owned(),
            failures: 1,
            height: position.map_or(Height::GENESIS, |position| position.head.height),
            seq: None,
            failed_input: None,
        };
        if let Some(Lease { epoch, holder: Some(_), .. }) = lease::read(tx, universe, parent).await? {
            clear_holder(tx, universe, parent, epoch)?;
        }
        ready::remove(tx, universe, parent, meta.ready_priority())?;
        let after = WorldMeta { hold: Some(hold), ..meta.clone() };
        world_meta::write(tx, universe, parent, Some(&meta), &after)
    }
}
