//! Watches of the cluster, shared within the process: `watch_table.rs` says who shares what.

use super::{codes::TOO_MANY_WATCHES, engine::Shared, watch_table::Joined};
use crate::EngineError;
use bytes::Bytes;
use foundationdb::{FdbError, FdbResult};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// A watch is a hint: a waiting reader also looks again from time to time.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// A key that has no watch is looked at so often.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// A task that waits for a watch of the cluster; dropping it ends the watch.
pub(super) struct Carrier(JoinHandle<()>);

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Takes part in a watch until it is dropped.
struct Part {
    shared: Arc<Shared>,
    key: Bytes,
    number: u64,
}

impl Drop for Part {
    fn drop(&mut self) {
        self.shared.watch_table.lock().leave(&self.key, self.number);
    }
}

/// Completes once the value under the key differs from `seen`.
pub(super) async fn watch(shared: Arc<Shared>, key: Bytes, seen: Option<Bytes>) -> Result<(), EngineError> {
    // First in the list of those who are woken, then armed, then looked: a change in between is not missed.
    let (_waiter, mut woken) = shared.watches.place(&key)?;
    let joined = shared
        .watch_table
        .lock()
        .join(&key, |number| Carrier(shared.handle.spawn(carry(shared.clone(), key.clone(), number))));
    let part = |number| Part { shared: shared.clone(), key: key.clone(), number };
    let (_part, look_again) = match joined {
        Joined::Armed(number) => (Some(part(number)), LOOK_AGAIN),
        Joined::Arming(number, armed) => {
            let part = part(number);
            let look_again = if armed.await.is_ok() { LOOK_AGAIN } else { POLL_EVERY };
            (Some(part), look_again)
        }
        Joined::Full => (None, POLL_EVERY),
    };
    loop {
        if shared.newest(&key).await? != seen {
            return Ok(());
        }
        match shared.within(look_again, &mut woken).await {
            // Mostly because the value has changed; the caller looks in any case.
            Some(Ok(())) => return Ok(()),
            Some(Err(_)) => return Err(EngineError::Closed),
            None => {}
        }
    }
}

async fn carry(shared: Arc<Shared>, key: Bytes, number: u64) {
    let waited = match arm(&shared, &key).await {
        Ok(watch) => {
            shared.watch_table.lock().armed(&key, number);
            watch.await
        }
        Err(error) => Err(error),
    };
    match waited {
        Ok(()) => {}
        Err(error) if error.code() == TOO_MANY_WATCHES => {
            tracing::warn!("the client of FoundationDB has too many watches; keys are polled");
        }
        Err(error) => tracing::debug!(%error, "a watch ended"),
    }
    shared.watch_table.lock().ended(&key, number);
    shared.watches.wake([&key].into_iter());
}

/// A watch reports changes since the version of its transaction, once that is committed. It needs the client's own writes (which there are
/// none of), so this transaction keeps them.
async fn arm(shared: &Shared, key: &Bytes) -> FdbResult<impl Future<Output = FdbResult<()>> + Send + use<>> {
    let transaction = shared.database.create_trx()?;
    let watch = transaction.watch(&shared.keys.stored(key));
    transaction.commit().await.map_err(FdbError::from)?;
    Ok(watch)
}
