//! `/mcp`: the streamable HTTP transport, behind the same tokens as the API.
//!
//! It keeps no session: each request shows its token, and a client that hangs up leaves nothing behind.

use super::{
    Ask, Backend, Refusal, Rights, Session,
    protocol::{Message, VERSIONS, answer},
};
use crate::{
    api::{ADMIN, Access, Api, RawBody, SEND},
    serve::Connection,
};
use axum::{
    Json, Router,
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::any,
};
use futures_util::{FutureExt, future::BoxFuture};
use http_body_util::{BodyExt, Limited};
use mundi_model::Code;
use serde_json::Value;
use std::sync::Arc;
use tower_service::Service;

/// The longest answer of the API that a tool reads.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The rights of a request.
struct Granted {
    rights: Rights,
    universe: String,
}

/// The API in this process, asked with the headers and the connection of whoever asks.
struct Inside {
    api: Router,
    authorization: Option<HeaderValue>,
    host: Option<HeaderValue>,
    connection: Option<Connection>,
}

impl Backend for Inside {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Value, Refusal>> {
        let mut api = self.api.clone();
        async move {
            let request = self.request(ask).map_err(|error| Refusal::new(Code::RequestInvalid, error.to_string()))?;
            let response = match api.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            read(response).await
        }
        .boxed()
    }
}

impl Inside {
    fn request(&self, ask: Ask) -> Result<Request, axum::http::Error> {
        let mut request = Request::builder().method(ask.method).uri(ask.path);
        let headers = [(header::AUTHORIZATION, &self.authorization), (header::HOST, &self.host)];
        for (name, value) in headers.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            request = request.header(name, value);
        }
        if let Some(key) = ask.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if let Some(connection) = &self.connection {
            request = request.extension(connection.clone());
        }
        match ask.body {
            Some(body) => request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string())),
            None => request.body(Body::empty()),
        }
    }
}

async fn read(response: Response) -> Result<Value, Refusal> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let bytes = body.map_err(|error| Refusal::new(Code::RequestTooLarge, error.to_string()))?.to_bytes();
    let json: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if status.is_success() { Ok(json) } else { Err(Refusal::of_problem(status.as_u16(), &json)) }
}

/// Only messages are posted: there is no stream and no session to open or to end.
fn refused(parts: &Parts) -> Option<StatusCode> {
    let version = parts.headers.get("mcp-protocol-version").map(|version| version.to_str().unwrap_or_default());
    match (&parts.method, version) {
        (&Method::POST, Some(version)) if !VERSIONS.contains(&version) => Some(StatusCode::BAD_REQUEST),
        (&Method::POST, _) => None,
        _ => Some(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn session(api: &Router, parts: &Parts, granted: Granted) -> Session {
    let header = |name| parts.headers.get(name).cloned();
    let inside = Inside {
        api: api.clone(),
        authorization: header(header::AUTHORIZATION),
        host: header(header::HOST),
        connection: parts.extensions.get::<Connection>().cloned(),
    };
    Session { backend: Arc::new(inside), rights: granted.rights, universe: granted.universe }
}

/// With a token, what it allows. Without one, on a server that asks for none, only reading, unless `?allow=send,admin` asks for more.
fn granted(api: &Api, access: Access, headers: &HeaderMap, query: &str) -> Granted {
    let (bound, verbs) = access.bounds();
    let param = |name: &str| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let has_token = headers.contains_key(header::AUTHORIZATION);
    let allow = param("allow").unwrap_or_default();
    let asked = |verb: &str| has_token || allow.split(',').any(|name| name == verb);
    let rights = Rights { send: verbs & SEND != 0 && asked("send"), admin: verbs & ADMIN != 0 && asked("admin") };
    let own = bound.map(|id| {
        api.node.universes().iter().find(|it| it.id() == id).map_or(id.to_string(), |it| it.name().to_owned())
    });
    let universe = param("universe").or(own).unwrap_or_else(|| "default".to_owned());
    Granted { rights, universe }
}

/// Adds `/mcp` to the routes of the API, on top of all others.
pub(crate) fn route(router: Router<Api>, api: Api) -> Router<Api> {
    let inside = router.clone().with_state(api.clone());
    let serve = move |access: Access, request: Request| {
        let (inside, api) = (inside.clone(), api.clone());
        async move {
            let (parts, body) = request.into_parts();
            if let Some(refused) = refused(&parts) {
                return refused.into_response();
            }
            let RawBody(bytes) = match RawBody::from_request(Request::from_parts(parts.clone(), body), &api).await {
                Ok(body) => body,
                Err(problem) => return problem.into_response(),
            };
            let granted = granted(&api, access, &parts.headers, parts.uri.query().unwrap_or_default());
            match Message::read(&bytes) {
                Ok(Message::Request { id, method, params }) => {
                    Json(answer(&session(&inside, &parts, granted), id, &method, params).await).into_response()
                }
                Ok(Message::Notification { .. }) => StatusCode::ACCEPTED.into_response(),
                Err(refusal) => (StatusCode::BAD_REQUEST, Json(refusal)).into_response(),
            }
        }
    };
    router.route("/mcp", any(serve))
}
