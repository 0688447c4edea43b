//! The timeout of items that wait in memory for a turn: after it they go back to their senders.
//!
//! One task looks after all items: a timer for each would cost as much as the item. It sleeps for good while none waits.

use super::{Phase, Shared};
use crate::Plane;
use mundi_model::limits::DIRECT_WAIT_MS_MAX;
use std::{sync::Arc, time::Duration};

/// The task looks so often within the time that an item may wait.
const ROUNDS: u64 = 2;

pub(super) async fn run<P: Plane>(shared: Arc<Shared<P>>) {
    loop {
        let seen = shared.item_waits.version();
        if shared.phase() == Phase::Over {
            return;
        }
        let waiting = shared.scheduler.lock().end_round(ROUNDS);
        match waiting {
            true => shared.plane.clock().sleep(Duration::from_millis(DIRECT_WAIT_MS_MAX / ROUNDS)).await,
            false => shared.item_waits.changed(seen).await,
        }
    }
}
