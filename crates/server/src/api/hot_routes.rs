//! A fast path before the router: calls and sends, which are nearly all requests, go directly to their handlers. The router
//! finds the same handlers for other spellings of these paths, and serves all other requests.
//!
//! A router of sixty addresses boxes each answer three times and copies the parts of the address twice, for each who asks for them.

use super::{
    Api, Problem,
    events::{self, SendParams, WaitParams},
    extract::{self, EventBody, SEND},
    requests::{Route, UnderWay, naming},
};
use crate::{
    bodies::Bodies,
    node::FORWARDED_TO,
    serve::{App, Client, Connection},
};
use axum::{
    Router,
    extract::Request,
    http::{Method, request::Parts},
    response::{IntoResponse, Response},
};
use futures_util::future::BoxFuture;
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;
use mundi_runtime::metrics::Metrics;
use std::{ops::Range, sync::Arc};

/// All addresses of the API.
#[derive(Clone)]
pub struct HotRoutes {
    api: Api,
    router: Routes,
}

impl HotRoutes {
    pub(super) fn new(api: Api, router: Router) -> Self {
        let router = Routes::new(&api, router);
        Self { api, router }
    }
}

/// A router whose requests carry their connection.
#[derive(Clone)]
pub struct Routes {
    router: TowerToHyperService<Router>,
    metrics: Arc<Metrics>,
    answers: Arc<Bodies>,
}

impl Routes {
    pub(super) fn new(api: &Api, router: Router) -> Self {
        let (metrics, answers) = (api.node.shared_metrics(), api.answers.clone());
        Self { router: TowerToHyperService::new(router), metrics, answers }
    }
}

impl App for Routes {
    async fn answer<'a>(&'a self, connection: &'a Connection, mut request: Request<Incoming>) -> Response {
        request.extensions_mut().insert(connection.clone());
        match self.router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    fn metrics(&self) -> Option<&Metrics> {
        Some(&self.metrics)
    }

    fn answers(&self) -> Option<&Arc<Bodies>> {
        Some(&self.answers)
    }
}

impl App for HotRoutes {
    fn answer<'a>(
        &'a self,
        connection: &'a Connection,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response> + Send {
        // What is traced, or has other parameters than a timeout, is the router's.
        let address = Address::of(request.method(), request.uri().path()).filter(|_| self.api.sampler.is_none());
        let hot = address.and_then(|address| Some((stated_wait(address.verb, request.uri().query())?, address)));
        let answering: BoxFuture<'a, Response> = match hot {
            Some((wait, address)) => Box::pin(watched(self.api.clone(), (address, wait), &connection.0, request)),
            None => Box::pin(self.router.answer(connection, request)),
        };
        answering
    }

    fn metrics(&self) -> Option<&Metrics> {
        self.router.metrics()
    }

    fn answers(&self) -> Option<&Arc<Bodies>> {
        self.router.answers()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Call,
    Send,
}

impl Verb {
    fn route(self) -> &'static str {
        match self {
            Self::Call => "/v1/u/{universe}/worlds/{world}/call/{event}",
            Self::Send => "/v1/u/{universe}/worlds/{world}/send/{event}",
        }
    }
}

/// Where the parts are in a path that means what it says, to the letter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    universe: Range<usize>,
    world: Range<usize>,
    verb: Verb,
    event: Range<usize>,
}

impl Address {
    fn of(method: &Method, path: &str) -> Option<Self> {
        const START: &str = "/v1/u/";
        let mut parts = path.strip_prefix(START).filter(|_| *method == Method::POST)?.split('/');
        let mut end = START.len() - 1;
        let mut next = || {
            let part = parts.next().filter(|part| !part.is_empty() && !part.contains('%'))?;
            let start = end + 1;
            end = start + part.len();
            Some((part, start..end))
        };
        let (universe, worlds, world, verb, event) = (next()?, next()?, next()?, next()?, next()?);
        let verb = match verb.0 {
            "call" => Verb::Call,
            "send" => Verb::Send,
            _ => return None,
        };
        let is_hot = worlds.0 == "worlds" && parts.next().is_none();
        is_hot.then_some(Self { universe: universe.1, world: world.1, verb, event: event.1 })
    }
}

/// How long a call says that it waits, if its address has no other parameter and spells that one plainly. Every forwarded call has it.
fn stated_wait(verb: Verb, query: Option<&str>) -> Option<WaitParams> {
    let Some(query) = query else { return Some(WaitParams::default()) };
    let timeout = query.strip_prefix("timeout=").filter(|_| verb == Verb::Call)?;
    let is_plain = timeout.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_plain.then(|| WaitParams { timeout: Some(timeout.to_owned()) })
}

