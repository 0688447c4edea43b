//! The clock of a simulated node.

use super::Executor;
use mundi_store::Clock;
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Off by a configured amount. Sleeping takes true time, as it does where a wall clock is set while a
/// monotonic one runs on.
#[derive(Clone)]
pub struct NodeClock {
    executor: Executor,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    offset_ns: AtomicI64,
    shown_ns_max: AtomicU64,
}

impl NodeClock {
    pub fn new(executor: &Executor) -> Self {
        Self { executor: executor.clone(), shared: Arc::default() }
    }

    /// From now on it is wrong by this much.
    pub fn set_offset_ns(&self, offset_ns: i64) {
        self.shared.offset_ns.store(offset_ns, Ordering::SeqCst);
    }

    pub fn offset_ns(&self) -> i64 {
        self.shared.offset_ns.load(Ordering::SeqCst)
    }

    /// The latest time that it ever showed to anyone.
    pub fn shown_ns_max(&self) -> u64 {
        self.shared.shown_ns_max.load(Ordering::SeqCst)
    }
}

impl Clock for NodeClock {
    fn now_ns(&self) -> u64 {
        let now_ns = self.executor.now_ns().saturating_add_signed(self.offset_ns());
        self.shared.shown_ns_max.fetch_max(now_ns, Ordering::SeqCst);
        now_ns
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.executor.sleep(duration)
    }
}
