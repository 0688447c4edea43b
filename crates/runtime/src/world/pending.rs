//! An item of a turn, with the ticket of the sender that waits for it.

use crate::delivery::local::{Awaits, LocalItem, Ticket};
use mundi_model::InboxSeq;
use mundi_store::protocol::{AnsweredEffect, InboxEnd, TurnItem};

/// One item of a turn. Items that bypass the inbox have a ticket: one value from their admission to their acknowledgement.
pub(super) struct Pending {
    pub(super) item: TurnItem,
    pub(super) ticket: Option<Ticket>,
}

impl Pending {
    pub(super) fn from_inbox(item: TurnItem) -> Self {
        Self { item, ticket: None }
    }

    /// An item that bypasses the inbox, in its place behind the end of the inbox.
    pub(super) fn behind(end: &InboxEnd, index: u16, LocalItem { item, ticket }: LocalItem) -> Self {
        Self { item: end.direct(index, item), ticket: Some(ticket) }
    }

    /// The item without its place, if it did not come from the inbox.
    pub(super) fn into_local(self) -> Option<LocalItem> {
        let Self { item, ticket } = self;
        Some(LocalItem { item: item.item, ticket: ticket? })
    }

    pub(super) fn seq(&self) -> InboxSeq {
        self.item.seq
    }

    /// The effect that it answers, if it is a receipt that bypasses the inbox.
    pub(super) fn answers(&self) -> Option<AnsweredEffect> {
        self.ticket.as_ref()?.awaits.answers()
    }

    /// Whether its sender waits for the reply of this very turn.
    pub(super) fn is_call(&self) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| ticket.awaits == Awaits::Reply)
    }

    /// Whether the item may be journaled from now on.
    pub(super) fn set_tried(&mut self, tried: bool) {
        if let Some(ticket) = &mut self.ticket {
            ticket.tried = tried;
        }
    }
}
