//! Injected time and randomness.

use std::{future::Future, pin::Pin, time::Duration};

/// A clock. It decides when to *try*; no protocol is safe only because a clock was right.
pub trait Clock: Send + Sync {
    /// Nanoseconds since the Unix epoch.
    fn now_ns(&self) -> u64;

    /// Completes after at least this long.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A source of random bytes, for ids and attempt tokens.
pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}
