//! Durable functions of a world. An instance is named `FUNCTION/KEY`.

use crate::{
    call::{TIMEOUT, WAIT_MAX},
    error::Error,
    http::{Backoff, Http, Repeat, escape, query, with_json},
    world::to_value,
};
use futures_util::{StreamExt, stream::BoxStream};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// The durable functions of a world.
#[derive(Debug, Clone)]
pub struct Functions {
    http: Http,
    world: String,
}

impl Functions {
    pub(crate) fn new(http: &Http, world: &str) -> Self {
        Self { http: http.clone(), world: world.to_owned() }
    }

    fn path(&self, instance: &str, parameters: &[(&str, String)]) -> String {
        let parts: String = instance.split('/').map(|part| format!("/{}", escape(part))).collect();
        self.http.of(&format!("worlds/{}/functions{parts}{}", escape(&self.world), query(parameters)))
    }

    /// Runs a function under a key and waits up to 60 s for its result: past timeouts, broken connections and restarts of the server. The same
    /// key with the same input finds the instance again; with another input it is refused.
    pub async fn run<T: DeserializeOwned>(
        &self,
        function: &str,
        key: &str,
        input: &impl Serialize,
    ) -> Result<T, Error> {
        self.run_within(function, key, input, TIMEOUT).await
    }

    /// The same, waiting for so long. The instance goes on after a timeout.
    pub async fn run_within<T: DeserializeOwned>(
        &self,
        function: &str,
        key: &str,
        input: &impl Serialize,
        timeout: Duration,
    ) -> Result<T, Error> {
        let (until, input, mut backoff) = (Instant::now() + timeout, to_value(input)?, Backoff::new());
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let parameters = [("timeout", format!("{}ms", left.min(WAIT_MAX).as_millis()))];
            let path = self.path(&format!("{function}/{key}"), &parameters);
            let request = with_json(self.http.request(Method::POST, &path), Some(&input));
            match self.http.json(request, Repeat::For(left)).await {
                Err(error) if error.is_call_timeout() && Instant::now() < until => backoff.wait(Duration::ZERO).await,
                answer => return answer,
            }
        }
    }

    /// The instances: `function`, `state`, `at` as the API has them.
    pub fn list(&self, filters: &[(&str, String)]) -> BoxStream<'static, Result<Value, Error>> {
        self.http.items(&self.http.of(&format!("worlds/{}/functions", escape(&self.world))), filters).boxed()
    }

    /// An instance with every await on record, now or before the record at a height.
    pub async fn describe(&self, instance: &str, at: Option<u64>) -> Result<Value, Error> {
        let at: Vec<_> = at.map(|at| ("at", at.to_string())).into_iter().collect();
        self.http.get(&self.path(instance, &at)).await
    }

    /// Cancels an instance; its cleanup runs. One that has ended stays as it is.
    pub async fn cancel(&self, instance: &str, reason: Option<&str>) -> Result<Value, Error> {
        let reason: Vec<_> = reason.map(|reason| ("reason", reason.to_owned())).into_iter().collect();
        self.command(Method::DELETE, instance, &reason).await
    }

    /// An instance that is paused keeps what comes in, and does not go on.
    pub async fn pause(&self, instance: &str) -> Result<Value, Error> {
        self.command(Method::PUT, instance, &[("paused", "true".to_owned())]).await
    }

    pub async fn resume(&self, instance: &str) -> Result<Value, Error> {
        self.command(Method::PUT, instance, &[("paused", "false".to_owned())]).await
    }

    async fn command(&self, method: Method, instance: &str, given: &[(&str, String)]) -> Result<Value, Error> {
        self.http.json(self.http.request(method, &self.path(instance, given)), Repeat::Usual).await
    }
}
