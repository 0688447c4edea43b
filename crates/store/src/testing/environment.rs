//! Time that moves when a test says so, and randomness that repeats.

use crate::{Clock, Entropy};
use std::{
    future::{Future, ready},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A clock that a test moves. Sleeping moves it too, and takes no time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub fn at_ns(now_ns: u64) -> Self {
        Self(Arc::new(AtomicU64::new(now_ns)))
    }

    pub fn advance(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(ns, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.advance(duration);
        Box::pin(ready(()))
    }
}

/// Bytes that never repeat within a test and always repeat between two runs of it.
#[derive(Debug, Clone, Default)]
pub struct CountingEntropy(Arc<AtomicU64>);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.0.fetch_add(1, Ordering::SeqCst).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            chunk.copy_from_slice(&number.to_be_bytes()[..chunk.len()]);
        }
    }
}
