//! Timers that are due.

pub(in crate::protocol) mod fire_timers;
pub(in crate::protocol) mod list_timers;
pub(in crate::protocol) mod next_due;

pub use fire_timers::{FireTimers, Fired};
pub use list_timers::{ListTimers, QueuedTimer};
pub use next_due::NextTimers;
