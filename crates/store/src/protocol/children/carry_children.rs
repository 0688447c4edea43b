//! Children that travel with their world: its totals and limits, its counters, and its terminal children with their events.
//!
//! Guarantees: a world that arrives has them as they were where it left, under its own id, in the transaction that makes it appear. Children that had not
//! ended do not travel: what becomes of them is what the import's policy says of open effects. No number that they had is drawn again.
//! A total never falls below what the world's journal proves.
//! Reading only reads. Unknown commit of an import: that of the import, which recognizes itself.

use super::transition::{Parent, belong_together};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        child_budget::{self, ChildBudget},
        child_event,
        child_order::{self, dispatch_key, ended_key, queue_key, run_key},
        child_state::{self, ChildState},
        child_token,
    },
};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId, cbor,
    child::{ChildEvent, DispatchToken, Lane, Phase},
    limits,
};
use std::collections::BTreeSet;

/// The number of children that one transaction reads: each is a few keys.
const PAGE: u64 = 100;

/// A terminal child.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CarriedChild {
    #[n(0)]
    pub token: DispatchToken,
    #[n(1)]
    pub events: Vec<ChildEvent>,
}

/// All that travels.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CarriedChildren {
    #[n(0)]
    pub next_queue_seq: u64,
    #[n(1)]
    pub next_dispatch_seq: u64,
    /// One per lane, in the order of the lanes.
    #[n(2)]
    pub budgets: Vec<ChildBudget>,
    /// In the order in which they ended.
    #[n(3)]
    pub ended: Vec<CarriedChild>,
}

impl CarriedChildren {
    /// Leaves those out that ended first, as far as the bound asks for it.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let mut left = limits::BUNDLE_CHILDREN_BYTES_MAX;
        let fits = self.ended.iter().rev().take_while(|child| {
            let bytes = cbor::encode(*child).len();
            left.checked_sub(bytes).map(|less| left = less).is_some()
        });
        let too_many = self.ended.len() - fits.count();
        self.ended.drain(..too_many);
        self
    }

    /// Whether it can have been written by a world of this id.
    pub fn check(&self, world: WorldId) -> Result<(), String> {
        let bytes: usize = self.ended.iter().map(|child| cbor::encode(child).len()).sum();
        if self.ended.len() as u64 > limits::CHILDREN_ENDED_MAX || bytes > limits::BUNDLE_CHILDREN_BYTES_MAX {
            return Err("it has more children than a world keeps".to_owned());
        }
        if self.budgets.len() != Lane::ALL.len() || self.next_queue_seq == 0 || self.next_dispatch_seq == 0 {
            return Err("its counters are none".to_owned());
        }
        let (mut ids, mut queued, mut dispatched, mut runs) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for CarriedChild { token, events } in &self.ended {
            let child = token.child;
            let is_whole = token.phase == Phase::Terminal
                && token.end.is_some()
                && token.parent == world
                && events.len() as u64 == token.events
                && events.iter().zip(0..).all(|(event, seq)| event.seq == seq)
                && belong_together(token, events.last());
            if !is_whole {
                return Err(format!("{child} has not ended as it says"));
            }
            let is_drawn = token.queue_seq < self.next_queue_seq
                && token.dispatch_seq.is_none_or(|seq| seq < self.next_dispatch_seq)
                && token.dispatch_seq.is_some() == token.run.is_some();
            let is_new = ids.insert(child)
                && queued.insert(token.queue_seq)
                && token.dispatch_seq.is_none_or(|seq| dispatched.insert(seq))
                && token.run.is_none_or(|run| runs.insert(*run.as_bytes()));
            if !is_drawn || !is_new {
                return Err(format!("{child} has a number that another child has, or that was never drawn"));
            }
        }
        Ok(())
    }

    /// Totals and limits by lane. No total is below what the world's journal proves.
    pub fn budgets_above(&self, proven: &[(Lane, ChildBudget)]) -> Vec<(Lane, ChildBudget)> {
        let proven = |lane| proven.iter().find(|(of, _)| *of == lane).map_or(0, |(_, budget)| budget.total);
        let budgets = Lane::ALL.into_iter().zip(&self.budgets);
        let above = |(lane, budget): (Lane, &ChildBudget)| {
            (lane, ChildBudget { total: budget.total.max(proven(lane)), ..*budget })
        };
        budgets.map(above).filter(|(_, budget)| *budget != ChildBudget::default()).collect()
    }

    /// Gives them to a world that has none.
    pub(in crate::protocol) fn write<T: Transaction>(
        &self,
        tx: &mut T,
        universe: UniverseId,
        world: WorldId,
    ) -> Result<(), StoreError> {
        let parent = Parent { universe, world, now_ns: 0 };
        for (CarriedChild { token, events }, number) in self.ended.iter().zip(1..) {
            let token = DispatchToken { parent: world, ..token.clone() };
            for event in events {
                parent.write_event(tx, token.child, event)?;
            }
            let rows = [
                Some(queue_key(universe, world, token.queue_seq)),
                token.dispatch_seq.map(|seq| dispatch_key(universe, world, seq)),
                token.run.map(|run| run_key(universe, world, run)),
                Some(ended_key(universe, world, number)),
            ];
            for row in rows.into_iter().flatten() {
                child_order::write(tx, &row, token.child)?;
            }
            parent.write_token(tx, &token)?;
        }
        let state = ChildState {
            next_queue_seq: self.next_queue_seq,
            next_dispatch_seq: self.next_dispatch_seq,
            queue_from: self.next_queue_seq,
            next_ended: self.ended.len() as u64 + 1,
            ..ChildState::default()
        };
        parent.write_state(tx, &state)
    }
}

