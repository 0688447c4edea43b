//! A worker that carries out effects: claims them, keeps the claims by heartbeats, and answers or fails them.

use crate::{
    error::Error,
    http::{Http, Repeat, with_json},
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, FusedFuture, OptionFuture},
};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, future::Future, pin::pin, sync::Arc, time::Duration};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval, sleep},
};

/// The server takes a claim of at most so many.
const CLAIMS_MAX: usize = 256;
const REASON_CHARACTERS_MAX: usize = 500;
/// The pause before a server that is away or busy is asked for work again.
const AWAY: Duration = Duration::from_secs(1);

/// An effect to be carried out.
#[derive(Debug, Clone, Deserialize)]
pub struct Task {
    /// The right to answer it.
    pub claim: String,
    /// The same for each attempt: the idempotency key to hand to the other side.
    pub intent: String,
    pub world: String,
    pub kind: String,
    pub params: Value,
    /// The first one is 1.
    pub attempt: u32,
    pub attempts_max: u32,
    pub traceparent: Option<String>,
    /// The pool and the lease under which it is to be carried out.
    pub lease: Option<String>,
    pub lease_epoch: Option<u64>,
}

/// How an attempt failed. Any error becomes one that is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Another attempt may succeed, not before this time if it is given.
    Retry(String, Option<Duration>),
    /// Another attempt is useless: the world gets an `error` receipt.
    Final(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Retry(error.to_string(), None)
    }
}

type Handler = Arc<dyn Fn(Task) -> BoxFuture<'static, Result<Value, Failure>> + Send + Sync>;

/// Built with a handler for each kind; works in `run`.
pub struct Worker {
    http: Http,
    handlers: BTreeMap<String, Handler>,
    concurrency: usize,
    ttl: Duration,
    wait: Duration,
    adapter: Option<String>,
}

impl Worker {
    pub(crate) fn new(http: &Http) -> Self {
        let (ttl, wait) = (Duration::from_secs(30), Duration::from_secs(5));
        Self { http: http.clone(), handlers: BTreeMap::new(), concurrency: 1, ttl, wait, adapter: None }
    }

    /// Registers the handler that carries out effects of a kind. If the claim is lost or the effect withdrawn, its future is dropped.
    #[must_use]
    pub fn handle<F, Fut>(mut self, kind: &str, handler: F) -> Self
    where
        F: Fn(Task) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
    {
        self.handlers.insert(kind.to_owned(), Arc::new(move |task| Box::pin(handler(task))));
        self
    }

    /// How many effects it carries out at a time.
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self { concurrency: concurrency.clamp(1, CLAIMS_MAX), ..self }
    }

    /// How long a claim is valid without a heartbeat; heartbeats come three times as often.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: ttl.max(Duration::from_secs(1)), ..self }
    }

    /// The longest that one request waits for work, and so the longest that a stop waits for it.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Stands in the receipts.
    #[must_use]
    pub fn adapter(self, name: &str) -> Self {
        Self { adapter: Some(name.to_owned()), ..self }
    }

    /// Works until `stop` is done, and answers everything that was begun. An error is a refusal to give work: a token that may not
    /// `work`, say.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let worker = Arc::new(self);
        let (mut running, mut claims) = (JoinSet::new(), BTreeMap::<String, AbortHandle>::new());
        let (mut stop, mut is_stopping) = (pin!(stop), false);
        let mut beat = interval(worker.ttl / 3);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut claiming = OptionFuture::from(None);
        let mut result = Ok(());
        loop {
            if !is_stopping && claiming.is_terminated() && running.len() < worker.concurrency {
                claiming = Some(worker.claim(worker.concurrency - running.len()).boxed().fuse()).into();
            }
            if is_stopping && claiming.is_terminated() && running.is_empty() {
                return result;
            }
            tokio::select! {
                () = &mut stop, if !is_stopping => is_stopping = true,
                Some(claimed) = &mut claiming, if !claiming.is_terminated() => {
                    claiming = None.into();
                    match claimed {
                        Ok(tasks) => for task in tasks {
                            let claim = task.claim.clone();
                            claims.insert(claim, running.spawn(worker.clone().carry_out(task)));
                        },
                        Err(error) => (is_stopping, result) = (true, Err(error)),
                    }
                }
                Some(_) = running.join_next() => claims.retain(|_, task| !task.is_finished()),
                _ = beat.tick(), if !claims.is_empty() => worker.beat(&claims).await,
            }
        }
    }

    async fn post(&self, verb: &str, body: &Value, retry_for: Option<Duration>) -> Result<Value, Error> {
        let request = self.http.request(Method::POST, &self.http.of(&format!("tasks/{verb}")));
        self.http.json(with_json(request, Some(body)), retry_for.map_or(Repeat::Never, Repeat::For)).await
    }

    /// Waits for work, also while the server is away.
    async fn claim(self: &Arc<Self>, room: usize) -> Result<Vec<Task>, Error> {
        let worker = self.clone();
        let kinds: Vec<_> = worker.handlers.keys().collect();
        let (ttl, wait) = (milliseconds(worker.ttl), milliseconds(worker.wait));
        let body = json!({ "kinds": kinds, "limit": room, "ttl": ttl, "wait": wait });
        match worker.post("claim", &body, None).await {
            Ok(tasks) => serde_json::from_value(tasks).map_err(|error| Error::unexpected(&error)),
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "no work can be claimed");
                sleep(AWAY).await;
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    async fn carry_out(self: Arc<Self>, task: Task) {
        let Some(handler) = self.handlers.get(&task.kind) else { return };
        let (claim, adapter) = (task.claim.clone(), &self.adapter);
        let (verb, body) = match handler(task).await {
            Ok(result) => ("complete", json!({ "claim": claim, "result": result, "adapter": adapter })),
            Err(failure) => {
                let (reason, retryable, after) = match failure {
                    Failure::Retry(reason, after) => (reason, true, after.map(milliseconds_of)),
                    Failure::Final(reason) => (reason, false, None),
                };
                let reason: String = reason.chars().take(REASON_CHARACTERS_MAX).collect();
                let form = json!({ "claim": claim, "reason": reason, "retryable": retryable, "retry_after_ms": after, "adapter": adapter });
                ("fail", form)
            }
        };
        // Repeated as long as the claim may be held.
        if let Err(error) = self.post(verb, &body, Some(self.ttl.max(self.http.retry_for))).await {
            tracing::warn!(%error, claim, "an effect could not be answered");
        }
    }

    /// Renews the claims, and ends the work of those that are lost or withdrawn.
    async fn beat(&self, claims: &BTreeMap<String, AbortHandle>) {
        let names: Vec<_> = claims.keys().collect();
        let body = json!({ "claims": names, "ttl": milliseconds(self.ttl) });
        match self.post("heartbeat", &body, Some(self.ttl / 3)).await {
            Ok(kept) => {
                let over = [&kept["lost"], &kept["withdrawn"]].into_iter().filter_map(Value::as_array).flatten();
                over.filter_map(|claim| claims.get(claim.as_str()?)).for_each(AbortHandle::abort);
            }
            Err(error) => tracing::warn!(%error, "the claims could not be renewed"),
        }
    }
}

fn milliseconds_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}
