//! The rights of a request's token, so that a client offers nothing that would be refused.

use super::{
    Api, Problem,
    access::{Access, By, names_of},
};
use axum::{Json, extract::State};
use mundi_model::hex;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Caller {
    /// The label of the token; `local` for a caller without one, on a server that asks for none.
    name: String,
    /// The id of the token, which is not its secret.
    token: Option<String>,
    /// The name of the only universe that it is for; null for all.
    universe: Option<String>,
    /// Of `read`, `send`, `admin`, `work`, `metrics`.
    can: Vec<String>,
    /// Whether the server answers only those who show a token.
    tokens_required: bool,
    /// The version of the server.
    version: &'static str,
}

/// The caller's rights. Any token may ask.
#[utoipa::path(get, path = "/v1/whoami", tag = "tokens", responses((status = 200, body = Caller)))]
pub(super) async fn whoami(State(api): State<Api>, access: Access, By(operator): By) -> Result<Json<Caller>, Problem> {
    let (universe, verbs) = access.bounds();
    let named =
        |id| api.node.universes().iter().find(|it| it.id() == id).map_or(id.to_string(), |it| it.name().to_owned());
    Ok(Json(Caller {
        name: operator.name,
        token: operator.token.map(|token| hex(&token.to_be_bytes())),
        universe: universe.map(named),
        can: names_of(verbs),
        tokens_required: api.access.tokens_required,
        version: env!("CARGO_PKG_VERSION"),
    }))
}