/// Counters, totals and limits of a world; `None` if it never had a child or a budget.
#[derive(Debug, Clone, Copy)]
pub struct ReadCarried {
    pub universe: UniverseId,
    pub parent: WorldId,
}

impl Protocol for ReadCarried {
    /// Also the numbers of those that ended.
    type Output = Option<(CarriedChildren, std::ops::Range<u64>)>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let Self { universe, parent } = *self;
        let state = child_state::read(tx, universe, parent).await?;
        let mut budgets = Vec::new();
        for lane in Lane::ALL {
            budgets.push(child_budget::read(tx, universe, parent, lane).await?);
        }
        if state.is_none() && budgets.iter().all(|budget| *budget == ChildBudget::default()) {
            return Ok(None);
        }
        let ChildState { next_queue_seq, next_dispatch_seq, ended_from, next_ended, .. } = state.unwrap_or_default();
        let carried = CarriedChildren { next_queue_seq, next_dispatch_seq, budgets, ended: Vec::new() };
        Ok(Some((carried, ended_from..next_ended)))
    }
}

/// Some of the children that ended, from a number on. One that is not kept any more is left out.
#[derive(Debug, Clone, Copy)]
pub struct ReadEnded {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub from: u64,
    pub end: u64,
}

impl ReadEnded {
    /// The number behind those that one run reads.
    pub fn through(&self) -> u64 {
        self.end.min(self.from.saturating_add(PAGE))
    }
}

impl Protocol for ReadEnded {
    type Output = Vec<CarriedChild>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<CarriedChild>, StoreError> {
        let Self { universe, parent, from, .. } = *self;
        let mut ended = Vec::new();
        for number in from..self.through() {
            let row = ended_key(universe, parent, number);
            let Some(child) = child_order::read(tx, crate::keyspace::Family::ChildEnded, &row).await? else { continue };
            let Some(token) = child_token::read(tx, universe, parent, child).await? else { continue };
            let mut events = Vec::new();
            for seq in 0..token.events {
                events.extend(child_event::read(tx, universe, parent, (child, seq)).await?);
            }
            ended.push(CarriedChild { token, events });
        }
        Ok(ended)
    }
}
