//! Which address is which handler, and the document that says so.

use super::{
    Api, Problem, access, blobs, bundles, dead_letters, effects, events, health, journal, programs, requests,
    snapshots, state, tasks, timers, tokens, universes, verify, workers, worlds,
};
use axum::{
    Json, Router,
    http::{Method, Uri},
    middleware::from_fn_with_state,
    response::IntoResponse,
    routing::{delete, get, post, put},
};
use mundi_engine::Engine;
use mundi_model::Code;
use utoipa::{
    OpenApi,
    openapi::{
        ContentBuilder, Ref, RefOr, ResponseBuilder,
        path::{Operation, ParameterBuilder, ParameterIn},
        schema::{ObjectBuilder, Type},
    },
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Mundi",
        description = "Durable deterministic worlds over HTTP. Every refusal is a problem (RFC 9457) with a stable code."
    ),
    paths(
        health::livez,
        health::readyz,
        health::metrics,
        universes::list,
        universes::create,
        universes::describe,
        tokens::list,
        tokens::create,
        tokens::revoke,
        programs::list,
        programs::put,
        programs::describe,
        programs::put_manifest,
        programs::manifest,
        worlds::list,
        worlds::create,
        worlds::describe,
        worlds::delete,
        worlds::fork,
        worlds::pause,
        worlds::resume,
        worlds::upgrade,
        worlds::archive,
        worlds::unarchive,
        worlds::lineage,
        verify::verify,
        verify::rehearse,
        bundles::export,
        bundles::import,
        events::send,
        events::call,
        events::reply,
        events::batch,
        state::query,
        state::cells,
        state::cell,
        state::diff,
        journal::journal,
        snapshots::list,
        snapshots::take,
        snapshots::promote,
        snapshots::export,
        effects::list,
        effects::describe,
        effects::retry,
        effects::cancel,
        tasks::claim,
        tasks::heartbeat,
        tasks::complete,
        tasks::fail,
        timers::list,
        dead_letters::list,
        dead_letters::describe,
        dead_letters::drop_one,
        dead_letters::bulk,
        workers::list,
        workers::drain,
        workers::assignments,
        workers::leases,
        workers::assign,
        workers::unassign,
        blobs::put,
        blobs::put_at,
        blobs::get,
    ),
    components(schemas(super::problem::Body<'static>))
)]
struct Document;

/// The document of the API (OpenAPI 3.1).
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    for (path, item) in &mut document.paths.paths {
        let methods = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete];
        methods.into_iter().flatten().for_each(|operation| complete(path, operation));
    }
    document
}

/// What all operations share: the parameters in the address, and the problem that every refusal is.
fn complete(path: &str, operation: &mut Operation) {
    let names = path.split(['{', '}']).skip(1).step_by(2);
    let text = || ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).build();
    let params = names.map(|name| {
        let required = utoipa::openapi::Required::True;
        let param = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(required);
        RefOr::T(param.schema(Some(text())).build())
    });
    operation.parameters.get_or_insert_default().extend(params);
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let refusal = ResponseBuilder::new().description("A refusal").content("application/problem+json", problem).build();
    operation.responses.responses.insert("default".to_owned(), RefOr::T(refusal));
}

/// All addresses, behind the guard; life and readiness stand before it.
pub fn router<E: Engine>(api: Api<E>) -> Router {
    let guarded = Router::new()
        .route("/metrics", get(health::metrics::<E>))
        .route("/v1/universes", get(universes::list::<E>).post(universes::create::<E>))
        .route("/v1/tokens", get(tokens::list::<E>).post(tokens::create::<E>))
        .route("/v1/tokens/{token}", delete(tokens::revoke::<E>))
        .nest("/v1/u/{universe}", in_universe())
        .nest("/v1/u/{universe}/worlds/{world}", of_world())
        .layer(from_fn_with_state(api.clone(), access::guard::<E>));
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz::<E>))
        .route("/openapi.json", get(async || Json(openapi())))
        .merge(guarded)
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .layer(from_fn_with_state(api.clone(), requests::watch::<E>))
        .with_state(api)
}

