//! Patience: items that were handed to a world and that no turn takes go back to their senders after a while.
//!
//! One task looks after all of them: a timer for each would cost as much as handing it over. It sleeps for good while none waits.

use super::{Phase, Shared};
use crate::Plane;
use mundi_model::limits::DIRECT_PATIENCE_MS;
use std::{sync::Arc, time::Duration};

/// The task looks so often within the time that an item may wait.
const ROUNDS: u64 = 2;

pub(super) async fn run<P: Plane>(shared: Arc<Shared<P>>) {
    loop {
        let seen = shared.handed.version();
        if shared.phase() == Phase::Over {
            return;
        }
        let waiting = shared.table.lock().end_round(ROUNDS);
        match waiting {
            true => shared.plane.clock().sleep(Duration::from_millis(DIRECT_PATIENCE_MS / ROUNDS)).await,
            false => shared.handed.changed(seen).await,
        }
    }
}
