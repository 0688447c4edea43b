//! List where worlds should run, in pages.
//!
//! Guarantees: each page is one consistent moment; worlds come in the order of their ids.
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family,
        assignment::{self, Assignment},
        decode_value,
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, limits};

#[derive(Debug, Clone, Copy)]
pub struct ListAssignments {
    pub universe: UniverseId,
    pub after: Option<WorldId>,
    pub items_max: usize,
}

#[derive(Debug, Clone)]
pub struct Assignments {
    pub items: Vec<(WorldId, Assignment)>,
    pub more: bool,
}

impl Protocol for ListAssignments {
    type Output = Assignments;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Assignments, StoreError> {
        let Self { universe, after, items_max } = *self;
        let all = assignment::prefix(universe).span();
        let span = match after {
            Some(world) => all.after(&assignment::key(universe, world)),
            None => all,
        };
        let page = tx.range(span.read(items_max.clamp(1, limits::RANGE_ITEMS_MAX)).snapshot()).await?;
        let entry = |(key, bytes): &(bytes::Bytes, bytes::Bytes)| {
            Ok((assignment::parse(universe, key)?, decode_value(Family::Assignment, key, bytes)?))
        };
        let items = page.items.iter().map(entry).collect::<Result<_, StoreError>>()?;
        Ok(Assignments { items, more: page.more })
    }
}
