//! Timeouts and retries: an object store may be slow, fail, or never answer.

use crate::Clock;
use futures_util::future::{Either, select};
use object_store::{Error, Result};
use std::{fmt, pin::pin, sync::Arc, time::Duration};

/// How long one request may take, and how often it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPolicy {
    /// A request that takes longer counts as failed.
    pub timeout: Duration,
    /// Requests that are made before the caller learns of the failure.
    pub attempts_max: u32,
    /// The pause after a first failure; it doubles with each.
    pub backoff: Duration,
}

impl Default for RequestPolicy {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), attempts_max: 4, backoff: Duration::from_millis(100) }
    }
}

/// A policy, and the clock that it goes by.
#[derive(Clone)]
pub(super) struct Requests {
    clock: Arc<dyn Clock>,
    policy: RequestPolicy,
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}

impl Requests {
    pub(super) fn new(clock: Arc<dyn Clock>, policy: RequestPolicy) -> Self {
        Self { clock, policy }
    }

    /// Makes an idempotent request until it is answered, or was made often enough.
    pub(super) async fn retried<T, F: Future<Output = Result<T>> + Send>(&self, request: impl Fn() -> F) -> Result<T> {
        let mut backoff = self.policy.backoff;
        for _ in 1..self.policy.attempts_max {
            match self.once(request()).await {
                Err(error) if is_transient(&error) => {
                    tracing::debug!(%error, "a request to the object store is retried");
                    self.clock.sleep(backoff).await;
                    backoff = backoff.saturating_mul(2);
                }
                answer => return answer,
            }
        }
        self.once(request()).await
    }

    /// One request, for as long as it may take.
    pub(super) async fn once<T>(&self, request: impl Future<Output = Result<T>> + Send) -> Result<T> {
        match select(pin!(request), self.clock.sleep(self.policy.timeout)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                Err(Error::Generic { store: "object store", source: Box::new(Timeout(self.policy.timeout)) })
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct Timeout(Duration);

/// Whether the same request may be answered otherwise. What the store refuses it refuses again.
fn is_transient(error: &Error) -> bool {
    matches!(error, Error::Generic { .. } | Error::JoinError { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualClock;
    use parking_lot::Mutex;
    use std::{
        future::{Ready, pending, ready},
        sync::atomic::{AtomicU32, Ordering},
    };

    fn requests(clock: &ManualClock) -> Requests {
        Requests::new(Arc::new(clock.clone()), RequestPolicy::default())
    }

    fn failure() -> Error {
        Error::Generic { store: "test", source: "broken".into() }
    }

    fn answers(list: Vec<Result<u32>>) -> (impl Fn() -> Ready<Result<u32>>, Arc<AtomicU32>) {
        let (left, asked) = (Mutex::new(list.into_iter()), Arc::<AtomicU32>::default());
        let count = asked.clone();
        let ask = move || {
            count.fetch_add(1, Ordering::SeqCst);
            ready(left.lock().next().unwrap_or_else(|| Err(failure())))
        };
        (ask, asked)
    }

    #[test]
    fn a_request_that_fails_is_made_again_and_given_up_in_the_end() {
        let clock = ManualClock::default();
        pollster::block_on(async {
            let (ask, asked) = answers(vec![Err(failure()), Err(failure()), Ok(7)]);
            assert_eq!(requests(&clock).retried(ask).await.unwrap(), 7);
            assert_eq!(asked.load(Ordering::SeqCst), 3);
            let (ask, asked) = answers(Vec::new());
            assert!(requests(&clock).retried(ask).await.is_err());
            assert_eq!(asked.load(Ordering::SeqCst), 4);
        });
    }

    #[test]
    fn what_the_store_refuses_is_asked_once() {
        let clock = ManualClock::default();
        let refused = Error::NotFound { path: "x".into(), source: "gone".into() };
        let (ask, asked) = answers(vec![Err(refused)]);
        assert!(matches!(pollster::block_on(requests(&clock).retried(ask)), Err(Error::NotFound { .. })));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_request_that_is_never_answered_ends() {
        let clock = ManualClock::default();
        let requests = requests(&clock);
        let error = pollster::block_on(requests.retried(pending::<Result<u32>>)).unwrap_err().to_string();
        assert!(error.contains("no answer within 30s"), "{error}");
    }
}
