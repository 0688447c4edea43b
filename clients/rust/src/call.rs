//! A call that is made once, and whose reply is waited for past timeouts, broken connections and restarts of the server.

use crate::{
    error::Error,
    http::{Backoff, Http, Repeat, escape, query, unique_key, with_json},
};
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// The server knows an idempotency key for an hour.
const TIMEOUT_MAX: Duration = Duration::from_secs(55 * 60);
/// One request waits so long at most, so that a connection that is dead is noticed.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// How long to wait for the reply, all attempts together: 60 s unless it is given, at most 55 minutes.
    pub timeout: Option<Duration>,
    /// Under the same key the event is sent at most once. One of its own unless it is given.
    pub idempotency_key: Option<String>,
    pub correlation_id: Option<String>,
}

pub(crate) fn keyed(
    request: RequestBuilder,
    key: Option<&str>,
    correlation_id: Option<&str>,
) -> Result<RequestBuilder, Error> {
    let key = key.map_or_else(unique_key, |key| Ok(key.to_owned()))?;
    let request = request.header("idempotency-key", key);
    Ok(match correlation_id {
        Some(id) => request.header("correlation-id", id),
        None => request,
    })
}

pub(crate) async fn call<T: DeserializeOwned>(
    http: &Http,
    world: &str,
    event: &str,
    value: &Value,
    options: CallOptions,
) -> Result<T, Error> {
    let until = Instant::now() + options.timeout.unwrap_or(TIMEOUT).min(TIMEOUT_MAX);
    let key = options.idempotency_key.map_or_else(unique_key, Ok)?;
    let (mut backoff, mut name) = (Backoff::new(), None::<String>);
    loop {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let timeout = query(&[("timeout", format!("{}ms", left.min(WAIT_MAX).as_millis()))]);
        let request = match &name {
            Some(name) => http.request(Method::GET, &reply_path(http, world, name, &timeout)),
            None => {
                let path = http.of(&format!("worlds/{}/call/{}{timeout}", escape(world), escape(event)));
                let request = with_json(http.request(Method::POST, &path), Some(value));
                keyed(request, Some(&key), options.correlation_id.as_deref())?
            }
        };
        match http.json(request, Repeat::For(left)).await {
            Err(error) if error.is_call_timeout() && Instant::now() < until => {
                name = error.call().map(str::to_owned).or(name); // without a name it is sent again, under the same key
                backoff.wait(Duration::ZERO).await;
            }
            answer => return answer,
        }
    }
}

pub(crate) fn reply_path(http: &Http, world: &str, call: &str, query: &str) -> String {
    http.of(&format!("worlds/{}/calls/{}{query}", escape(world), escape(call)))
}
