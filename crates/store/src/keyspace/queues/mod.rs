//! What the queues have in common, and what nobody could take.

pub mod dead_letter;
pub mod low_water;
pub mod queue;
pub mod queue_notify;
