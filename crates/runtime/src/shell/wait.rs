//! How a role that serves a queue of a universe waits.
//!
//! It sleeps until something is queued (a watch), until the next item becomes due, or until it is asked to stop;
//! it never polls. Transient failures of the store are retried with growing waits: only a closed engine ends it.

use futures_util::{
    future::{BoxFuture, Either, FusedFuture, select},
    stream::{FuturesUnordered, StreamExt},
};
use mundi_engine::EngineError;
use mundi_store::{Clock, StoreError};
use std::time::Duration;

/// The longest sleep without a poll: what a lost wake-up costs.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The first wait after an error of the store; it doubles.
const TROUBLE_WAIT: Duration = Duration::from_millis(50);
const TROUBLE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Why a wait was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something was queued, or became due.
    Look,
    Stop,
}

/// Waits for any of the watches, for the time, or for the word to stop.
pub(crate) async fn wait(
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

/// Waits after a transient error, longer each time in a row; returns a permanent one.
pub(crate) async fn ride_out(clock: &dyn Clock, error: StoreError, in_a_row: &mut u32) -> Result<(), StoreError> {
    if matches!(error, StoreError::Engine(EngineError::Closed)) {
        return Err(error);
    }
    tracing::warn!(%error, in_a_row, "a worker waits for the store");
    let pause = TROUBLE_WAIT.saturating_mul(1 << (*in_a_row).min(10)).min(TROUBLE_WAIT_MAX);
    *in_a_row = in_a_row.saturating_add(1);
    clock.sleep(pause).await;
    Ok(())
}
