//! Access: tokens, and for a server without tokens the checks of `Host` and `Origin` against web pages.

use super::{
    Api, Problem,
    extract::{self, ADMIN, METRICS, READ, SEND, WORK, text_header},
    revocation,
};
use crate::{
    node::Tenant,
    quotas::QuotaLimits,
    serve::{Client, TokenFull},
};
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use mundi_model::{Code, Hash, UniverseId, hex, parse_hex, record::Operator};
use mundi_runtime::{Plane, control::read_token, metrics::Metric};
use mundi_store::{
    StoreError,
    values::{TokenId, TokenRecord},
};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The rights of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    /// `None` for all.
    universe: Option<UniverseId>,
    verbs: u32,
    tenant: Tenant,
}

const VERBS: [(&str, u32); 5] =
    [("read", READ), ("send", SEND), ("admin", ADMIN), ("work", WORK), ("metrics", METRICS)];

/// The bits of verbs by name.
pub fn verbs_of(names: &[String]) -> Result<u32, Problem> {
    names.iter().try_fold(0, |verbs, name| {
        let verb = VERBS.iter().find(|(verb, _)| verb == name);
        let unknown = || Problem::invalid(format!("`{name}` is no verb: expected read, send, admin, work or metrics"));
        Ok(verbs | verb.ok_or_else(unknown)?.1)
    })
}

/// The names of verbs by their bits.
pub fn names_of(verbs: u32) -> Vec<String> {
    VERBS.iter().filter(|(_, verb)| verbs & verb != 0).map(|(name, _)| (*name).to_owned()).collect()
}

impl Access {
    const EVERYTHING: Self = Self {
        universe: None,
        verbs: READ | SEND | ADMIN | WORK | METRICS,
        tenant: Tenant { token: None, may_read: true },
    };

    /// By the token that a request shows, or by where it comes from.
    pub(crate) async fn decide(api: &Api, headers: &HeaderMap, client: Option<&Arc<Client>>) -> Result<Self, Problem> {
        if let Some(token) = token_text(headers) {
            let known = Box::pin(access_of_token(api, token)).await?; // in a future of its own, so that others stay small
            let (id, access) = known.ok_or_else(|| Problem::new(Code::TokenMissing, "the token is not known"))?;
            if let Some(client) = client {
                show(api, client, id)?;
            }
            return Ok(access);
        }
        if let Some(client) = client {
            client.forget_token();
        }
        if api.access.tokens_required {
            return Err(Problem::new(Code::TokenMissing, "send `Authorization: Bearer TOKEN`"));
        }
        check_origin(headers, &api.access.hosts_allowed)?;
        Ok(Self::EVERYTHING)
    }

    /// `universe` is `None` if there is none of that name: who is bound to another one is told the same.
    pub(crate) fn require(self, verb: u32, universe: Option<UniverseId>) -> Result<(), Problem> {
        self.require_verb(verb)?;
        if self.universe.is_some() && self.universe != universe {
            return Err(Problem::new(Code::TokenDenied, "the token is for another universe"));
        }
        Ok(())
    }

    pub(crate) fn require_everywhere(self, verb: u32) -> Result<(), Problem> {
        self.require_verb(verb)?;
        if self.universe.is_some() {
            return Err(Problem::new(
                Code::TokenDenied,
                "the token is for one universe, and this is about all of them",
            ));
        }
        Ok(())
    }

    /// The metrics of a process cover all its universes: for tokens that may read all of them, or with the verb `metrics`.
    pub(crate) fn require_metrics(self) -> Result<(), Problem> {
        let reads_all = self.verbs & READ != 0 && self.universe.is_none();
        if reads_all { Ok(()) } else { self.require_verb(METRICS) }
    }

    fn require_verb(self, verb: u32) -> Result<(), Problem> {
        if self.verbs & verb == verb {
            return Ok(());
        }
        let missing = names_of(verb & !self.verbs).join(", ");
        Err(Problem::new(Code::TokenDenied, format!("the token does not allow to {missing}")))
    }

    /// The tenant whose quotas hold, in addition to those of the universe.
    pub(crate) fn tenant(self) -> Tenant {
        Tenant { may_read: self.verbs & READ == READ, ..self.tenant }
    }

    /// The only universe that it is for, if it is for one, and the bits of its verbs.
    pub(crate) fn bounds(self) -> (Option<UniverseId>, u32) {
        (self.universe, self.verbs)
    }

    pub(crate) fn sees(self, universe: UniverseId) -> bool {
        self.universe.is_none_or(|own| own == universe)
    }
}

/// A new token: its text, which is shown once, and what is kept of it.
pub struct NewToken {
    pub text: String,
    pub id: TokenId,
    pub record: TokenRecord,
}

impl NewToken {
    pub fn new<P: Plane>(
        plane: &P,
        universe: Option<UniverseId>,
        verbs: u32,
        label: String,
        quotas: QuotaLimits,
    ) -> Self {
        let (id, secret) = (u64::from_be_bytes(plane.random()), plane.random::<32>());
        let (secret_hash, created_at_ns, quotas) = (Hash::of(&secret), plane.now_ns(), super::quotas::set_of(quotas));
        let record = TokenRecord { secret: secret_hash, universe, verbs, created_at_ns, label, quotas };
        Self { text: format!("mundi_{}_{}", hex(&id.to_be_bytes()), hex(&secret)), id, record }
    }
}

/// The token of an `Authorization` header. The name of a scheme has no case (RFC 9110).
fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

fn parse(text: &str) -> Option<(TokenId, Hash)> {
    let (id, secret) = text.strip_prefix("mundi_")?.split_once('_')?;
    Some((u64::from_be_bytes(parse_hex(id)?), Hash::of(&parse_hex::<32>(secret)?)))
}

