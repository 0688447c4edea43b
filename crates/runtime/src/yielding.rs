//! Letting other tasks of a thread run, without knowing whose threads they are.

use mundi_model::limits;
use std::{future::poll_fn, task::Poll};

/// All tasks of this thread that can continue do so first.
pub(crate) async fn let_others_go_first() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Counts the records of a replay. An engine that answers from memory never makes it wait, so it would keep its thread to the end.
#[derive(Debug, Default)]
pub(crate) struct ReplayPace(u32);

impl ReplayPace {
    /// One more record is done.
    pub(crate) async fn step(&mut self) {
        self.0 += 1;
        if self.0 >= limits::REPLAYED_AT_ONCE_MAX {
            self.0 = 0;
            let_others_go_first().await;
        }
    }
}
