//! Tokens. Their secrets are shown once.

use super::{
    Problem,
    access::{NewToken, names_of, verbs_of},
    extract::{ADMIN, AllUniverses, JsonBody, Name},
    moment::Moment,
    quotas::check_of_token,
};
use crate::{quotas::QuotaLimits, serve::Connection};
use axum::{
    Extension, Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use mundi_model::{Code, hex, limits, parse_hex};
use mundi_runtime::Plane;
use mundi_store::{
    protocol::{ListTokens, WriteToken},
    values::{TokenId, TokenRecord},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Token {
    id: String,
    /// Null for all.
    universe: Option<String>,
    can: Vec<String>,
    label: String,
    created_at_ns: u64,
    created_at: Moment,
    /// The limits that were set for it.
    quotas: QuotaLimits,
    /// Only in the answer to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl Token {
    fn new(id: TokenId, record: TokenRecord, token: Option<String>) -> Self {
        let TokenRecord { universe, verbs, created_at_ns, label, quotas, .. } = record;
        let (universe, quotas) = (universe.map(|universe| universe.to_string()), quotas.unwrap_or_default().into());
        let (id, can, created_at) = (hex(&id.to_be_bytes()), names_of(verbs), Moment::of(created_at_ns));
        Self { id, universe, can, label, created_at_ns, created_at, quotas, token }
    }
}

/// A new token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTokenForm {
    /// The name or the id of the only universe that it is for; all if it is not given.
    universe: Option<String>,
    /// Of `read`, `send`, `admin`, `work`, `metrics`.
    can: Vec<String>,
    #[serde(default)]
    label: String,
    /// The quotas of the token; those that are left out are as configured.
    #[serde(default)]
    quotas: QuotaLimits,
}

/// The id of a token, as it is written.
pub(super) fn id(name: &str) -> Option<TokenId> {
    parse_hex(name).map(u64::from_be_bytes)
}

/// Makes a token, and shows it this once.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", request_body = NewTokenForm, responses((status = 201, body = Token)),
)]
pub(super) async fn create(
    AllUniverses(api): AllUniverses<ADMIN>,
    JsonBody(new): JsonBody<NewTokenForm>,
) -> Result<Response, Problem> {
    let verbs = verbs_of(&new.can)?;
    if verbs == 0 || new.label.len() > limits::NAME_BYTES_MAX {
        return Err(Problem::invalid("`can` is empty, or the label too long"));
    }
    check_of_token(&new.quotas)?;
    let unknown = |name: &str| Problem::new(Code::UniverseNotFound, format!("there is no universe `{name}`"));
    let find = |name: String| api.node.universe(&name).map(|found| found.id()).ok_or_else(|| unknown(&name));
    let universe = new.universe.map(find).transpose()?;
    let NewToken { text, id, record } = NewToken::new(api.node.plane(), universe, verbs, new.label, new.quotas);
    api.node.plane().run(&WriteToken { id, record: Some(record.clone()) }).await?;
    let no_store = [(header::CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, no_store, Json(Token::new(id, record, Some(text)))).into_response())
}

/// All tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", responses((status = 200, body = Vec<Token>)))]
pub(super) async fn list(AllUniverses(api): AllUniverses<ADMIN>) -> Result<Json<Vec<Token>>, Problem> {
    let tokens = api.node.plane().run(&ListTokens).await?.output;
    Ok(Json(tokens.into_iter().map(|(id, record)| Token::new(id, record, None)).collect()))
}

/// Revokes a token: from now on it is not known, and within a second whatever was begun with it ends, in every process.
#[utoipa::path(
    delete, path = "/v1/tokens/{token}", tag = "tokens", responses((status = 204, description = "Done")),
)]
pub(super) async fn revoke(
    AllUniverses(api): AllUniverses<ADMIN>,
    Name(name): Name,
    connection: Option<Extension<Connection>>,
) -> Result<StatusCode, Problem> {
    let missing = || Problem::new(Code::TokenNotFound, format!("no token has the id `{name}`"));
    let id = id(&name).ok_or_else(missing)?;
    // A token may revoke itself, and is answered all the same.
    if let Some(Extension(Connection(client))) = connection {
        client.forget_token();
    }
    match api.node.plane().run(&WriteToken { id, record: None }).await?.output {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(missing()),
    }
}
