//! The routes and the OpenAPI document.

use super::{
    Api, HotRoutes, Problem, Routes, blobs, bulk, bundles, children, console, dead_letters, effects, events, forks,
    functions, health, journal, labels, logs, pools, program_names, programs, quotas, requests::Watch, snapshots,
    space, sql, state, steps, summary, tasks, timers, tokens, universe_events, universes, verify, whoami, why, workers,
    world_commands, worlds,
};
use crate::mcp;
use axum::{
    Router,
    http::{Method, Uri, header},
    response::{IntoResponse, Response},
    routing::{delete, get, post, put},
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::Code;
use std::sync::OnceLock;
use utoipa::OpenApi;

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
        summary::summary,
        space::usage,
        space::describe,
        space::request,
        whoami::whoami,
        tokens::list,
        tokens::create,
        tokens::revoke,
        quotas::set_of_token,
        quotas::describe,
        quotas::set,
        programs::list,
        program_names::versions,
        program_names::name,
        programs::put,
        programs::describe,
        programs::delete,
        programs::put_manifest,
        programs::manifest,
        programs::delete_manifest,
        worlds::list,
        worlds::create,
        worlds::describe,
        bulk::count,
        bulk::bulk,
        labels::label,
        why::why,
        sql::sql,
        universe_events::events,
        world_commands::delete,
        forks::fork,
        world_commands::pause,
        world_commands::resume,
        world_commands::retry,
        world_commands::skip,
        world_commands::upgrade,
        world_commands::archive,
        world_commands::unarchive,
        forks::lineage,
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
        functions::list,
        functions::describe,
        functions::run,
        functions::cancel,
        functions::pause,
        steps::step,
        journal::journal,
        logs::logs,
        snapshots::list,
        snapshots::take,
        snapshots::promote,
        snapshots::export,
        effects::list,
        effects::describe,
        effects::retry,
        effects::cancel,
        effects::answer,
        tasks::claim,
        tasks::heartbeat,
        tasks::complete,
        tasks::fail,
        timers::list,
        children::list,
        children::describe,
        children::spawn,
        children::cancel,
        children::events,
        children::budget,
        children::set_budget,
        children::claim,
        children::start,
        children::heartbeat,
        children::report,
        children::complete,
        children::fail,
        pools::list,
        pools::create,
        pools::describe,
        pools::delete,
        pools::resources,
        pools::create_resources,
        pools::resource,
        pools::leases,
        pools::lease,
        pools::ticket,
        pools::reserve,
        pools::enqueue,
        pools::cancel,
        pools::activate,
        pools::release,
        pools::revoke,
        pools::reclaim,
        pools::heartbeat,
        pools::watch,
        pools::set_watch,
        pools::unwatch,
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
    super::document::complete(Document::openapi())
}

/// The document as it is sent, made once: it takes some milliseconds, and anyone may ask for it.
async fn document() -> Result<Response, Problem> {
    static DOCUMENT: OnceLock<Result<Bytes, String>> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| openapi().to_json().map(Bytes::from).map_err(|error| error.to_string()));
    let document = document.clone().map_err(|error| Problem::new(Code::EngineFailed, error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], document).into_response())
}

/// All addresses. Each stands with its whole path: routers within routers cost every request more than its handler does.
pub fn router<E: Engine>(api: Api<E>) -> HotRoutes<E> {
    let router = Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz::<E>))
        .route("/metrics", get(health::metrics::<E>))
        .route("/openapi.json", get(document))
        .route("/v1/whoami", get(whoami::whoami::<E>))
        .route("/v1/universes", get(universes::list::<E>).post(universes::create::<E>))
        .route("/v1/universes/{name}/quotas", put(quotas::set::<E>))
        .route("/v1/tokens", get(tokens::list::<E>).post(tokens::create::<E>))
        .route("/v1/tokens/{token}", delete(tokens::revoke::<E>))
        .route("/v1/tokens/{token}/quotas", put(quotas::set_of_token::<E>));
    let router = mcp::route(of_pool(of_world(in_universe(router))), api.clone());
    HotRoutes::new(api.clone(), watched(console::serve(router), api))
}