/// Answers and counts a request. The answer to a forwarded request names the worker that answers (ADR 0008).
async fn watched(
    api: Api,
    (address, wait): (Address, WaitParams),
    client: &Arc<Client>,
    request: Request<Incoming>,
) -> Response {
    let (parts, body) = request.into_parts();
    let mut under_way = UnderWay::begin(api.clone(), &parts.method, Route::Known(address.verb.route()));
    let forwarded = parts.headers.contains_key(FORWARDED_TO).then(|| parts.uri.clone());
    let deadline = parts.uri.query().and_then(|query| WaitParams::stated(query, &api));
    let answering = answer(api.clone(), client, (address, wait), parts, body);
    let answered = match deadline {
        // Also while its token is being looked up.
        Some(timeout) => Box::pin(events::in_time(timeout.saturating_add(events::DEADLINE_GRACE), answering)).await,
        None => answering.await,
    };
    let mut response = match (answered, &forwarded) {
        (Ok(response), _) => response,
        (Err(problem), None) => problem.into_response(),
        // Its address has the world's id, and its sender knows the world's name.
        (Err(problem), Some(uri)) => {
            Box::pin(naming(&api, uri.path(), &problem)).await.unwrap_or(problem).into_response()
        }
    };
    under_way.answered(response.status());
    if forwarded.is_some()
        && let Ok(worker) = api.node.worker().to_string().parse()
    {
        response.headers_mut().insert(FORWARDED_TO, worker);
    }
    response
}

async fn answer(
    api: Api,
    client: &Arc<Client>,
    (Address { universe, world, verb, event }, wait): (Address, WaitParams),
    Parts { uri, headers, .. }: Parts,
    body: Incoming,
) -> Result<Response, Problem> {
    let [universe, world, event] = [universe, world, event].map(|part| &uri.path()[part]);
    let (universe, tenant) = extract::enter(&api, &headers, Some(client), universe, SEND).await?;
    let (name, world) = (world, extract::world_of(&universe, world).await?);
    let _held = match extract::admit(&api, &universe, tenant, verb == Verb::Call) {
        Ok(held) => held,
        Err(problem) => {
            Box::pin(extract::discard(body, api.limits.body_timeout)).await;
            return Err(problem);
        }
    };
    let event = extract::name(event)?;
    let given = EventBody::of(headers, Some(client), body, &api).await?;
    let answered = match verb {
        Verb::Call => events::make_call(&api, (&universe, tenant), world, event, &wait, given).await,
        Verb::Send => events::make_send(&api, (&universe, tenant), world, event, SendParams::default(), given).await,
    };
    answered.map_err(|problem| problem.naming(name, world))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_alone_needs_no_router() {
        let timeout = |query| stated_wait(Verb::Call, query).map(|wait| wait.timeout);
        assert_eq!(timeout(None), Some(None));
        assert_eq!(timeout(Some("timeout=1500ms")), Some(Some("1500ms".to_owned())));
        for other in ["timeout=5s&x=1", "timeout=%35s", "x=1", "", "timeout"] {
            assert_eq!(timeout(Some(other)), None, "{other}");
        }
        assert!(stated_wait(Verb::Send, Some("timeout=5s")).is_none(), "a send has other parameters");
    }

    #[test]
    fn only_an_address_that_means_what_it_says_goes_past_the_router() {
        let of = |path| Address::of(&Method::POST, path);
        let path = "/v1/u/default/worlds/alice/call/add";
        let call = of(path).unwrap();
        assert_eq!(
            [&call.universe, &call.world, &call.event].map(|part| &path[part.clone()]),
            ["default", "alice", "add"]
        );
        assert_eq!(call.verb, Verb::Call);
        assert_eq!(of("/v1/u/default/worlds/alice/send/add"), Some(Address { verb: Verb::Send, ..call }));
        assert_eq!(Address::of(&Method::GET, "/v1/u/default/worlds/alice/call/add"), None);
        for other in [
            "/v1/u/default/worlds/alice/call/add/",
            "/v1/u/default/worlds/alice/call/",
            "/v1/u/default/worlds/alice/call",
            "/v1/u//worlds/alice/call/add",
            "/v1/u/default/worlds/al%20ice/call/add",
            "/v1/u/default/worlds/alice/call/%61dd",
            "/v1/u/default/worlds/alice/calls/add",
            "/v1/u/default/world/alice/call/add",
            "/v2/u/default/worlds/alice/call/add",
            "/",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
