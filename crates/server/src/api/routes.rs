//! The routes and the OpenAPI document.

use super::{
    Api, HotRoutes, Problem, Routes, blobs, bulk, bundles, checkup, children, console, dead_letters, effects, events,
    forks, functions, health, journal, labels, logs, pools, program_names, programs, quotas, requests::Watch,
    snapshots, space, sql, state, steps, summary, tasks, timers, tokens, universe_events, universes, verify, whoami,
    why, workers, world_commands, worlds,
};
use crate::mcp;
use axum::{
    Router,
    http::{Method, Uri, header},
    response::{IntoResponse, Response},
    routing::{delete, get, post, put},
};
use bytes::Bytes;
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
        checkup::checkup,
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
        children::cancel_all,
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
/// Made once: to make it takes longer than any other answer to a client without a token.
fn made_document() -> Result<Bytes, String> {
    static DOCUMENT: OnceLock<Result<Bytes, String>> = OnceLock::new();
    DOCUMENT.get_or_init(|| openapi().to_json().map(Bytes::from).map_err(|error| error.to_string())).clone()
}

async fn document() -> Result<Response, Problem> {
    let document = made_document().map_err(|error| Problem::new(Code::EngineFailed, error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], document).into_response())
}

/// All addresses. Each stands with its whole path: routers within routers cost every request more than its handler does.
pub fn router(api: Api) -> HotRoutes {
    let router = Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(document))
        .route("/v1/whoami", get(whoami::whoami))
        .route("/v1/checkup", get(checkup::checkup))
        .route("/v1/universes", get(universes::list).post(universes::create))
        .route("/v1/universes/{name}/quotas", put(quotas::set))
        .route("/v1/tokens", get(tokens::list).post(tokens::create))
        .route("/v1/tokens/{token}", delete(tokens::revoke))
        .route("/v1/tokens/{token}/quotas", put(quotas::set_of_token));
    let router = mcp::route(of_pool(of_world(in_universe(router))), api.clone());
    HotRoutes::new(api.clone(), watched(console::serve(router), api))
}

/// Life, readiness and metrics alone: what a process shows that does not answer for worlds.
pub fn health_router(api: Api) -> Routes {
    let router = Router::new()
        .route("/metrics", get(health::metrics))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz));
    Routes::new(&api.clone(), watched(router, api))
}

fn watched(router: Router<Api>, api: Api) -> Router {
    router.fallback(nothing_here).method_not_allowed_fallback(nothing_here).layer(Watch(api.clone())).with_state(api)
}

fn in_universe(router: Router<Api>) -> Router<Api> {
    let at = |path| format!("/v1/u/{{universe}}{path}");
    router
        .route(&at(""), get(universes::describe))
        .route(&at("/summary"), get(summary::summary))
        .route(&at("/events"), get(universe_events::events))
        .route(&at("/usage"), get(space::usage))
        .route(&at("/quotas"), get(quotas::describe))
        .route(&at("/sweep"), get(space::describe).post(space::request))
        .route(&at("/programs"), get(programs::list))
        .route(&at("/programs/{program}/versions"), get(program_names::versions).post(program_names::name))
        .route(&at("/programs/{program}"), get(programs::describe).put(programs::put).delete(programs::delete))
        .route(&at("/manifests"), post(programs::put_manifest))
        .route(&at("/manifests/{manifest}"), get(programs::manifest).delete(programs::delete_manifest))
        .route(&at("/worlds"), get(worlds::list).post(worlds::create))
        .route(&at("/world-count"), get(bulk::count))
        .route(&at("/bulk"), post(bulk::bulk))
        .route(&at("/sql"), post(sql::sql))
        .route(&at("/pools"), get(pools::list).post(pools::create))
        .route(&at("/effects"), get(effects::list))
        .route(&at("/effects/{effect}"), get(effects::describe))
        .route(&at("/effects/retry/{effect}"), post(effects::retry))
        .route(&at("/effects/cancel/{effect}"), post(effects::cancel))
        .route(&at("/effects/answer/{effect}"), post(effects::answer))
        .route(&at("/tasks/claim"), post(tasks::claim))
        .route(&at("/tasks/heartbeat"), post(tasks::heartbeat))
        .route(&at("/tasks/complete"), post(tasks::complete))
        .route(&at("/tasks/fail"), post(tasks::fail))
        .route(&at("/tasks/children/claim"), post(children::claim))
        .route(&at("/tasks/children/start"), post(children::start))
        .route(&at("/tasks/children/heartbeat"), post(children::heartbeat))
        .route(&at("/tasks/children/report"), post(children::report))
        .route(&at("/tasks/children/complete"), post(children::complete))
        .route(&at("/tasks/children/fail"), post(children::fail))
        .route(&at("/timers"), get(timers::list))
        .route(&at("/dead-letters"), get(dead_letters::list).post(dead_letters::bulk))
        .route(&at("/dead-letters/{letter}"), get(dead_letters::describe).delete(dead_letters::drop_one))
        .route(&at("/workers"), get(workers::list))
        .route(&at("/workers/drain/{worker}"), post(workers::drain))
        .route(&at("/assignments/{worker}"), get(workers::assignments))
        .route(&at("/leases"), get(workers::leases))
        .route(&at("/bundles"), post(bundles::import))
        .route(&at("/blobs"), post(blobs::put))
        .route(&at("/blobs/{hash}"), get(blobs::get).put(blobs::put_at))
}

