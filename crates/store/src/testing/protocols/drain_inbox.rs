//! Drain an inbox to the journal, in one transaction: a turn of a world whose program does nothing. Production reads (`read_turn`), executes
//! and commits (`commit_turn`).
//!
//! Guarantees: every item is appended at most once, in sequence order, and none is lost: items, head and cursor
//! move in one transaction.
//! Unknown commit: run again; the cursor that moved keeps the second run from repeating items. So the second run
//! drains what came since, or finds no work.

use crate::protocol::{CommitTurn, Consumed, InProcess, ReadTurn, TurnInput, TurnItem};
use crate::{
    Damaged, Fence, OnUnknown, Protocol, StoreError,
    journal::Batch,
    keyspace::{Family, journal_head::JournalHead, manifest_at},
};
use mundi_engine::Transaction;
use mundi_model::{
    Hash,
    record::{Body, Ingress, Stamps},
};
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
pub struct DrainInbox {
    pub fence: Fence,
    pub items_max: usize,
    pub bytes_max: usize,
    pub now_ns: u64,
    /// Each item's entropy is derived from this and from its sequence.
    pub seed: [u8; 16],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    Idle,
    Moved { items: usize, head: JournalHead, more: bool },
}

impl Protocol for DrainInbox {
    type Output = Drained;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Drained, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let Self { fence, items_max, bytes_max, .. } = *self;
        let read = ReadTurn { fence, cursor_seen: None, items_max, bytes_max };
        let TurnInput { head, cursor, items, end, .. } = read.run(tx).await?;
        let Some(consumed) = Consumed::of(&items, None) else { return Ok(Drained::Idle) };
        let manifest = manifest_at::read(tx, universe, world, head.height).await?.ok_or_else(|| {
            let (key, cause) =
                (manifest_at::key(universe, world, head.height), "no manifest is set here or below".to_owned());
            Damaged::new(Family::ManifestAt, key.as_bytes(), cause)
        })?;
        let count = items.len();
        let records = Batch::from_bodies(head, plan(self, manifest, items))?;
        let turn = CommitTurn {
            fence: self.fence,
            cursor,
            consumed: Some(consumed),
            records,
            effects: Vec::new(),
            timers: Vec::new(),
            receipts: Vec::new(),
            expects_end: None,
            in_process: InProcess::default(),
            logs: Vec::new(),
            authorities: Vec::new(),
            paused: None,
            ready: false,
            now_ns: self.now_ns,
        };
        let committed = turn.run(tx).await?;
        Ok(Drained::Moved { items: count, head: committed.head, more: end.is_none() })
    }
}

/// One record per item, in order.
fn plan(drain: &DrainInbox, manifest: Hash, items: Vec<TurnItem>) -> impl Iterator<Item = Body> {
    let (now_ns, seed) = (drain.now_ns, drain.seed);
    items.into_iter().map(move |TurnItem { seq, item, .. }| {
        let (mut entropy, item) = ([0; 16], Arc::unwrap_or_clone(item));
        let hash = Hash::of_parts([&seed[..], seq.as_bytes()]);
        entropy.copy_from_slice(&hash.as_bytes()[..16]);
        let stamps = Stamps { now_ns, logical_now_ns: now_ns, entropy, manifest, schema_work_max: None };
        Body::Ingress(Ingress::new(stamps, seq, item))
    })
}
