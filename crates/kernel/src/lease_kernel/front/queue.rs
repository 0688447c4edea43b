//! The queue: first come, first served, each whole or not at all.
//!
//! Only the first one in the queue is ever granted, and nobody takes what it waits for: while someone waits, a reservation by label is
//! refused, and one by id that touches what the first one waits for is, too. So a large bundle is never starved. A record makes at most one
//! lease, because the lease's id is the record's height: if more can be granted, a timer that is due at once makes the next record.

use super::super::{
    core::Core,
    records::{Labelled, Ticket, TicketState, cell},
    result::{Outcome, Refused, ResultCode},
};
use crate::program::Stop;
use mundi_model::{
    InboxSeq,
    pool::{HolderId, LeaseId, ResourceId},
};

/// A wish for so many resources of a label.
pub(in super::super) struct Wish<'a> {
    pub(in super::super) label: &'a str,
    pub(in super::super) count: u32,
    pub(in super::super) holder: HolderId,
    pub(in super::super) ttl_slots: u64,
    /// The call that is answered when it is granted.
    pub(in super::super) reply_to: Option<InboxSeq>,
}

/// The outcome for the first ticket of the queue.
pub(in super::super) enum First {
    /// It left the queue; its holder is told this.
    Left { outcome: Outcome, reply_to: Option<InboxSeq> },
    /// It waits for resources, or for a reservation to end: a record follows then.
    Waits,
    /// The resources are there, and a table has no room for the lease until some of the history is removed.
    WaitsForRoom,
}

impl Core<'_> {
    /// A reservation that can never be granted is refused at once: it would hold up all that come after it.
    pub(in super::super) fn enqueue_reserve(&mut self, wish: &Wish<'_>) -> Result<Outcome, Refused> {
        self.check_terms(wish.count.into(), wish.ttl_slots)?;
        if u64::from(wish.count) > self.config().members_max {
            return Err(ResultCode::BundleTooLarge.into());
        }
        self.history_end()?;
        if self.label_count(wish.label)?.total < u64::from(wish.count) {
            return Err(ResultCode::ResourceNotFound.into());
        }
        if self.counts.waiting >= self.config().queue_max {
            return Err(ResultCode::QueueFull.into());
        }
        let id = LeaseId::new(self.shard(), self.lsn);
        let ticket = Ticket {
            ticket: id,
            holder_id: wish.holder,
            label: wish.label.to_owned(),
            count: wish.count,
            ttl_slots: wish.ttl_slots,
            state: TicketState::Waiting,
            lease_id: None,
            reply_to: wish.reply_to,
            retire_after_slot: 0,
        };
        self.put(&cell::ticket(id), &ticket)?;
        self.host.put(&cell::waiting(id), &[])?;
        self.counts.waiting += 1;
        Ok(Outcome { ticket: Some(id), ..self.outcome(ResultCode::Ok) })
    }

    pub(in super::super) fn cancel_enqueue(&mut self, id: LeaseId, holder: HolderId) -> Result<Outcome, Refused> {
        let ticket: Option<Ticket> = self.get(&cell::ticket(id))?;
        let Some(mut ticket) = ticket.filter(|ticket| !self.is_over(ticket.retire_after_slot)) else {
            return Err(ResultCode::TicketNotFound.into());
        };
        if ticket.holder_id != holder {
            return Err(ResultCode::HolderMismatch.into());
        }
        if ticket.state != TicketState::Waiting {
            return Err(ResultCode::InvalidState.into());
        }
        let retire_after_slot = self.history_end()?;
        self.end_ticket(&mut ticket, TicketState::Cancelled, retire_after_slot)?;
        Ok(Outcome { ticket: Some(id), ..self.outcome(ResultCode::Ok) })
    }

    /// Refuses a reservation by id that would take what the first one in the queue waits for.
    pub(in super::super) fn check_not_overtaking(&mut self, ids: &[ResourceId]) -> Result<(), Refused> {
        let Some(first) = self.first_waiting()? else { return Ok(()) };
        for id in ids {
            let labelled: Option<Labelled> = self.get(&cell::labelled(*id))?;
            if labelled.is_some_and(|labelled| labelled.all().any(|label| label == first.label)) {
                return Err(Refused::At(ResultCode::ResourceBusy, *id));
            }
        }
        Ok(())
    }

    /// Grants the first one in the queue what it waits for, if it is there. The caller has made no lease in this record.
    pub(in super::super) fn grant_first(&mut self) -> Result<First, Stop> {
        let Some(mut ticket) = self.first_waiting()? else { return Ok(First::Waits) };
        let granted = self.history_end().and_then(|retire_after_slot| {
            let ids = self.choose(&ticket.label, ticket.count)?;
            Ok((self.reserve_bundle(&ids, ticket.holder_id, ticket.ttl_slots)?, retire_after_slot))
        });
        let (outcome, state, retire_after_slot) = match granted {
            Ok((outcome, retire_after_slot)) => (outcome, TicketState::Granted, retire_after_slot),
            Err(Refused::Stop(stop)) => return Err(stop),
            // Time has passed since it was asked for: its lease would end beyond the last slot, now and ever after.
            Err(Refused::Result(code @ ResultCode::SlotOverflow)) => {
                (self.outcome(code), TicketState::Cancelled, u64::MAX)
            }
            Err(Refused::Result(ResultCode::LeaseTableFull | ResultCode::LeaseMemberTableFull)) => {
                return Ok(First::WaitsForRoom);
            }
            Err(Refused::Result(_) | Refused::At(..)) => return Ok(First::Waits),
        };
        ticket.lease_id = outcome.lease_id;
        self.end_ticket(&mut ticket, state, retire_after_slot)?;
        let outcome = Outcome { ticket: Some(ticket.ticket), ..outcome };
        Ok(First::Left { outcome, reply_to: ticket.reply_to })
    }

    /// Whether the first one in the queue could be granted what it waits for.
    pub(in super::super) fn can_grant(&mut self) -> Result<bool, Stop> {
        let Some(first) = self.first_waiting()? else { return Ok(false) };
        Ok(self.label_count(&first.label)?.free >= u64::from(first.count))
    }

    fn first_waiting(&mut self) -> Result<Option<Ticket>, Stop> {
        if self.counts.waiting == 0 {
            return Ok(None);
        }
        // Not from the beginning: those who left the queue stand there until the tree is made anew.
        let after = self.counts.waiting_from.map(cell::before_waiting);
        let first = self.host.scan(cell::WAITING, after.as_deref(), 1)?;
        let id = first.first().and_then(|(key, _)| key.strip_prefix(cell::WAITING)?.parse::<LeaseId>().ok());
        self.counts.waiting_from = id.or(self.counts.waiting_from);
        match id {
            Some(id) => self.get(&cell::ticket(id)),
            None => Err(self.host.refuse("the queue is shorter than it is counted")),
        }
    }

    fn end_ticket(&mut self, ticket: &mut Ticket, state: TicketState, retire_after_slot: u64) -> Result<(), Stop> {
        (ticket.state, ticket.retire_after_slot) = (state, retire_after_slot);
        self.counts.waiting -= 1;
        self.host.delete(&cell::waiting(ticket.ticket))?;
        let key = cell::ticket(ticket.ticket);
        self.put(&key, ticket)?;
        self.retire_at(retire_after_slot, &key)
    }

    fn history_end(&self) -> Result<u64, Refused> {
        self.slot.checked_add(self.config().history_slots).ok_or_else(|| ResultCode::SlotOverflow.into())
    }
}
