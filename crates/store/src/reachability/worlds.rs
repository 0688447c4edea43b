//! The worlds of a universe, one after the other, no faster than the pace allows.

use super::pace::Pace;
use crate::{
    StoreError,
    keyspace::{
        Family, decode_value,
        world_meta::{self, WorldMeta, WorldState},
    },
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{UniverseId, WorldId};
use std::collections::VecDeque;

/// Worlds that one transaction looks up: few enough for the age bound of every engine.
const PAGE: usize = 64;

/// Lists worlds in the order of their ids. What it gives may have changed since: a page is read ahead.
pub(super) struct Worlds<'a, E> {
    engine: &'a E,
    universe: UniverseId,
    pace: &'a Pace,
    after: Option<WorldId>,
    page: VecDeque<(WorldId, WorldMeta)>,
    over: bool,
}

impl<'a, E: Engine> Worlds<'a, E> {
    /// Those above a world, or all.
    pub(super) fn above(engine: &'a E, universe: UniverseId, after: Option<WorldId>, pace: &'a Pace) -> Self {
        Self { engine, universe, pace, after, page: VecDeque::new(), over: false }
    }

    /// The next one that is not deleted.
    pub(super) async fn next(&mut self) -> Result<Option<WorldId>, StoreError> {
        while let Some((world, meta)) = self.next_of_any_state().await? {
            if meta.state != WorldState::Deleted {
                return Ok(Some(world));
            }
        }
        Ok(None)
    }

    /// The next one, deleted or not.
    pub(super) async fn next_of_any_state(&mut self) -> Result<Option<(WorldId, WorldMeta)>, StoreError> {
        while self.page.is_empty() && !self.over {
            self.read_page().await?;
        }
        Ok(self.page.pop_front())
    }

    /// One seek per world: the first of its keys is its record, and the others are skipped, not read.
    async fn read_page(&mut self) -> Result<(), StoreError> {
        let mut tx = self.engine.begin().await?;
        let mut keys = 0;
        while self.page.len() < PAGE && keys < 2 * PAGE {
            let mut span = world_meta::worlds_prefix(self.universe).span();
            if let Some(after) = self.after {
                span.start = world_meta::world_prefix(self.universe, after).span().end;
            }
            let found = tx.range(span.read(1).snapshot()).await?;
            let Some((key, value)) = found.items.first() else {
                self.over = true;
                break;
            };
            keys += 1;
            let world = world_meta::world_of_key(self.universe, key)?;
            if *key == world_meta::key(self.universe, world).as_bytes() {
                self.page.push_back((world, decode_value(Family::WorldMeta, key, value)?));
            }
            self.after = Some(world);
        }
        drop(tx);
        self.pace.after_keys(keys).await;
        Ok(())
    }
}
