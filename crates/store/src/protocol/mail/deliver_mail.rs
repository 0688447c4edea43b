//! Deliver a message of a mailbox into a world's inbox: what was sent with a delay.
//!
//! Guarantees: the item enters the inbox in the transaction in which its message leaves the mailbox, and only for the holder of
//! the message's claim. So it is delivered once, however long its deliverer was away in between: nothing rests on a name
//! that expires. A refusal of the inbox leaves the message where it is.
//! Unknown commit: run again; a message that is gone was delivered by the first run, or finished by whoever claimed it later.

use crate::protocol::{Enqueue, FinishMail, MailFinished, NewItem, enqueue::spill_all};
use crate::{Clock, OnUnknown, Protocol, StoreError, blob::Blobs, run};
use mundi_engine::{Engine, ReadPlan, Transaction};
use mundi_model::WorldId;

/// Moves a large payload to the content store, then delivers. `acknowledge` is for a claim that the caller holds.
pub async fn deliver_mail<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    acknowledge: &FinishMail,
    world: WorldId,
    item: NewItem,
    dedupe_window_ns: u64,
) -> Result<MailFinished, StoreError> {
    let (universe, mut items) = (acknowledge.universe, [item]);
    spill_all(blobs, universe, &mut items).await?;
    let enqueue = Enqueue::new(universe, world, &items, clock.now_ns(), dedupe_window_ns)?;
    Ok(run(engine, clock, &DeliverMail { acknowledge, enqueue }).await?.output)
}

struct DeliverMail<'a> {
    acknowledge: &'a FinishMail,
    enqueue: Enqueue,
}

impl Protocol for DeliverMail<'_> {
    type Output = MailFinished;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        self.acknowledge.read_plan()
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<MailFinished, StoreError> {
        let finished = self.acknowledge.run(tx).await?;
        if finished == MailFinished::Now {
            self.enqueue.run_within(tx).await?;
        }
        Ok(finished)
    }
}
