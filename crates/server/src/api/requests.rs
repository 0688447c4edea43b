//! Metrics and traces of requests.

use super::{
    Api, Problem,
    events::{DEADLINE_GRACE, WaitParams, in_time},
    exposition::Scrape,
    extract::world_of,
};
use crate::node::FORWARDED_TO;
use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderValue, Method, StatusCode},
    response::{IntoResponse, Response},
};
use futures_util::future::BoxFuture;
use mundi_runtime::{
    Plane,
    metrics::{Family, Metric, Times},
    trace::TraceContext,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;
use tracing::{Instrument, Span, field::Empty};

/// Whether a trace that begins here is recorded: asked with its id.
pub type Sampler = Arc<dyn Fn([u8; 16]) -> bool + Send + Sync>;

/// The route name of a request that no route took.
const NO_ROUTE: &str = "none";

/// The client went away before it had an answer; the number that nginx gives this.
const GONE: u16 = 499;

/// The requests of a process, by route.
#[derive(Debug, Default)]
pub(super) struct Requests(Mutex<BTreeMap<Box<str>, Answers>>);

#[derive(Debug, Default)]
struct Answers {
    answers: BTreeMap<(&'static str, u16), u64>,
    times: BTreeMap<&'static str, Times>,
}

impl Requests {
    fn answered(&self, method: &'static str, route: &str, status: u16, took_us: u64) {
        let mut routes = self.0.lock();
        if !routes.contains_key(route) {
            routes.insert(route.into(), Answers::default());
        }
        let Some(route) = routes.get_mut(route) else { return };
        *route.answers.entry((method, status)).or_default() += 1;
        route.times.entry(method).or_default().add(took_us);
    }

    /// How many were answered, by method, route and status.
    pub(super) fn answers(&self) -> Vec<(&'static str, Box<str>, u16, u64)> {
        let routes = self.0.lock();
        let each = routes.iter().flat_map(|(route, counted)| {
            counted.answers.iter().map(|((method, status), count)| (*method, route.clone(), *status, *count))
        });
        each.collect()
    }

    pub(super) fn add_to(&self, scrape: &mut Scrape) {
        let labels = |method: &str, route: &str| vec![("method", method.to_owned()), ("route", route.to_owned())];
        let answers = self.answers().into_iter().map(|(method, route, status, count)| {
            let mut labels = labels(method, &route);
            labels.push(("status", status.to_string()));
            (labels, count)
        });
        scrape.add_numbers(Family::HTTP_REQUESTS, answers);
        let routes = self.0.lock();
        let times = routes.iter().flat_map(|(route, counted)| {
            counted.times.iter().map(|(method, times)| (labels(method, route), *times)).collect::<Vec<_>>()
        });
        scrape.add_times(Family::HTTP_REQUEST_SECONDS, times);
    }
}

/// A request that is being answered. Dropped without an answer, its client is gone.
pub(super) struct UnderWay {
    api: Api,
    method: &'static str,
    route: Route,
    since: Instant,
    status: u16,
}

impl UnderWay {
    pub(super) fn begin(api: Api, method: &Method, route: Route) -> Self {
        api.node.metrics().add(Metric::HttpInFlight, 1);
        Self { api, method: known(method), route, since: Instant::now(), status: GONE }
    }

    pub(super) fn answered(&mut self, status: StatusCode) {
        self.status = status.as_u16();
    }

    fn route(&self) -> &str {
        match &self.route {
            Route::Known(route) => route,
            Route::Matched(route) => route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str),
        }
    }
}

/// Which route a request took.
pub(super) enum Route {
    Known(&'static str),
    Matched(Option<MatchedPath>),
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.api.node.metrics().sub(Metric::HttpInFlight, 1);
        let took_us = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.api.requests.answered(self.method, self.route(), self.status, took_us);
    }
}

/// A method is whatever a client sends; a label is not.
fn known(method: &Method) -> &'static str {
    let known = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS, Method::PATCH];
    match known.iter().position(|known| known == method) {
        Some(at) => ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"][at],
        None => "other",
    }
}

/// Counts requests, and puts them into their traces if those are recorded.
#[derive(Clone)]
pub(super) struct Watch(pub(super) Api);

/// A route that is watched. A service of its own, because axum's way to write one as a function clones and boxes more than
/// the whole answer takes otherwise.
#[derive(Clone)]
pub(super) struct Watched<S> {
    inner: S,
    api: Api,
}

impl<S> Layer<S> for Watch {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched { inner, api: self.0.clone() }
    }
}

