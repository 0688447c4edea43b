//! Items that reach a resident world without standing in its inbox first.
//!
//! An inbox entry is there so that an acknowledged item survives its sender and finds its world. Who sends to a world
//! that runs in the same process can wait instead until the turn that takes the item is durable: one commit, not two.
//! Nothing is acknowledged before that commit. An item that no turn took goes the ordinary way, through the inbox; one that no
//! turn has begun to take for too long is given back to its sender for that.

use futures_channel::oneshot;
use mundi_engine::{CommitError, EngineError};
use mundi_model::{
    Height, InboxSeq,
    record::{InboxItem, ReplyOutcome},
};
use mundi_store::protocol::AnsweredEffect;
use std::sync::Arc;

/// An item on its way, and who waits for it.
pub(crate) struct Direct {
    pub(crate) item: Arc<InboxItem>,
    pub(crate) ticket: Ticket,
}

/// What came of an item.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) seq: InboxSeq,
    /// The reply to it, if it was given in the same turn, and the height where it stands.
    pub(crate) reply: Option<(Height, ReplyOutcome)>,
}

/// Who waits for an item, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// That it is on record is all.
    Event,
    /// A reply that the same turn gives is taken from it, and so stored nowhere but in the journal.
    Call,
    /// The item is the receipt of this effect.
    Receipt(AnsweredEffect),
}

/// The other end of a sender's wait. Dropped, it says that no turn took the item; or, once a turn has tried to commit
/// it, that nobody knows.
pub(crate) struct Ticket {
    sender: Option<oneshot::Sender<Result<Taken, CommitError>>>,
    tried: bool,
    from: Sender,
}

/// A sender's wait.
pub(crate) struct Wait(oneshot::Receiver<Result<Taken, CommitError>>);

impl Direct {
    pub(crate) fn new(item: Arc<InboxItem>, from: Sender) -> (Self, Wait) {
        let (sender, receiver) = oneshot::channel();
        (Self { item, ticket: Ticket { sender: Some(sender), tried: false, from } }, Wait(receiver))
    }
}

impl Ticket {
    /// Whether the item may be on record from now on.
    pub(crate) fn set_tried(&mut self, tried: bool) {
        self.tried = tried;
    }

    pub(crate) fn answers(&self) -> Option<AnsweredEffect> {
        match self.from {
            Sender::Receipt(answered) => Some(answered),
            Sender::Event | Sender::Call => None,
        }
    }

    pub(crate) fn is_call(&self) -> bool {
        self.from == Sender::Call
    }

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

impl Wait {
    /// What came of the item; `None` if surely no turn took it, or will.
    pub(crate) async fn taken(self) -> Result<Option<Taken>, CommitError> {
        self.0.await.ok().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        host::{CycleBudget, Progress},
        testing::{Rig, control, script_event, taken},
    };
    use futures_util::FutureExt;
    use mundi_model::{
        WorkerId,
        record::{Input, Origin, Payload},
    };
    use mundi_store::testing::world_id;

    fn direct() -> (Direct, Wait) {
        let input = Input::Event { schema: "add".to_owned(), value: Payload::Inline(vec![]), key: None };
        let origin = Origin::new(0);
        Direct::new(Arc::new(InboxItem { input, origin }), Sender::Event)
    }

    #[test]
    fn a_dropped_ticket_says_what_is_known() {
        let (untouched, wait) = direct();
        drop(untouched);
        assert!(matches!(wait.taken().now_or_never().unwrap(), Ok(None)));
        let (mut tried, wait) = direct();
        tried.ticket.set_tried(true);
        drop(tried);
        assert!(matches!(wait.taken().now_or_never().unwrap(), Err(CommitError::Unknown(_))));
        let (mut refused, wait) = direct();
        refused.ticket.set_tried(true);
        refused.ticket.set_tried(false);
        drop(refused);
        assert!(matches!(wait.taken().now_or_never().unwrap(), Ok(None)));
    }

    fn scripted() -> (Direct, Wait) {
        Direct::new(Arc::new(InboxItem { input: script_event("add n"), origin: Origin::new(0) }), Sender::Event)
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
            host.hand(vec![direct]);
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
            host.hand(vec![direct]);
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
            let (direct, wait) = direct();
            host.hand(vec![direct]);
            let budget = CycleBudget { items_max: 1, wall_ms_max: 0, ..CycleBudget::default() };
            let cycled = host.cycle(&budget, drop).await.unwrap();
            assert!(cycled.turns == 1 && cycled.more, "the inbox comes first, and there was no time for more");
            assert!(matches!(wait.taken().now_or_never().unwrap(), Ok(None)));
        });
    }
}
