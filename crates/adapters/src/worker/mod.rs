//! The loops that serve the queues of a universe.
//!
//! A worker sleeps until something is queued (a watch), until the next thing becomes due, or until it is told to stop;
//! it never polls. What goes wrong in the store is tried again with growing waits: only an engine that was closed ends a
//! worker. It runs as one task and spawns nothing; run several for more.

mod adapter_worker;
mod effect_pace;
mod timer_worker;

pub use adapter_worker::{AdapterWorker, AdapterWorkerConfig};
pub use effect_pace::{EffectPace, Unpaced};
pub use timer_worker::{TimerWorker, TimerWorkerConfig};

use futures_util::{
    future::{BoxFuture, Either, FusedFuture, select},
    stream::{FuturesUnordered, StreamExt},
};
use mundi_engine::EngineError;
use mundi_store::{Clock, StoreError};
use std::time::Duration;

/// The longest sleep without a look: what a lost wake-up costs.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The first wait after an error of the store; it doubles.
const TROUBLE_WAIT: Duration = Duration::from_millis(50);
const TROUBLE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Why a wait was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// Something was queued, or became due.
    Look,
    Stop,
}

/// Waits for any of the watches, for the time, or for the word to stop.
async fn wait(
    clock: &dyn Clock,
    watches: Vec<BoxFuture<'static, Result<(), StoreError>>>,
    until_ns: Option<u64>,
    stop: &mut (impl FusedFuture<Output = ()> + Unpin),
) -> Result<Woken, StoreError> {
    if stop.is_terminated() {
        return Ok(Woken::Stop);
    }
    let now_ns = clock.now_ns();
    let nap = until_ns.map_or(SLEEP_MAX, |until_ns| Duration::from_nanos(until_ns.saturating_sub(now_ns)));
    let mut watches: FuturesUnordered<_> = watches.into_iter().collect();
    let watched = async move {
        match watches.next().await {
            Some(changed) => changed,
            None => std::future::pending().await,
        }
    };
    let woken = Box::pin(select(Box::pin(watched), clock.sleep(nap.min(SLEEP_MAX))));
    match select(woken, stop).await {
        Either::Left((Either::Left((changed, _)), _)) => changed.map(|()| Woken::Look),
        Either::Left((Either::Right(((), _)), _)) => Ok(Woken::Look),
        Either::Right(((), _)) => Ok(Woken::Stop),
    }
}

/// Waits after an error that may pass, longer each time in a row; gives back one that cannot.
async fn ride_out(clock: &dyn Clock, error: StoreError, in_a_row: &mut u32) -> Result<(), StoreError> {
    if matches!(error, StoreError::Engine(EngineError::Closed)) {
        return Err(error);
    }
    tracing::warn!(%error, in_a_row, "a worker waits for the store");
    let pause = TROUBLE_WAIT.saturating_mul(1 << (*in_a_row).min(10)).min(TROUBLE_WAIT_MAX);
    *in_a_row = in_a_row.saturating_add(1);
    clock.sleep(pause).await;
    Ok(())
}