impl<S> Service<Request> for Watched<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let mut under_way =
            UnderWay::begin(self.api.clone(), request.method(), Route::Matched(request.extensions().get().cloned()));
        let span = match &self.api.sampler {
            Some(sampler) => enter_trace(&mut request, &under_way, &**sampler, self.api.node.plane().random()),
            None => Span::none(),
        };
        let is_forwarded = request.headers().contains_key(FORWARDED_TO);
        // A request with a timeout of its own is answered in time, also while its token is being looked up.
        let timeout = request.uri().query().and_then(|query| WaitParams::stated(query, &self.api));
        let uri = request.uri().clone();
        let answering = self.inner.call(request).instrument(span.clone());
        Box::pin(async move {
            let mut response = match timeout {
                Some(timeout) => {
                    let answered = in_time(timeout.saturating_add(DEADLINE_GRACE), async { Ok(answering.await) }).await;
                    answered.unwrap_or_else(|late| Ok(late.into_response()))?
                }
                None => answering.await?,
            };
            if let Some(problem) = response.extensions_mut().remove::<Problem>()
                && let Some(problem) = Box::pin(naming(&under_way.api, uri.path(), &problem)).await
            {
                response = problem.response();
            }
            under_way.answered(response.status());
            if is_forwarded && let Ok(worker) = under_way.api.node.worker().to_string().parse() {
                response.headers_mut().insert(FORWARDED_TO, worker);
            }
            span.record("http.response.status_code", response.status().as_u16());
            if response.status() >= StatusCode::INTERNAL_SERVER_ERROR {
                span.record("otel.status_code", "ERROR");
            }
            Ok(response)
        })
    }
}

/// A problem about the world of an address, with the world's name beside its id, if it speaks of the id.
pub(super) async fn naming(api: &Api, path: &str, problem: &Problem) -> Option<Problem> {
    let mut parts = path.strip_prefix("/v1/u/").unwrap_or_default().split('/');
    let (universe, noun, name) = (parts.next(), parts.next(), parts.next());
    let named = universe.and_then(|universe| api.node.universe(universe)).zip(name).filter(|_| noun == Some("worlds"));
    let (universe, name) = named?;
    let world = world_of(&universe, name).await.ok()?;
    let stored = universe.ops().names_of_worlds([world].into()).await.unwrap_or_default().remove(&world);
    let told = problem.clone().naming(stored.as_deref().unwrap_or(name), world);
    (told.detail != problem.detail).then_some(told)
}

/// The request becomes a part of the trace that its client names, or begins one; what it leads to follows from it.
fn enter_trace(
    request: &mut Request,
    under_way: &UnderWay,
    sampler: &(dyn Fn([u8; 16]) -> bool + Send + Sync),
    random: [u8; 24],
) -> Span {
    let parent = request.headers().get("traceparent").and_then(|value| value.to_str().ok()?.parse().ok());
    let own = match parent {
        Some(parent) => TraceContext::child(&parent, &random),
        None => {
            let root = TraceContext::root(random);
            if sampler(root.trace) { root } else { root.unsampled() }
        }
    };
    let own_text = own.to_string();
    if let Ok(value) = HeaderValue::from_str(&own_text) {
        request.headers_mut().insert("traceparent", value);
    }
    let (method, route) = (under_way.method, under_way.route());
    tracing::info_span!(
        "request",
        trace = parent.map(|parent| parent.to_string()),
        span = own_text,
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_every_answer_once_and_cumulates() {
        let requests = Requests::default();
        for took_us in [500, 501, 40_000_000] {
            requests.answered("GET", "/livez", 200, took_us);
        }
        requests.answered("GET", "/livez", GONE, 0);
        let mut scrape = Scrape::default();
        requests.add_to(&mut scrape);
        let text = scrape.text();
        for line in [
            "mundi_http_requests_total{method=\"GET\",route=\"/livez\",status=\"200\"} 3",
            "mundi_http_requests_total{method=\"GET\",route=\"/livez\",status=\"499\"} 1",
            "mundi_http_request_seconds_bucket{le=\"0.0005\",method=\"GET\",route=\"/livez\"} 2",
            "mundi_http_request_seconds_bucket{le=\"0.001\",method=\"GET\",route=\"/livez\"} 3",
            "mundi_http_request_seconds_bucket{le=\"30.0\",method=\"GET\",route=\"/livez\"} 3",
            "mundi_http_request_seconds_bucket{le=\"+Inf\",method=\"GET\",route=\"/livez\"} 4",
            "mundi_http_request_seconds_sum{method=\"GET\",route=\"/livez\"} 40.001001",
            "mundi_http_request_seconds_count{method=\"GET\",route=\"/livez\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_method_that_nobody_knows_makes_no_label_of_its_own() {
        assert_eq!((known(&Method::PUT), known(&Method::from_bytes(b"BREW").unwrap())), ("PUT", "other"));
    }
}