fn of_world(router: Router<Api>) -> Router<Api> {
    let at = |path| format!("/v1/u/{{universe}}/worlds/{{world}}{path}");
    router
        .route(&at(""), get(worlds::describe).delete(world_commands::delete))
        .route(&at("/fork"), post(forks::fork))
        .route(&at("/pause"), post(world_commands::pause))
        .route(&at("/resume"), post(world_commands::resume))
        .route(&at("/retry"), post(world_commands::retry))
        .route(&at("/skip"), post(world_commands::skip))
        .route(&at("/labels"), post(labels::label))
        .route(&at("/why"), get(why::why))
        .route(&at("/logs"), get(logs::logs))
        .route(&at("/upgrade"), post(world_commands::upgrade))
        .route(&at("/archive"), post(world_commands::archive))
        .route(&at("/unarchive"), post(world_commands::unarchive))
        .route(&at("/lineage"), get(forks::lineage))
        .route(&at("/verify"), post(verify::verify))
        .route(&at("/rehearse"), post(verify::rehearse))
        .route(&at("/bundle"), get(bundles::export))
        .route(&at("/send/{event}"), post(events::send))
        .route(&at("/call/{event}"), post(events::call))
        .route(&at("/calls/{call}"), get(events::reply))
        .route(&at("/events"), post(events::batch))
        .route(&at("/query/{query}"), post(state::query))
        .route(&at("/cells"), get(state::cells))
        .route(&at("/cells/{*key}"), get(state::cell))
        .route(&at("/diff"), get(state::diff))
        .route(&at("/functions"), get(functions::list))
        .route(
            &at("/functions/{*instance}"),
            get(functions::describe).post(functions::run).delete(functions::cancel).put(functions::pause),
        )
        .route(&at("/steps/{height}"), get(steps::step))
        .route(&at("/journal"), get(journal::journal))
        .route(&at("/snapshots"), get(snapshots::list).post(snapshots::take))
        .route(&at("/baseline"), post(snapshots::promote))
        .route(&at("/segments"), post(snapshots::export))
        .route(&at("/children"), get(children::list).post(children::spawn))
        .route(&at("/children/cancel"), post(children::cancel_all))
        .route(&at("/children/{child}"), get(children::describe))
        .route(&at("/children/{child}/cancel"), post(children::cancel))
        .route(&at("/children/{child}/events"), get(children::events))
        .route(&at("/budget"), get(children::budget).put(children::set_budget))
        .route(&at("/assignment"), put(workers::assign).delete(workers::unassign))
}

fn of_pool(router: Router<Api>) -> Router<Api> {
    let at = |path| format!("/v1/u/{{universe}}/pools/{{pool}}{path}");
    router
        .route(&at(""), get(pools::describe).delete(pools::delete))
        .route(&at("/resources"), get(pools::resources).post(pools::create_resources))
        .route(&at("/resources/{resource}"), get(pools::resource))
        .route(&at("/leases"), get(pools::leases))
        .route(&at("/leases/{lease}"), get(pools::lease))
        .route(&at("/tickets/{ticket}"), get(pools::ticket))
        .route(&at("/reserve"), post(pools::reserve))
        .route(&at("/enqueue"), post(pools::enqueue))
        .route(&at("/cancel"), post(pools::cancel))
        .route(&at("/activate"), post(pools::activate))
        .route(&at("/release"), post(pools::release))
        .route(&at("/revoke"), post(pools::revoke))
        .route(&at("/reclaim"), post(pools::reclaim))
        .route(&at("/heartbeat"), post(pools::heartbeat))
        .route(&at("/watch"), get(pools::watch).put(pools::set_watch).delete(pools::unwatch))
}

pub(super) async fn nothing_here(method: Method, uri: Uri) -> Problem {
    Problem::new(Code::RouteNotFound, format!("nothing is served at {method} {}", uri.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_the_api_is_made_once() {
        let [one, other] = [made_document().unwrap(), made_document().unwrap()];
        assert_eq!(one.as_ptr(), other.as_ptr());
    }
}
