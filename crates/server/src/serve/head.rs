//! How long the head of a request may take.

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Instant;

/// Until when the head of the next request must be there, as long as one is waited for. A timer for each connection looks at it,
/// where hyper would begin and end one with each request.
#[derive(Clone, Default)]
pub(super) struct Head(Arc<Mutex<Option<std::time::Instant>>>);

impl Head {
    /// Completes when a head is late. Whatever is waited for from now on may take until then at least.
    pub(super) async fn is_late(&self, timeout: Duration) {
        loop {
            let (due, now) = (*self.0.lock(), Instant::now());
            let due = due.map_or(now + timeout, Instant::from_std);
            if due <= now {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}

impl Timer for Head {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        *self.0.lock() = Some(deadline);
        Box::pin(HeadWait(self.clone()))
    }

    fn reset(&self, _: &mut Pin<Box<dyn Sleep>>, deadline: std::time::Instant) {
        *self.0.lock() = Some(deadline);
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }
}

/// The future that hyper waits for: it never completes, because a late head ends the connection.
struct HeadWait(Head);

impl Future for HeadWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Sleep for HeadWait {}

impl Drop for HeadWait {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}
