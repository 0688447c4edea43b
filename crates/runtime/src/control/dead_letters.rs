//! Dead letters: what a queue gave up on.

use super::Ops;
use crate::{Plane, RuntimeError};
use mundi_model::{WorldId, limits};
use mundi_store::{
    keyspace::{
        dead_letter::DeadLetter,
        queue::{Queue, QueueSeq},
    },
    protocol::{DropDeadLetter, ListDeadLetters, Page, ReadDeadLetter, ReplayDeadLetter, StoredLetter},
};

impl<P: Plane> Ops<P> {
    /// The letters of a queue, oldest first, in pages; those of one world, if it is given.
    pub async fn list_dead_letters(
        &self,
        queue: Queue,
        world: Option<WorldId>,
        after: Option<QueueSeq>,
        items_max: usize,
    ) -> Result<Page<StoredLetter, QueueSeq>, RuntimeError> {
        let list = ListDeadLetters { universe: self.universe, queue, world, after, items_max };
        Ok(self.plane.run(&list).await?.output)
    }

    pub async fn read_dead_letter(&self, queue: Queue, seq: QueueSeq) -> Result<DeadLetter, RuntimeError> {
        Ok(self.plane.run(&ReadDeadLetter { universe: self.universe, queue, seq }).await?.output)
    }

    /// Puts a letter's item back into its queue, with its budget restored.
    pub async fn replay_dead_letter(&self, queue: Queue, seq: QueueSeq) -> Result<(), RuntimeError> {
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        self.plane.run(&ReplayDeadLetter { universe, queue, seq, now_ns }).await?;
        Ok(())
    }

    /// Hands the letters of a queue to someone, oldest first, and forgets each that was taken. Says how many were.
    pub async fn drain_dead_letters<F: Future<Output = bool> + Send>(
        &self,
        queue: Queue,
        mut take: impl FnMut(StoredLetter) -> F + Send,
    ) -> Result<u64, RuntimeError> {
        let (mut taken, mut after) = (0, None);
        loop {
            let page = self.list_dead_letters(queue, None, after, limits::LIST_ITEMS_MAX).await?;
            for letter in page.items {
                let seq = letter.seq;
                if take(letter).await {
                    self.drop_dead_letter(queue, seq).await?;
                    taken += 1;
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(taken);
            }
        }
    }

    /// Forgets a letter. One that is gone already is forgotten.
    pub async fn drop_dead_letter(&self, queue: Queue, seq: QueueSeq) -> Result<(), RuntimeError> {
        self.plane.run(&DropDeadLetter { universe: self.universe, queue, seq }).await?;
        Ok(())
    }
}
