//! The section `[api]`: addresses, access, and limits on clients.

use super::{
    Config, ConfigError,
    check::{NUMBER_MAX, within},
    millis,
};
use crate::{
    api::{AccessPolicy, ApiLimits},
    bodies::BodyBudgets,
    node::{AdmissionPolicy, memory_limit_bytes},
    serve::{ClientLimits, ServeLimits},
};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use utoipa::ToSchema;

/// The HTTP API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiConfig {
    /// The address of the API. Port 0 chooses a free one. On any address but loopback tokens are required.
    #[schema(value_type = String)]
    pub bind: SocketAddr,
    /// The address at which other processes of a fleet reach this API, such as `http://10.0.0.7:7600`: they forward calls to worlds that this
    /// process holds. Port 0 is replaced by the bound one. If absent, `bind`, unless that is loopback, `0.0.0.0`, or served
    /// with TLS: then nothing is forwarded to this process.
    pub advertise: Option<String>,
    /// Another address that serves only `/livez`, `/readyz` and `/metrics`, with or without the role `api`.
    #[schema(value_type = Option<String>)]
    pub health_bind: Option<SocketAddr>,
    /// Whether requests need a token. If absent, they do unless the address is loopback.
    pub tokens_required: Option<bool>,
    /// Host names, in addition to the loopback ones, under which a server without tokens accepts requests.
    pub hosts_allowed: Vec<String>,
    /// The largest body of a request; blobs, programs and bundles have bounds of their own.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive. A streamed body, such as a blob, may take longer if it arrives at
    /// `body_bytes_per_second_min` or faster.
    pub body_timeout_ms: u64,
    /// The lowest rate of a streamed body.
    pub body_bytes_per_second_min: u64,
    /// The memory of all request bodies of this process. The first 16 KiB of each body do not count. Requests beyond it are refused with
    /// `BODIES_FULL`.
    pub bodies_bytes_max: usize,
    /// The same for the requests of one universe.
    pub bodies_per_universe_bytes_max: usize,
    /// The same for the requests of one token.
    pub bodies_per_token_bytes_max: usize,
    /// The memory of all unread answers of this process. Requests beyond it are refused with `ANSWERS_FULL`.
    pub answers_bytes_max: usize,
    /// The same for the answers of one universe.
    pub answers_per_universe_bytes_max: usize,
    /// The same for the answers to one token.
    pub answers_per_token_bytes_max: usize,
    /// The largest head of a request: its path and its headers.
    pub head_bytes_max: usize,
    /// How long the head of a request may take to arrive.
    pub head_timeout_ms: u64,
    /// The longest that a call, a claim or a live tail may wait.
    pub wait_ms_max: u64,
    /// Connections at a time; further ones wait in the queue of the operating system.
    pub connections_max: usize,
    /// Connections of one IPv4 address or one /64 network of IPv6. Half of `connections_max` if absent.
    pub connections_per_address_max: Option<usize>,
    /// Connections whose latest request showed the same token. Half of `connections_max` if absent.
    pub connections_per_token_max: Option<usize>,
    /// Answers that may wait on one connection; further requests on it wait.
    pub pipelined_max: usize,
    /// A client that reads less than `write_bytes_per_second_min`, on average over this time, loses its connection.
    pub write_timeout_ms: u64,
    /// The lowest rate at which a client must read its answer.
    pub write_bytes_per_second_min: u64,
    /// Events to a world are refused while the oldest item of its inbox is older than this; 0 for no bound.
    pub inbox_age_ms_max: u64,
    /// New work is refused while the process uses more memory; 0 for no bound. If absent, nine tenths of the memory of the machine or its
    /// control group.
    pub memory_bytes_max: Option<u64>,
    pub tls: TlsConfig,
}

