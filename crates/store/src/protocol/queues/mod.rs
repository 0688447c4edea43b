//! The parts that the queues share, and the items that nobody could take.

pub(in crate::protocol) mod dead_letters;
pub(in crate::protocol) mod page;
pub(in crate::protocol) mod queue_depths;
pub(in crate::protocol) mod waiting_worlds;

pub use dead_letters::{DropDeadLetter, ListDeadLetters, ReadDeadLetter, ReplayDeadLetter, StoredLetter};
pub use page::Page;
pub use queue_depths::{Depths, QueueDepths};
pub use waiting_worlds::{WaitingPart, WaitingWorlds};
