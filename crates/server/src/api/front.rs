//! What stands before the router: calls and sends, which nearly all requests are, go to their handlers by themselves. The router
//! finds the same handlers for addresses that are written in any other way, and does everything else.
//!
//! A router of sixty addresses boxes each answer three times and copies the parts of the address twice, for each who asks for them.

use super::{
    Api, Problem,
    events::{self, SendParams, WaitParams},
    extract::{self, Given, SEND},
    requests::{Route, UnderWay},
    routes::nothing_here,
};
use crate::node::HANDED_ON;
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
use std::convert::Infallible;

/// All addresses of the API.
pub struct Front<E: Engine> {
    api: Api<E>,
    router: TowerToHyperService<Router>,
}

impl<E: Engine> Front<E> {
    pub(super) fn new(api: Api<E>, router: Router) -> Self {
        Self { api, router: TowerToHyperService::new(router) }
    }
}

impl<E: Engine> Clone for Front<E> {
    fn clone(&self) -> Self {
        Self { api: self.api.clone(), router: self.router.clone() }
    }
}

impl<E: Engine> Service<Request<Incoming>> for Front<E> {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let address = Address::of(request.method(), request.uri().path());
        // What is traced, has parameters, or is to be answered by name is the router's.
        let is_plain = request.uri().query().is_none() && !request.headers().contains_key(HANDED_ON);
        match address.filter(|_| is_plain && self.api.sampler.is_none()) {
            Some(Address { verb, .. }) => Box::pin(watched(self.api.clone(), verb, request)),
            None => Box::pin(self.router.call(request)),
        }
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

async fn watched<E: Engine>(api: Api<E>, verb: Verb, request: Request<Incoming>) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let mut under_way = UnderWay::begin(api.clone(), &parts.method, Route::Known(verb.route()));
    let response = answer(api, parts, body).await.unwrap_or_else(IntoResponse::into_response);
    under_way.answered(response.status());
    Ok(response)
}

async fn answer<E: Engine>(api: Api<E>, parts: Parts, body: Incoming) -> Result<Response, Problem> {
    let Parts { method, uri, headers, .. } = parts;
    let Some(Address { universe, world, verb, event }) = Address::of(&method, uri.path()) else {
        return Err(nothing_here(method, uri).await);
    };
    let universe = extract::enter(&api, &headers, universe, SEND).await?;
    let world = extract::world_of(&universe, world)?;
    let event = extract::name(event)?;
    let given = Given::of(headers, body, &api).await?;
    match verb {
        Verb::Call => events::make_call(&api, &universe, world, event, &WaitParams::default(), given).await,
        Verb::Send => events::make_send(&universe, world, event, SendParams::default(), given).await,
    }
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