/// The files for TLS: both or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The file with the certificates (PEM), the server's own first. Without it the API is served without TLS.
    #[schema(value_type = Option<String>)]
    pub certificates: Option<PathBuf>,
    /// The file with the private key of the first certificate (PEM).
    #[schema(value_type = Option<String>)]
    pub key: Option<PathBuf>,
}

impl Default for ApiConfig {
    fn default() -> Self {
        let (api, serve) = (ApiLimits::default(), ServeLimits::default());
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 7600)),
            advertise: None,
            health_bind: None,
            tokens_required: None,
            hosts_allowed: Vec::new(),
            body_bytes_max: api.body_bytes_max,
            body_timeout_ms: millis(api.body_timeout),
            body_bytes_per_second_min: api.body_bytes_per_second_min,
            bodies_bytes_max: api.bodies.bytes_max,
            bodies_per_universe_bytes_max: api.bodies.per_universe_bytes_max,
            bodies_per_token_bytes_max: api.bodies.per_token_bytes_max,
            answers_bytes_max: api.answers.bytes_max,
            answers_per_universe_bytes_max: api.answers.per_universe_bytes_max,
            answers_per_token_bytes_max: api.answers.per_token_bytes_max,
            head_bytes_max: serve.head_bytes_max,
            head_timeout_ms: millis(serve.head_timeout),
            wait_ms_max: millis(api.wait_max),
            connections_max: serve.connections_max,
            connections_per_address_max: None,
            connections_per_token_max: None,
            pipelined_max: serve.pipelined_max,
            write_timeout_ms: millis(serve.write_timeout),
            write_bytes_per_second_min: serve.write_bytes_per_second_min,
            inbox_age_ms_max: 300_000,
            memory_bytes_max: None,
            tls: TlsConfig::default(),
        }
    }
}

impl ApiConfig {
    /// By default, one client may use half of the connections.
    fn clients(&self) -> ClientLimits {
        let half = (self.connections_max / 2).max(1);
        ClientLimits {
            per_address_max: self.connections_per_address_max.unwrap_or(half),
            per_token_max: self.connections_per_token_max.unwrap_or(half),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.check_limits()?;
        self.check_access()?;
        if self.inbox_age_ms_max > 0 {
            // The age is sampled every few seconds: a smaller bound could not be enforced.
            within("api.inbox_age_ms_max", self.inbox_age_ms_max, 100..=NUMBER_MAX)?;
        }
        if self.tls.certificates.is_some() != self.tls.key.is_some() {
            return Err(ConfigError::new("api.tls", "needs both `certificates` and `key`"));
        }
        match &self.advertise {
            Some(address) => advertised(address, 0).map(drop).map_err(|cause| ConfigError::new("api.advertise", cause)),
            None => Ok(()),
        }
    }

    /// Makes the limits that follow from others visible in `config show`.
    pub(super) fn fill_defaults(&mut self) {
        let ClientLimits { per_address_max, per_token_max } = self.clients();
        self.connections_per_address_max.get_or_insert(per_address_max);
        self.connections_per_token_max.get_or_insert(per_token_max);
    }

    fn check_access(&self) -> Result<(), ConfigError> {
        if self.tokens_required != Some(false) {
            return Ok(());
        }
        match self.health_bind.into_iter().chain([self.bind]).find(|bind| !bind.ip().is_loopback()) {
            Some(bind) => {
                let cause = format!("{bind} is not loopback: a server that others can reach needs tokens");
                Err(ConfigError::new("api.tokens_required", cause))
            }
            None => Ok(()),
        }
    }

    /// A limit of zero would refuse every request.
    fn check_limits(&self) -> Result<(), ConfigError> {
        let ClientLimits { per_address_max, per_token_max } = self.clients();
        let limits = [
            ("api.connections_per_address_max", per_address_max),
            ("api.connections_per_token_max", per_token_max),
            ("api.pipelined_max", self.pipelined_max),
            ("api.bodies_bytes_max", self.bodies_bytes_max),
            ("api.bodies_per_universe_bytes_max", self.bodies_per_universe_bytes_max),
            ("api.bodies_per_token_bytes_max", self.bodies_per_token_bytes_max),
            ("api.answers_bytes_max", self.answers_bytes_max),
            ("api.answers_per_universe_bytes_max", self.answers_per_universe_bytes_max),
            ("api.answers_per_token_bytes_max", self.answers_per_token_bytes_max),
            ("api.write_timeout_ms", usize::try_from(self.write_timeout_ms).unwrap_or(usize::MAX)),
        ];
        match limits.into_iter().find(|(_, limit)| *limit == 0) {
            Some((key, _)) => Err(ConfigError::new(key, "no request could be answered: the limit must be above zero")),
            None => Ok(()),
        }
    }
}

impl ApiConfig {
    /// Nine tenths of the memory leave room for requests in progress.
    pub(super) fn admission(&self) -> AdmissionPolicy {
        let inbox_age_max = Some(Duration::from_millis(self.inbox_age_ms_max)).filter(|max| !max.is_zero());
        let memory_bytes_max = match self.memory_bytes_max {
            None => memory_limit_bytes().map(|limit| limit / 10 * 9),
            given => given.filter(|max| *max > 0),
        };
        AdmissionPolicy { inbox_age_max, memory_bytes_max }
    }
}

impl Config {
    /// The address at which other processes of a fleet reach the API, if they can.
    pub fn advertised(&self, bound: SocketAddr) -> Option<String> {
        let (ip, is_plain) = (bound.ip(), self.api.tls.key.is_none());
        match &self.api.advertise {
            _ if !self.engine.is_shared() => None,
            Some(address) => advertised(address, bound.port()).ok(),
            None => (is_plain && !ip.is_loopback() && !ip.is_unspecified()).then(|| format!("http://{bound}")),
        }
    }

