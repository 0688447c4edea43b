//! Pace: a universe that has used more than it may waits before its next cycles, however many worlds it has.

use std::time::Duration;

/// Asked before each cycle of a world. It never changes what comes of a cycle, only when it begins.
pub trait Pace: Send + Sync {
    /// How long the worlds of the universe wait; `None` if they need not.
    fn wait(&self) -> Option<Duration>;
}