/// Life, readiness and metrics alone: what a process shows that does not answer for worlds.
pub fn health_router<E: Engine>(api: Api<E>) -> Routes {
    let router = Router::new()
        .route("/metrics", get(health::metrics::<E>))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz::<E>));
    Routes::new(&api.clone(), watched(router, api))
}

fn watched<E: Engine>(router: Router<Api<E>>, api: Api<E>) -> Router {
    router.fallback(nothing_here).method_not_allowed_fallback(nothing_here).layer(Watch(api.clone())).with_state(api)
}

fn in_universe<E: Engine>(router: Router<Api<E>>) -> Router<Api<E>> {
    let at = |path| format!("/v1/u/{{universe}}{path}");
    router
        .route(&at(""), get(universes::describe::<E>))
        .route(&at("/summary"), get(summary::summary::<E>))
        .route(&at("/events"), get(universe_events::events::<E>))
        .route(&at("/usage"), get(space::usage::<E>))
        .route(&at("/quotas"), get(quotas::describe::<E>))
        .route(&at("/sweep"), get(space::describe::<E>).post(space::request::<E>))
        .route(&at("/programs"), get(programs::list::<E>))
        .route(&at("/programs/{program}/versions"), get(program_names::versions::<E>).post(program_names::name::<E>))
        .route(
            &at("/programs/{program}"),
            get(programs::describe::<E>).put(programs::put::<E>).delete(programs::delete::<E>),
        )
        .route(&at("/manifests"), post(programs::put_manifest::<E>))
        .route(&at("/manifests/{manifest}"), get(programs::manifest::<E>).delete(programs::delete_manifest::<E>))
        .route(&at("/worlds"), get(worlds::list::<E>).post(worlds::create::<E>))
        .route(&at("/world-count"), get(bulk::count::<E>))
        .route(&at("/bulk"), post(bulk::bulk::<E>))
        .route(&at("/sql"), post(sql::sql::<E>))
        .route(&at("/pools"), get(pools::list::<E>).post(pools::create::<E>))
        .route(&at("/effects"), get(effects::list::<E>))
        .route(&at("/effects/{effect}"), get(effects::describe::<E>))
        .route(&at("/effects/retry/{effect}"), post(effects::retry::<E>))
        .route(&at("/effects/cancel/{effect}"), post(effects::cancel::<E>))
        .route(&at("/effects/answer/{effect}"), post(effects::answer::<E>))
        .route(&at("/tasks/claim"), post(tasks::claim::<E>))
        .route(&at("/tasks/heartbeat"), post(tasks::heartbeat::<E>))
        .route(&at("/tasks/complete"), post(tasks::complete::<E>))
        .route(&at("/tasks/fail"), post(tasks::fail::<E>))
        .route(&at("/tasks/children/claim"), post(children::claim::<E>))
        .route(&at("/tasks/children/start"), post(children::start::<E>))
        .route(&at("/tasks/children/heartbeat"), post(children::heartbeat::<E>))
        .route(&at("/tasks/children/report"), post(children::report::<E>))
        .route(&at("/tasks/children/complete"), post(children::complete::<E>))
        .route(&at("/tasks/children/fail"), post(children::fail::<E>))
        .route(&at("/timers"), get(timers::list::<E>))
        .route(&at("/dead-letters"), get(dead_letters::list::<E>).post(dead_letters::bulk::<E>))
        .route(&at("/dead-letters/{letter}"), get(dead_letters::describe::<E>).delete(dead_letters::drop_one::<E>))
        .route(&at("/workers"), get(workers::list::<E>))
        .route(&at("/workers/drain/{worker}"), post(workers::drain::<E>))
        .route(&at("/assignments/{worker}"), get(workers::assignments::<E>))
        .route(&at("/leases"), get(workers::leases::<E>))
        .route(&at("/bundles"), post(bundles::import::<E>))
        .route(&at("/blobs"), post(blobs::put::<E>))
        .route(&at("/blobs/{hash}"), get(blobs::get::<E>).put(blobs::put_at::<E>))
}

