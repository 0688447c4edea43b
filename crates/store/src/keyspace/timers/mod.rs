//! Timers that are due.

pub mod timer_dedupe;
pub mod timer_due;