/// The connection belongs to the token from now on, and ends with it.
fn show(api: &Api, client: &Client, id: TokenId) -> Result<(), Problem> {
    match client.show(id) {
        Ok(None) => {}
        Ok(Some(first)) => revocation::follow(api, id, first),
        Err(TokenFull { max }) => {
            api.node.metrics().add(Metric::RefusedTokenConnections, 1);
            let detail = format!("a token has at most {max} connections at a time");
            return Err(Problem::new(Code::ConnectionsFull, detail));
        }
    }
    Ok(())
}

async fn access_of_token(api: &Api, text: &str) -> Result<Option<(TokenId, Access)>, StoreError> {
    let found = token_of(api, text).await?;
    let defaults = &api.node.config().quotas.per_token;
    Ok(found.map(|(id, TokenRecord { universe, verbs, quotas, .. })| {
        let tenant = Tenant { token: Some((id, quotas.unwrap_or_default().or(defaults))), ..Tenant::default() };
        (id, Access { universe, verbs, tenant })
    }))
}

async fn token_of(api: &Api, text: &str) -> Result<Option<(TokenId, TokenRecord)>, StoreError> {
    let Some((id, secret)) = parse(text) else { return Ok(None) };
    let record = read_token(api.node.plane().engine(), id).await?;
    // Also a token that is not there is compared, so that the time says nothing.
    let stored = record.as_ref().map_or(Hash::of(b""), |record| record.secret);
    let same = bool::from(stored.as_bytes().ct_eq(secret.as_bytes()));
    Ok(record.filter(|_| same).map(|record| (id, record)))
}

/// The operator of a request, for the journal: the token's id and its label. Used together with the extractor that
/// asks for the right to do it.
pub(crate) struct By(pub(crate) Operator);

impl FromRequestParts<Api> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let found = match token_text(&parts.headers) {
            Some(text) => Box::pin(token_of(api, text)).await?,
            None => None,
        };
        let operator = match found {
            Some((id, record)) => Operator { token: Some(id), name: record.label },
            None => Operator { token: None, name: "local".to_owned() },
        };
        Ok(Self(operator))
    }
}

/// The token that a request shows; an empty text for an authorization of another kind.
fn token_text(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?;
    Some(given.to_str().ok().and_then(bearer).unwrap_or_default())
}

/// The rights of a request, or the problem that refuses it. Every handler except those of `/livez` and `/readyz` takes it, alone or within the scope
/// (universe, world) that the request is about.
impl FromRequestParts<Api> for Access {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        Self::decide(api, &parts.headers, extract::client(parts)).await
    }
}

/// A page of another site can make a browser send requests here, by a name that resolves to this machine or across
/// origins. It cannot forge `Host` and `Origin`.
pub(super) fn check_origin(headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let host = text_header(headers, "host").unwrap_or_default();
    let name =
        host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(host, |it| it.0);
    let mut known = ["localhost", "127.0.0.1", "[::1]"].into_iter().chain(allowed.iter().map(String::as_str));
    if !known.any(|known| known.eq_ignore_ascii_case(name)) {
        return Err(Problem::new(Code::OriginDenied, format!("the host `{name}` is not this server's")));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|it| it.1);
    if authority == Some(host) {
        return Ok(());
    }
    Err(Problem::new(Code::OriginDenied, "the request comes from a page of another origin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_loopback_names_and_their_own_pages_are_answered() {
        let check = |host, origin| check_origin(&headers(host, origin), &["box.lan".to_owned()]).is_ok();
        assert!(check("localhost:7600", None) && check("127.0.0.1", None) && check("[::1]:7600", None));
        assert!(check("LocalHost:7600", None) && check("BOX.lan", None));
        assert!(check("box.lan:7600", None) && check("localhost:7600", Some("http://localhost:7600")));
        assert!(!check("evil.example:7600", None) && !check("localhost.evil.example", None) && !check("", None));
        assert!(!check("localhost:7600", Some("http://evil.example")) && !check("localhost:7600", Some("null")));
        assert!(!check("localhost:7600", Some("http://localhost:3000")));
    }

    #[test]
    fn a_token_is_bound_to_its_universe_and_verbs() {
        let (own, other) = (UniverseId::from_bytes([1; 16]), UniverseId::from_bytes([2; 16]));
        let access = Access { universe: Some(own), verbs: READ | SEND, tenant: Tenant::default() };
        assert!(access.require(READ, Some(own)).is_ok() && access.require(SEND, Some(own)).is_ok());
        for refused in [access.require(ADMIN, Some(own)), access.require(READ, Some(other)), access.require(READ, None)]
        {
            assert_eq!(refused.unwrap_err().code, Code::TokenDenied);
        }
        assert!(access.require_everywhere(READ).is_err() && Access::EVERYTHING.require_everywhere(ADMIN).is_ok());
    }

    #[test]
    fn metrics_are_for_who_reads_all_universes_or_was_given_the_verb() {
        let (own, all) = (Some(UniverseId::from_bytes([1; 16])), READ | SEND | ADMIN | WORK);
        let may = |universe, verbs| Access { universe, verbs, tenant: Tenant::default() }.require_metrics().is_ok();
        assert!(!may(own, all) && !may(None, SEND | ADMIN | WORK));
        assert!(may(None, READ) && may(own, METRICS) && may(None, METRICS));
    }

    #[test]
    fn the_scheme_of_a_token_has_no_case() {
        for text in ["Bearer t", "bearer t", "BEARER t", "bEaReR   t "] {
            assert_eq!(bearer(text), Some("t"), "{text}");
        }
        for text in ["", "Bearer", "Basic t", "Bearert", "Bearers t"] {
            assert_eq!(bearer(text), None, "{text}");
        }
    }
}
