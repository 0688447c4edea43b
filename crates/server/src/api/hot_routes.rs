//! A fast path before the router: calls and sends, which are nearly all requests, go directly to their handlers. The router
//! finds the same handlers for other spellings of these paths, and serves all other requests.
//!
//! A router of sixty addresses boxes each answer three times and copies the parts of the address twice, for each who asks for them.

use super::{
    Api, Problem,
    events::{self, SendParams, WaitParams},
    extract::{self, EventBody, SEND},
    requests::{Route, UnderWay},
    routes::nothing_here,
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
use mundi_engine::Engine;
use mundi_runtime::metrics::Metrics;
use std::sync::Arc;

/// All addresses of the API.
pub struct HotRoutes<E: Engine> {
    api: Api<E>,
    router: Routes,
}

impl<E: Engine> HotRoutes<E> {
    pub(super) fn new(api: Api<E>, router: Router) -> Self {
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
    pub(super) fn new<E: Engine>(api: &Api<E>, router: Router) -> Self {
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

impl<E: Engine> Clone for HotRoutes<E> {
    fn clone(&self) -> Self {
        Self { api: self.api.clone(), router: self.router.clone() }
    }
}

impl<E: Engine> App for HotRoutes<E> {
    fn answer<'a>(
        &'a self,
        connection: &'a Connection,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response> + Send {
        let address = Address::of(request.method(), request.uri().path());
        // What is traced, has parameters, or is to be answered by name is the router's.
        let is_plain = request.uri().query().is_none() && !request.headers().contains_key(FORWARDED_TO);
        let answering: BoxFuture<'a, Response> = match address.filter(|_| is_plain && self.api.sampler.is_none()) {
            Some(Address { verb, .. }) => Box::pin(watched(self.api.clone(), verb, &connection.0, request)),
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

/// The parts of an address that means what it says, to the letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Address<'a> {
    universe: &'a str,
    world: &'a str,
    verb: Verb,
    event: &'a str,
}

impl<'a> Address<'a> {
    fn of(method: &Method, path: &'a str) -> Option<Self> {
        let mut parts = path.strip_prefix("/v1/u/").filter(|_| *method == Method::POST)?.split('/');
        let mut next = || parts.next().filter(|part| !part.is_empty() && !part.contains('%'));
        let (universe, worlds, world, verb, event) = (next()?, next()?, next()?, next()?, next()?);
        let verb = match verb {
            "call" => Verb::Call,
            "send" => Verb::Send,
            _ => return None,
        };
        (worlds == "worlds" && parts.next().is_none()).then_some(Self { universe, world, verb, event })
    }
}

async fn watched<E: Engine>(api: Api<E>, verb: Verb, client: &Arc<Client>, request: Request<Incoming>) -> Response {
    let (parts, body) = request.into_parts();
    let mut under_way = UnderWay::begin(api.clone(), &parts.method, Route::Known(verb.route()));
    let response = answer(api, client, parts, body).await.unwrap_or_else(IntoResponse::into_response);
    under_way.answered(response.status());
    response
}

async fn answer<E: Engine>(
    api: Api<E>,
    client: &Arc<Client>,
    parts: Parts,
    body: Incoming,
) -> Result<Response, Problem> {
    let Parts { method, uri, headers, .. } = parts;
    let Some(Address { universe, world, verb, event }) = Address::of(&method, uri.path()) else {
        return Err(nothing_here(method, uri).await);
    };
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
        Verb::Call => events::make_call(&api, &universe, world, event, &WaitParams::default(), given).await,
        Verb::Send => events::make_send(&api, &universe, world, event, SendParams::default(), given).await,
    };
    answered.map_err(|problem| problem.naming(name, world))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_that_means_what_it_says_goes_past_the_router() {
        let of = |path| Address::of(&Method::POST, path);
        let call = Address { universe: "default", world: "alice", verb: Verb::Call, event: "add" };
        assert_eq!(of("/v1/u/default/worlds/alice/call/add"), Some(call));
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
