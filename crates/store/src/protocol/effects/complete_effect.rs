//! Complete an effect.
//!
//! Guarantees: one transaction puts the receipt into the world's inbox, marks the intent as complete and removes the
//! item, and only if the claim is still held under the same token. So an intent has exactly one terminal receipt, and a
//! slow worker whose claim was reaped acknowledges nothing. The claim is compared before anything is written.
//! Unknown commit: run again; an intent that is complete means that the first run was applied, or that someone else
//! answered: either way there is the one receipt. An intent that nobody waits for any more is over as well: the first run dropped
//! it, or a turn with an unknown result took the receipt before this was tried. A claim is lost only if another attempt follows.

use crate::protocol::{
    ClaimedEffect, EffectClaim, EffectError, WokenBy,
    enqueue::{reads_of, spill_payload},
    settle_effect::{Held, Terminal, answer, remove_withdrawn},
};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    blob::Blobs,
    keyspace::{inbox_dedupe::DedupeId, ready},
    run,
};
use mundi_engine::{Engine, Read, ReadPlan, Source, Transaction};
use mundi_model::{
    Hash, cbor, limits,
    record::{Operator, Payload, ReceiptStatus},
};

/// The answer of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: ReceiptStatus,
    /// Canonical CBOR.
    pub payload: Payload,
    /// Which adapter it comes from.
    pub adapter: String,
    pub signature: Option<Vec<u8>>,
    /// The operator who answers instead of an adapter.
    pub operator: Option<Operator>,
}

impl Answer {
    pub fn new(status: ReceiptStatus, payload: Payload, adapter: impl Into<String>) -> Self {
        Self { status, payload, adapter: adapter.into(), signature: None, operator: None }
    }

    /// An operator's answer.
    pub fn by_operator(status: ReceiptStatus, payload: Payload, operator: Operator) -> Self {
        Self { operator: Some(operator), ..Self::new(status, payload, "operator") }
    }

    /// The hash that tells an operator's answer from every other: the same one may be given again.
    pub(in crate::protocol) fn by_hand(&self) -> Option<Hash> {
        let operator = self.operator.as_ref()?;
        Some(Hash::of(&cbor::encode(&("mundi.answer.1", self.status, &self.payload, operator))))
    }
}

/// Moves a large payload to the content store, then completes.
pub async fn complete_effect<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    claimed: &ClaimedEffect,
    mut answer: Answer,
    woken_by: WokenBy,
) -> Result<Completed, StoreError> {
    spill_payload(blobs, claimed.proof.universe, &mut answer.payload).await?;
    let dedupe_window_ns = limits::DEDUPE_WINDOW_NS;
    let (claim, now_ns) = (claimed.proof, clock.now_ns());
    let complete = CompleteEffect { claim, answer, now_ns, dedupe_window_ns, woken_by };
    Ok(run(engine, clock, &complete).await?.output)
}

#[derive(Debug, Clone)]
pub struct CompleteEffect {
    pub claim: EffectClaim,
    pub answer: Answer,
    pub now_ns: u64,
    pub dedupe_window_ns: u64,
    pub woken_by: WokenBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// The receipt is in the inbox.
    Delivered,
    /// Nobody waits for it any more.
    Dropped,
    /// The effect was over before: its intent has a receipt, or nobody waits for one. Perhaps by a commit of the same holder.
    Before,
}

impl CompleteEffect {
    /// The claim, and what the receipt's way into the inbox reads: one trip where there is a line between.
    fn reads(&self) -> Vec<Read> {
        let EffectClaim { universe, world, intent, .. } = self.claim;
        let mut reads: Vec<_> = reads_of(universe, world, [DedupeId::receipt(intent)]).collect();
        reads.extend(Held::reads(&self.claim));
        if self.woken_by == WokenBy::Sender {
            reads.push(ready::key(universe, ready::PRIORITY_NORMAL, world).planned());
        }
        reads
    }
}

impl Protocol for CompleteEffect {
    type Output = Completed;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    /// All that it reads it depends on, and those that end at a time read together.
    fn source(&self) -> Source {
        Source::Cache
    }

    fn read_plan(&self) -> ReadPlan {
        ReadPlan::reads(self.reads())
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Completed, StoreError> {
        match self.claim.held(tx).await? {
            Held::Mine(held) => {
                let Self { now_ns, dedupe_window_ns, woken_by, .. } = *self;
                let terminal = Terminal {
                    answer: self.answer.clone(),
                    now_ns,
                    dedupe_window_ns,
                    receipts_before: 0,
                    was_tried: held.claim.attempt > 1,
                    failed: None,
                    woken_by,
                };
                let delivered = answer(tx, &self.claim, &held.item, terminal).await?;
                Ok(if delivered { Completed::Delivered } else { Completed::Dropped })
            }
            Held::Withdrawn(held) => remove_withdrawn(tx, &self.claim, held.is_in_slot()).map(|()| Completed::Dropped),
            Held::Answered | Held::Over => Ok(Completed::Before),
            Held::Lost => {
                let EffectClaim { world, intent, .. } = self.claim;
                Err(EffectError::ClaimLost { world, intent }.into())
            }
        }
    }
}
