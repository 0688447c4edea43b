//! The parts that the queues share, and the items that nobody could take.

pub mod dead_letter;
pub mod low_water;
pub mod queue;
pub mod queue_notify;
