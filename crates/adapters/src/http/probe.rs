//! Probes of watchers: a GET by the rules of `http.request`, whose answer counts and whose body does not.

use super::{HttpAdapter, unreachable};
use futures_util::future::BoxFuture;
use http::{Method, Request};
use http_body_util::Full;
use mundi_model::Code;
use mundi_runtime::watcher::{Probe, ProbeFailed};
use url::Url;

impl HttpAdapter {
    async fn probe_once(&self, url: &str) -> Result<(), ProbeFailed> {
        let denied = |reason: String| ProbeFailed::Denied(reason);
        let url = Url::parse(url).map_err(|error| denied(error.to_string()))?;
        self.check(&url).map_err(|failure| denied(failure.reason))?;
        let mut request = Request::new(Full::default());
        *request.method_mut() = Method::GET;
        let answer = match self.client.send(&url, request).await.map_err(unreachable) {
            Ok(answer) => answer,
            Err(failure) if failure.code == Code::EffectDenied => return Err(denied(failure.reason)),
            Err(failure) => return Err(ProbeFailed::NotWell(failure.reason)),
        };
        let status = answer.head.status;
        answer.let_go().await;
        match status.is_success() {
            true => Ok(()),
            false => Err(ProbeFailed::NotWell(format!("the answer was {status}"))),
        }
    }
}

impl Probe for HttpAdapter {
    fn probe<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), ProbeFailed>> {
        Box::pin(self.probe_once(url))
    }
}