    /// The access policy of an API at this address.
    pub fn access(&self, bind: SocketAddr) -> AccessPolicy {
        let tokens_required = self.api.tokens_required.unwrap_or(!bind.ip().is_loopback());
        AccessPolicy { tokens_required, hosts_allowed: self.api.hosts_allowed.clone() }
    }

    pub fn api_limits(&self) -> ApiLimits {
        ApiLimits {
            body_bytes_max: self.api.body_bytes_max,
            body_timeout: Duration::from_millis(self.api.body_timeout_ms),
            body_bytes_per_second_min: self.api.body_bytes_per_second_min,
            bodies: BodyBudgets {
                bytes_max: self.api.bodies_bytes_max,
                per_universe_bytes_max: self.api.bodies_per_universe_bytes_max,
                per_token_bytes_max: self.api.bodies_per_token_bytes_max,
            },
            answers: BodyBudgets {
                bytes_max: self.api.answers_bytes_max,
                per_universe_bytes_max: self.api.answers_per_universe_bytes_max,
                per_token_bytes_max: self.api.answers_per_token_bytes_max,
            },
            wait_max: Duration::from_millis(self.api.wait_ms_max),
        }
    }

    pub fn serve_limits(&self) -> ServeLimits {
        ServeLimits {
            connections_max: self.api.connections_max,
            head_timeout: Duration::from_millis(self.api.head_timeout_ms),
            head_bytes_max: self.api.head_bytes_max,
            write_timeout: Duration::from_millis(self.api.write_timeout_ms),
            write_bytes_per_second_min: self.api.write_bytes_per_second_min,
            pipelined_max: self.api.pipelined_max,
            clients: self.api.clients(),
        }
    }
}

/// The configured address; port 0 is replaced by the bound one.
fn advertised(address: &str, bound: u16) -> Result<String, &'static str> {
    let invalid = "expected `http://` or `https://` and a host";
    let mut url = url::Url::parse(address).map_err(|_| invalid)?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid);
    }
    if url.port() == Some(0) {
        url.set_port(Some(bound)).map_err(|()| invalid)?;
    }
    Ok(url.into())
}
