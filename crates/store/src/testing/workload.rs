//! The work of a busy store, as operations that a benchmark can time, on any engine.

use super::{Drained, Fixture, PlainSnapshots, event};
use crate::{Fence, StoreError, journal::NoSegments, protocol::NewItem, restore};
use mundi_engine::Engine;
use mundi_model::{Height, limits};

/// Some worlds, each held under its lease.
#[derive(Debug, Clone)]
pub struct Workload<E> {
    fixture: Fixture<E>,
    fences: Vec<Fence>,
    item: NewItem,
}

impl<E: Engine> Workload<E> {
    /// New worlds whose items carry `item_bytes` each.
    pub async fn new(engine: E, worlds: usize, item_bytes: usize) -> Result<Self, StoreError> {
        let fixture = Fixture::new(engine, 1).await?;
        let mut fences = Vec::new();
        for number in 0..worlds as u64 {
            fences.push(fixture.live(number).await?);
        }
        Ok(Self { fixture, fences, item: event(&"x".repeat(item_bytes)) })
    }

    fn fence(&self, world: usize) -> Fence {
        self.fences[world % self.fences.len()]
    }

    /// Enqueues a batch in one transaction; returns its size.
    pub async fn enqueue(&self, world: usize, items: usize) -> Result<u64, StoreError> {
        let placed = self.fixture.send(self.fence(world).world, vec![self.item.clone(); items]).await?;
        Ok(placed.len() as u64)
    }

    /// Fills an inbox with so many items, in the largest batches.
    pub async fn fill(&self, world: usize, items: usize) -> Result<(), StoreError> {
        let mut left = items;
        while left > 0 {
            let batch = left.min(limits::INBOX_BATCH_ITEMS_MAX);
            self.enqueue(world, batch).await?;
            left -= batch;
        }
        Ok(())
    }

    /// Drains one batch in one transaction; returns how many items were journaled.
    pub async fn drain(&self, world: usize, batch: usize) -> Result<u64, StoreError> {
        match self.fixture.drain(self.fence(world), batch).await? {
            Drained::Idle => Ok(0),
            Drained::Moved { items, .. } => Ok(items as u64),
        }
    }

    /// Reads a whole journal, with its chain; returns how many records it has.
    pub async fn replay(&self, world: usize) -> Result<u64, StoreError> {
        Ok(self.fixture.history(self.fence(world).world, Height::GENESIS).await?.len() as u64)
    }

    /// Makes a snapshot of everything so far the baseline.
    pub async fn promote(&self, world: usize) -> Result<(), StoreError> {
        let fence = self.fence(world);
        let head = self.fixture.read_turn(fence).await?.head;
        self.fixture.snapshot(fence, &self.fixture.facts(head.height), true).await?;
        Ok(())
    }

    /// Restores a world; returns how many records lie above its baseline.
    pub async fn restore(&self, world: usize) -> Result<u64, StoreError> {
        let Fixture { engine, blobs, universe, .. } = &self.fixture;
        let restored = restore(engine, blobs, NoSegments, &PlainSnapshots, *universe, self.fence(world).world).await?;
        Ok(restored.tail.collect().await?.len() as u64)
    }
}
