//! Quotas of universes and tokens.

use super::{
    Problem,
    extract::{ADMIN, AllUniverses, JsonBody, Name, READ, UniverseScope},
    tokens,
};
use crate::quotas::{QuotaLimits, QuotaUse};
use axum::{Json, http::StatusCode};
use mundi_model::Code;
use mundi_runtime::Plane;
use mundi_store::{
    protocol::{ReadQuotas, SetTokenQuotas, WriteQuotas},
    values::Quotas,
};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// One quota, and what counts against it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UsedQuota {
    /// Null where nothing is limited.
    limit: Option<u64>,
    /// The use that counts against it: of this process, or of the universe at its last count. Null where it is not counted.
    current: Option<u64>,
}

/// The quotas of a universe.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UniverseQuotas {
    /// The limits that were set for it by the API.
    set: QuotaLimits,
    /// The configured limits, for those that were not set.
    configured: QuotaLimits,
    /// All quotas by their names, as they hold.
    quotas: BTreeMap<&'static str, UsedQuota>,
}

pub(super) fn by_name(uses: Vec<QuotaUse>) -> BTreeMap<&'static str, UsedQuota> {
    let one = |QuotaUse { quota, limit, current }| (quota.as_str(), UsedQuota { limit, current });
    uses.into_iter().map(one).collect()
}

/// The quotas of a universe, and what counts against them in this process.
#[utoipa::path(get, path = "/v1/u/{universe}/quotas", tag = "quotas", responses((status = 200, body = UniverseQuotas)))]
pub(super) async fn describe(
    UniverseScope { universe, .. }: UniverseScope<READ>,
) -> Result<Json<UniverseQuotas>, Problem> {
    let set = universe.plane().run(&ReadQuotas { universe: universe.id() }).await?.output;
    let quotas = universe.quotas();
    quotas.set(set);
    quotas.counted(universe.plane()).await?;
    Ok(Json(UniverseQuotas {
        set: set.unwrap_or_default().into(),
        configured: quotas.configured().into(),
        quotas: by_name(quotas.uses()),
    }))
}

/// Sets the quotas of a universe, in place of all that were set before. What is left out is as the configuration says. Processes
/// of a fleet go by it within a second.
#[utoipa::path(
    put, path = "/v1/universes/{name}/quotas", tag = "quotas", request_body = QuotaLimits,
    responses((status = 204, description = "Done")),
)]
pub(super) async fn set(
    // Who administers one universe does not decide how much of the whole it has.
    AllUniverses(api): AllUniverses<ADMIN>,
    Name(name): Name,
    JsonBody(limits): JsonBody<QuotaLimits>,
) -> Result<StatusCode, Problem> {
    let missing = || Problem::new(Code::UniverseNotFound, format!("there is no universe `{name}`"));
    let universe = api.node.universe(&name).ok_or_else(missing)?;
    let quotas = set_of(limits);
    universe.plane().run(&WriteQuotas { universe: universe.id(), quotas }).await?;
    universe.quotas().set(quotas);
    Ok(StatusCode::NO_CONTENT)
}

/// Sets the quotas of a token, in place of those that it had. What is left out is as the configuration says.
#[utoipa::path(
    put, path = "/v1/tokens/{token}/quotas", tag = "tokens", request_body = QuotaLimits,
    responses((status = 204, description = "Done")),
)]
pub(super) async fn set_of_token(
    AllUniverses(api): AllUniverses<ADMIN>,
    Name(name): Name,
    JsonBody(limits): JsonBody<QuotaLimits>,
) -> Result<StatusCode, Problem> {
    let missing = || Problem::new(Code::TokenNotFound, format!("no token has the id `{name}`"));
    let id = tokens::id(&name).ok_or_else(missing)?;
    check_of_token(&limits)?;
    match api.node.plane().run(&SetTokenQuotas { id, quotas: set_of(limits) }).await?.output {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(missing()),
    }
}

/// A quota that a token cannot have would be kept and never looked at.
pub(super) fn check_of_token(limits: &QuotaLimits) -> Result<(), Problem> {
    match limits.only_of_universes() {
        Some(quota) => {
            Err(Problem::invalid(format!("`{}` is a quota of universes: a token cannot have it", quota.as_str())))
        }
        None => Ok(()),
    }
}

/// Nothing that was said is nothing that is kept.
pub(super) fn set_of(limits: QuotaLimits) -> Option<Quotas> {
    Some(Quotas::from(limits)).filter(|quotas| *quotas != Quotas::default())
}