fn of_world<E: Engine>(router: Router<Api<E>>) -> Router<Api<E>> {
    let at = |path| format!("/v1/u/{{universe}}/worlds/{{world}}{path}");
    router
        .route(&at(""), get(worlds::describe::<E>).delete(world_commands::delete::<E>))
        .route(&at("/fork"), post(forks::fork::<E>))
        .route(&at("/pause"), post(world_commands::pause::<E>))
        .route(&at("/resume"), post(world_commands::resume::<E>))
        .route(&at("/retry"), post(world_commands::retry::<E>))
        .route(&at("/skip"), post(world_commands::skip::<E>))
        .route(&at("/labels"), post(labels::label::<E>))
        .route(&at("/why"), get(why::why::<E>))
        .route(&at("/logs"), get(logs::logs::<E>))
        .route(&at("/upgrade"), post(world_commands::upgrade::<E>))
        .route(&at("/archive"), post(world_commands::archive::<E>))
        .route(&at("/unarchive"), post(world_commands::unarchive::<E>))
        .route(&at("/lineage"), get(forks::lineage::<E>))
        .route(&at("/verify"), post(verify::verify::<E>))
        .route(&at("/rehearse"), post(verify::rehearse::<E>))
        .route(&at("/bundle"), get(bundles::export::<E>))
        .route(&at("/send/{event}"), post(events::send::<E>))
        .route(&at("/call/{event}"), post(events::call::<E>))
        .route(&at("/calls/{call}"), get(events::reply::<E>))
        .route(&at("/events"), post(events::batch::<E>))
        .route(&at("/query/{query}"), post(state::query::<E>))
        .route(&at("/cells"), get(state::cells::<E>))
        .route(&at("/cells/{*key}"), get(state::cell::<E>))
        .route(&at("/diff"), get(state::diff::<E>))
        .route(&at("/functions"), get(functions::list::<E>))
        .route(
            &at("/functions/{*instance}"),
            get(functions::describe::<E>)
                .post(functions::run::<E>)
                .delete(functions::cancel::<E>)
                .put(functions::pause::<E>),
        )
        .route(&at("/steps/{height}"), get(steps::step::<E>))
        .route(&at("/journal"), get(journal::journal::<E>))
        .route(&at("/snapshots"), get(snapshots::list::<E>).post(snapshots::take::<E>))
        .route(&at("/baseline"), post(snapshots::promote::<E>))
        .route(&at("/segments"), post(snapshots::export::<E>))
        .route(&at("/children"), get(children::list::<E>).post(children::spawn::<E>))
        .route(&at("/children/{child}"), get(children::describe::<E>))
        .route(&at("/children/{child}/cancel"), post(children::cancel::<E>))
        .route(&at("/children/{child}/events"), get(children::events::<E>))
        .route(&at("/budget"), get(children::budget::<E>).put(children::set_budget::<E>))
        .route(&at("/assignment"), put(workers::assign::<E>).delete(workers::unassign::<E>))
}

fn of_pool<E: Engine>(router: Router<Api<E>>) -> Router<Api<E>> {
    let at = |path| format!("/v1/u/{{universe}}/pools/{{pool}}{path}");
    router
        .route(&at(""), get(pools::describe::<E>).delete(pools::delete::<E>))
        .route(&at("/resources"), get(pools::resources::<E>).post(pools::create_resources::<E>))
        .route(&at("/resources/{resource}"), get(pools::resource::<E>))
        .route(&at("/leases"), get(pools::leases::<E>))
        .route(&at("/leases/{lease}"), get(pools::lease::<E>))
        .route(&at("/tickets/{ticket}"), get(pools::ticket::<E>))
        .route(&at("/reserve"), post(pools::reserve::<E>))
        .route(&at("/enqueue"), post(pools::enqueue::<E>))
        .route(&at("/cancel"), post(pools::cancel::<E>))
        .route(&at("/activate"), post(pools::activate::<E>))
        .route(&at("/release"), post(pools::release::<E>))
        .route(&at("/revoke"), post(pools::revoke::<E>))
        .route(&at("/reclaim"), post(pools::reclaim::<E>))
        .route(&at("/heartbeat"), post(pools::heartbeat::<E>))
        .route(&at("/watch"), get(pools::watch::<E>).put(pools::set_watch::<E>).delete(pools::unwatch::<E>))
}

pub(super) async fn nothing_here(method: Method, uri: Uri) -> Problem {
    Problem::new(Code::RouteNotFound, format!("nothing is served at {method} {}", uri.path()))
}
