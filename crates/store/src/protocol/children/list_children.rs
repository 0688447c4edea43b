//! Lists of children. Only reads.

use super::ChildError;
use crate::protocol::require_world;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family,
        child_budget::{self, ChildBudget},
        child_event,
        child_order::{self, ChildRow},
        child_state::{self, ChildState},
        child_token,
        child_work::{self, ChildWork},
        decode_value,
    },
};
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    child::{ChildEvent, ChildId, DispatchToken, Lane},
    limits,
};

/// Children of a world in the order in which they were spawned, after a `queue_seq`.
#[derive(Debug, Clone, Copy)]
pub struct ListChildren {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub after: Option<u64>,
    pub items_max: usize,
}

impl Protocol for ListChildren {
    type Output = Vec<DispatchToken>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<DispatchToken>, StoreError> {
        let Self { universe, parent, after, items_max } = *self;
        require_world(tx, universe, parent).await?;
        let mut span = child_order::queue_prefix(universe, parent).span();
        if let Some(after) = after {
            span = span.after(&child_order::queue_key(universe, parent, after));
        }
        let rows = tx.range(span.read(items_max.min(limits::RANGE_ITEMS_MAX)).snapshot()).await?;
        let mut tokens = Vec::with_capacity(rows.items.len());
        for (key, value) in rows.items {
            let ChildRow { child } = decode_value(Family::ChildQueue, &key, &value)?;
            tokens.extend(child_token::read(tx, universe, parent, child).await?);
        }
        Ok(tokens)
    }
}

/// One child.
#[derive(Debug, Clone, Copy)]
pub struct DescribeChild {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub child: ChildId,
}

impl Protocol for DescribeChild {
    type Output = DispatchToken;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<DispatchToken, StoreError> {
        let Self { universe, parent, child } = *self;
        require_world(tx, universe, parent).await?;
        let token = child_token::read(tx, universe, parent, child).await?;
        token.ok_or_else(|| ChildError::NotFound { parent, child }.into())
    }
}

/// The events of one child, from a place of its stream on.
#[derive(Debug, Clone, Copy)]
pub struct ReadChildEvents {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub child: ChildId,
    pub from: u64,
}

impl Protocol for ReadChildEvents {
    /// And whether the child is terminal: no event follows.
    type Output = (Vec<ChildEvent>, bool);

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(Vec<ChildEvent>, bool), StoreError> {
        let Self { universe, parent, child, from } = *self;
        let token = DescribeChild { universe, parent, child }.run(tx).await?;
        let mut events = Vec::new();
        for seq in from..token.events {
            events.extend(child_event::read(tx, universe, parent, (child, seq)).await?);
        }
        Ok((events, token.end.is_some()))
    }
}

/// The counters of a parent.
#[derive(Debug, Clone, Copy)]
pub struct ReadChildState {
    pub universe: UniverseId,
    pub parent: WorldId,
}

impl Protocol for ReadChildState {
    type Output = ChildState;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<ChildState, StoreError> {
        Ok(child_state::read(tx, self.universe, self.parent).await?.unwrap_or_default())
    }
}

/// Parents that have children to look after, after one of them.
#[derive(Debug, Clone, Copy)]
pub struct ListChildParents {
    pub universe: UniverseId,
    pub after: Option<WorldId>,
}

impl Protocol for ListChildParents {
    type Output = Vec<(WorldId, ChildWork)>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let mut span = child_work::prefix(self.universe).span();
        if let Some(after) = self.after {
            span = span.after(&child_work::key(self.universe, after));
        }
        let page = tx.range(span.read(limits::CHILD_PARENTS_PAGE).snapshot()).await?;
        let row = |(key, value): &(Bytes, Bytes)| Ok((child_work::parse(self.universe, key)?, ChildWork::read(value)));
        page.items.iter().map(row).collect()
    }
}

/// The spending of a world's children, and their limits.
#[derive(Debug, Clone, Copy)]
pub struct ReadBudget {
    pub universe: UniverseId,
    pub parent: WorldId,
}

/// One line per lane.
pub type BudgetLines = Vec<(Lane, ChildBudget)>;

impl Protocol for ReadBudget {
    type Output = BudgetLines;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<BudgetLines, StoreError> {
        require_world(tx, self.universe, self.parent).await?;
        let mut lines = Vec::new();
        for lane in Lane::ALL {
            lines.push((lane, child_budget::read(tx, self.universe, self.parent, lane).await?));
        }
        Ok(lines)
    }
}
