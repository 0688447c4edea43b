//! Items that reach a world of this process without an entry in its inbox.
//!
//! An inbox entry exists so that an acknowledged item survives its sender and finds its world. A sender in the process of the
//! world can wait instead until the turn that takes the item is durable: one commit, not two. Nothing is acknowledged before
//! that commit. An item that no turn takes, or that no turn has begun to take in time, goes back to its sender, which puts it
//! into the inbox.

use futures_channel::oneshot;
use mundi_engine::{CommitError, EngineError};
use mundi_model::{
    Height, InboxSeq,
    record::{InboxItem, ReplyOutcome},
};
use mundi_store::protocol::AnsweredEffect;
use std::sync::Arc;

/// An item, and the ticket that answers its sender.
pub(crate) struct LocalItem {
    pub(crate) item: Arc<InboxItem>,
    pub(crate) ticket: Ticket,
}

/// An item that is journaled.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) seq: InboxSeq,
    /// The reply to it, if it was given in the same turn, and the height where it stands.
    pub(crate) reply: Option<(Height, ReplyOutcome)>,
}

/// The outcome that the sender of an item waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// The item is journaled.
    Record,
    /// The same, and the reply if the same turn gives it: such a reply is stored nowhere but in the journal.
    Reply,
    /// The item is the receipt of this effect, and on record it ends the effect.
    EffectEnd(AnsweredEffect),
}

impl Awaits {
    /// The effect that the item answers.
    pub(crate) fn answers(self) -> Option<AnsweredEffect> {
        match self {
            Self::EffectEnd(answered) => Some(answered),
            Self::Record | Self::Reply => None,
        }
    }
}

/// Answers the sender of an item. Dropped, it says that no turn took the item; or, once a turn has tried to commit the item, that
/// its result is unknown.
pub(crate) struct Ticket {
    sender: Option<oneshot::Sender<Result<Taken, CommitError>>>,
    /// Whether the item may be journaled: a turn has tried to commit it.
    pub(crate) tried: bool,
    pub(crate) awaits: Awaits,
}

/// The receiving end of a ticket, on which a sender waits.
pub struct Acknowledgement(oneshot::Receiver<Result<Taken, CommitError>>);

impl LocalItem {
    pub(crate) fn new(item: Arc<InboxItem>, awaits: Awaits) -> (Self, Acknowledgement) {
        let (sender, receiver) = oneshot::channel();
        (Self { item, ticket: Ticket { sender: Some(sender), tried: false, awaits } }, Acknowledgement(receiver))
    }
}

impl Ticket {
    pub(crate) fn taken(mut self, taken: Taken) {
        if let Some(sender) = self.sender.take() {
            let _gone = sender.send(Ok(taken));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take().filter(|_| self.tried) {
            let _gone = sender.send(Err(CommitError::Unknown(EngineError::Closed)));
        }
    }
}

impl Acknowledgement {
    /// The result for the item; `None` if surely no turn took it, or will.
    pub(crate) async fn taken(self) -> Result<Option<Taken>, CommitError> {
        self.0.await.ok().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{Rig, control, script_event, taken},
        world::{CycleBudget, Progress},
    };
    use futures_util::FutureExt;
    use mundi_model::{
        WorkerId,
        record::{Input, Origin, Payload},
    };
    use mundi_store::testing::world_id;

    fn local_item() -> (LocalItem, Acknowledgement) {
        let input = Input::Event { schema: "add".to_owned(), value: Payload::Inline(vec![]), key: None };
        let origin = Origin::new(0);
        LocalItem::new(Arc::new(InboxItem { input, origin }), Awaits::Record)
    }

    #[test]
    fn a_dropped_ticket_says_what_is_known() {
        let (untouched, wait) = local_item();
        drop(untouched);
        assert!(matches!(wait.taken().now_or_never().unwrap(), Ok(None)));
        let (mut tried, wait) = local_item();
        tried.ticket.tried = true;
        drop(tried);
        assert!(matches!(wait.taken().now_or_never().unwrap(), Err(CommitError::Unknown(_))));
        let (mut refused, wait) = local_item();
        refused.ticket.tried = true;
        refused.ticket.tried = false;
        drop(refused);
        assert!(matches!(wait.taken().now_or_never().unwrap(), Ok(None)));
    }

    fn scripted() -> (LocalItem, Acknowledgement) {
        LocalItem::new(Arc::new(InboxItem { input: script_event("add n"), origin: Origin::new(0) }), Awaits::Record)
    }

    /// Found by the simulator: a page that already held a command was taken for the whole inbox, and the cursor moved to a
    /// direct item over what was never read.
    #[test]
    fn a_direct_item_does_not_pass_what_waits_behind_a_resume() {
        Rig::run(|rig| async move {
            rig.create(world_id(0)).await.unwrap();
            let mut host = rig.host(world_id(0), WorkerId::new(1).unwrap()).await.unwrap();
            let few = CycleBudget { items_max: 2, wall_ms_max: 1_000, ..CycleBudget::default() };
            rig.send(world_id(0), vec![control("pause")]).await.unwrap();
            host.turn(&few).await.unwrap();
            let mut wait = vec![control("resume")];
            wait.extend((0..5).map(|_| script_event("add n")));
            let waiting = rig.send(world_id(0), wait).await.unwrap();
            host.turn(&few).await.unwrap();
            let (direct, wait) = scripted();
            host.admit(vec![direct]);
            host.cycle(&few, drop).await.unwrap();
            assert_eq!(taken(&mut host).await.unwrap(), 6, "five from the inbox, and the direct one");
            let place = wait.taken().now_or_never().unwrap().unwrap().unwrap().seq;
            assert!(waiting.iter().all(|waiting| waiting.seq < place));
        });
    }

    /// A world that cannot take a command does not keep its callers waiting for it.
    #[test]
    fn nobody_waits_for_a_paused_world_whose_list_of_commands_is_full() {
        Rig::run(|rig| async move {
            rig.create(world_id(0)).await.unwrap();
            let mut host = rig.host(world_id(0), WorkerId::new(1).unwrap()).await.unwrap();
            let page = CycleBudget { items_max: 100, wall_ms_max: 10_000, ..CycleBudget::default() };
            rig.send(world_id(0), vec![control("pause"), script_event("add n")]).await.unwrap();
            host.cycle(&page, drop).await.unwrap();
            for _ in 0..11 {
                rig.send(world_id(0), vec![control("pause"); 100]).await.unwrap();
            }
            host.cycle(&page, drop).await.unwrap();
            let (direct, wait) = scripted();
            host.admit(vec![direct]);
            assert_eq!(host.turn(&page).await.unwrap(), Progress::Idle);
            assert!(matches!(wait.taken().now_or_never().unwrap(), Ok(None)), "it goes through the inbox");
        });
    }

    #[test]
    fn nobody_waits_for_a_world_at_rest() {
        Rig::run(|rig| async move {
            rig.create(world_id(0)).await.unwrap();
            let mut host = rig.host(world_id(0), WorkerId::new(1).unwrap()).await.unwrap();
            rig.send(world_id(0), (0..3).map(|_| script_event("add n")).collect()).await.unwrap();
            let (direct, wait) = local_item();
            host.admit(vec![direct]);
            let budget = CycleBudget { items_max: 1, wall_ms_max: 0, ..CycleBudget::default() };
            let cycled = host.cycle(&budget, drop).await.unwrap();
            assert!(cycled.turns == 1 && cycled.more, "the inbox comes first, and there was no time for more");
            assert!(matches!(wait.taken().now_or_never().unwrap(), Ok(None)));
        });
    }
}
