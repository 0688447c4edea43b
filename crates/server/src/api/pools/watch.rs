//! The policy by which a pool is watched, and the heartbeats of holders.

use super::{
    PoolScope,
    forms::HolderForm,
    refused,
    sending::{holder_of, lease_of},
};
use crate::api::{
    Problem,
    extract::{ADMIN, JsonBody, READ, SEND_ALWAYS},
};
use axum::{Json, http::StatusCode};
use mundi_model::{
    pool::LeaseAuthority,
    watch::{WatchPolicy, WatchProbe},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// When the leases of a pool are revoked, and how long after that they are reclaimed.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WatchForm {
    /// Revoke leases whose holder is a world that was deleted or archived.
    holder_ended: bool,
    /// Revoke leases whose holder is no world and sent no heartbeat for so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_after_ms: Option<u64>,
    /// Revoke leases whose probe fails again and again.
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<ProbeForm>,
    /// Reclaim so long after a revoke by the watcher; left out, someone else reclaims.
    #[serde(skip_serializing_if = "Option::is_none")]
    reclaim_after_ms: Option<u64>,
}

/// A GET by the rules of `http.request` that is well if its status is from 200 to 299.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProbeForm {
    /// `{lease}`, `{epoch}`, `{holder}` and `{resource}` are filled in; with `{resource}` every member of a lease is probed.
    url: String,
    /// So many failures in a row revoke a lease: 3 if nothing is said.
    failures_max: Option<u32>,
    /// How long an answer may take: 5000 if nothing is said.
    timeout_ms: Option<u64>,
}

/// How a pool is watched.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Watch {
    pool: String,
    /// Null if it is not watched.
    watch: Option<WatchForm>,
}

impl From<WatchForm> for WatchPolicy {
    fn from(form: WatchForm) -> Self {
        let WatchForm { holder_ended, silent_after_ms, probe, reclaim_after_ms } = form;
        let probe = probe.map(|ProbeForm { url, failures_max, timeout_ms }| WatchProbe {
            url,
            failures_max: failures_max.unwrap_or(mundi_model::limits::WATCH_PROBE_FAILURES_DEFAULT),
            timeout_ms: timeout_ms.unwrap_or(mundi_model::limits::WATCH_PROBE_TIMEOUT_MS_DEFAULT),
        });
        Self { holder_ended, silent_after_ms, probe, reclaim_after_ms }
    }
}

impl From<WatchPolicy> for WatchForm {
    fn from(policy: WatchPolicy) -> Self {
        let WatchPolicy { holder_ended, silent_after_ms, probe, reclaim_after_ms } = policy;
        let probe = probe.map(|WatchProbe { url, failures_max, timeout_ms }| ProbeForm {
            url,
            failures_max: Some(failures_max),
            timeout_ms: Some(timeout_ms),
        });
        Self { holder_ended, silent_after_ms, probe, reclaim_after_ms }
    }
}

async fn watch_of<const VERB: u32>(scope: &PoolScope<VERB>) -> Result<Json<Watch>, Problem> {
    let PoolScope { universe, pool, .. } = scope;
    let policy = universe.ops().pool_watch(pool).await.map_err(refused)?;
    Ok(Json(Watch { pool: pool.name.to_string(), watch: policy.map(WatchForm::from) }))
}

/// The policy by which a pool is watched.
#[utoipa::path(
    get, path = "/v1/u/{universe}/pools/{pool}/watch", tag = "pools", responses((status = 200, body = Watch)),
)]
pub(crate) async fn watch(scope: PoolScope<READ>) -> Result<Json<Watch>, Problem> {
    watch_of(&scope).await
}

/// Has a pool watched by a policy, in place of the one before. It needs a process with the role `watcher`.
#[utoipa::path(
    put, path = "/v1/u/{universe}/pools/{pool}/watch", tag = "pools", request_body = WatchForm,
    responses((status = 200, body = Watch)),
)]
pub(crate) async fn set_watch(
    scope: PoolScope<ADMIN>,
    JsonBody(form): JsonBody<WatchForm>,
) -> Result<Json<Watch>, Problem> {
    scope.universe.ops().pool_set_watch(&scope.pool, Some(form.into())).await.map_err(refused)?;
    watch_of(&scope).await
}

/// Has a pool watched by nobody. Leases that a watcher revoked and did not reclaim yet stay as they are.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/pools/{pool}/watch", tag = "pools",
    responses((status = 204, description = "It is not watched")),
)]
pub(crate) async fn unwatch(PoolScope { universe, pool, .. }: PoolScope<ADMIN>) -> Result<StatusCode, Problem> {
    universe.ops().pool_set_watch(&pool, None).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The holder of an active lease says that it is there. A holder that has lost its authority is refused with `STALE_EPOCH`: it must stop.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/heartbeat", tag = "pools", request_body = HolderForm,
    responses((status = 204, description = "It was heard")),
)]
pub(crate) async fn heartbeat(
    PoolScope { universe, pool, .. }: PoolScope<SEND_ALWAYS>,
    JsonBody(form): JsonBody<HolderForm>,
) -> Result<StatusCode, Problem> {
    let (lease, holder) = (lease_of(&form.lease_id)?, holder_of(&form.holder)?);
    let authority = LeaseAuthority { epoch: form.lease_epoch, holder };
    universe.ops().pool_beat(&pool, lease, authority).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}