/// Life, readiness and metrics alone: what a process shows that does not answer for worlds.
pub fn health_router<E: Engine>(api: Api<E>) -> Router {
    let guard = from_fn_with_state(api.clone(), access::guard::<E>);
    Router::new()
        .route("/metrics", get(health::metrics::<E>).layer(guard))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz::<E>))
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .layer(from_fn_with_state(api.clone(), requests::watch::<E>))
        .with_state(api)
}

fn in_universe<E: Engine>() -> Router<Api<E>> {
    Router::new()
        .route("/", get(universes::describe::<E>))
        .route("/programs", get(programs::list::<E>))
        .route("/programs/{hash}", get(programs::describe::<E>).put(programs::put::<E>))
        .route("/manifests", post(programs::put_manifest::<E>))
        .route("/manifests/{hash}", get(programs::manifest::<E>))
        .route("/worlds", get(worlds::list::<E>).post(worlds::create::<E>))
        .route("/effects", get(effects::list::<E>))
        .route("/effects/{effect}", get(effects::describe::<E>))
        .route("/effects/retry/{effect}", post(effects::retry::<E>))
        .route("/effects/cancel/{effect}", post(effects::cancel::<E>))
        .route("/tasks/claim", post(tasks::claim::<E>))
        .route("/tasks/heartbeat", post(tasks::heartbeat::<E>))
        .route("/tasks/complete", post(tasks::complete::<E>))
        .route("/tasks/fail", post(tasks::fail::<E>))
        .route("/timers", get(timers::list::<E>))
        .route("/dead-letters", get(dead_letters::list::<E>).post(dead_letters::bulk::<E>))
        .route("/dead-letters/{letter}", get(dead_letters::describe::<E>).delete(dead_letters::drop_one::<E>))
        .route("/workers", get(workers::list::<E>))
        .route("/workers/drain/{worker}", post(workers::drain::<E>))
        .route("/assignments/{worker}", get(workers::assignments::<E>))
        .route("/leases", get(workers::leases::<E>))
        .route("/bundles", post(bundles::import::<E>))
        .route("/blobs", post(blobs::put::<E>))
        .route("/blobs/{hash}", get(blobs::get::<E>).put(blobs::put_at::<E>))
}

fn of_world<E: Engine>() -> Router<Api<E>> {
    Router::new()
        .route("/", get(worlds::describe::<E>).delete(worlds::delete::<E>))
        .route("/fork", post(worlds::fork::<E>))
        .route("/pause", post(worlds::pause::<E>))
        .route("/resume", post(worlds::resume::<E>))
        .route("/upgrade", post(worlds::upgrade::<E>))
        .route("/archive", post(worlds::archive::<E>))
        .route("/unarchive", post(worlds::unarchive::<E>))
        .route("/lineage", get(worlds::lineage::<E>))
        .route("/verify", post(verify::verify::<E>))
        .route("/rehearse", post(verify::rehearse::<E>))
        .route("/bundle", get(bundles::export::<E>))
        .route("/send/{event}", post(events::send::<E>))
        .route("/call/{event}", post(events::call::<E>))
        .route("/calls/{call}", get(events::reply::<E>))
        .route("/events", post(events::batch::<E>))
        .route("/query/{query}", post(state::query::<E>))
        .route("/cells", get(state::cells::<E>))
        .route("/cells/{*key}", get(state::cell::<E>))
        .route("/diff", get(state::diff::<E>))
        .route("/journal", get(journal::journal::<E>))
        .route("/snapshots", get(snapshots::list::<E>).post(snapshots::take::<E>))
        .route("/baseline", post(snapshots::promote::<E>))
        .route("/segments", post(snapshots::export::<E>))
        .route("/assignment", put(workers::assign::<E>).delete(workers::unassign::<E>))
}

async fn nothing_here(method: Method, uri: Uri) -> impl IntoResponse {
    Problem::new(Code::RouteNotFound, format!("nothing is served at {method} {}", uri.path()))
}
