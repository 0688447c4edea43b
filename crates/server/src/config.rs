//! The configuration: defaults < TOML file < environment (`MUNDI_SECTION__KEY`) < flags. Unknown keys are errors.

mod policies;
mod reference;

pub use policies::{CycleSection, OnNonRetryable, SegmentsSection, ShellSection};
pub use reference::{Setting, settings};

use crate::{
    api::{AccessPolicy, ApiLimits},
    bodies::BodyBudgets,
    node::{DEFAULT_UNIVERSE, NodeConfig, Role, UniverseRules},
    quotas::{QuotaDefaults, QuotaLimits},
    serve::{ClientLimits, ServeLimits},
};
use mundi_adapters::{
    http::HttpConfig,
    llm::LlmConfig,
    process::{AllowedCommand, ProcessConfig},
    signature::{AdapterKeys, PUBLIC_KEY_LEN},
    worker::AdapterWorkerConfig,
};
use mundi_model::{Code, Coded, WorkerId, limits, parse_hex};
use mundi_runtime::{attempts::AttemptBounds, host::SnapshotPolicy};
use mundi_store::{
    blobs::CasConfig, keyspace::effect_pending::RateTerms, objects::RequestPolicy, protocol::KindCap,
    reachability::SweepConfig,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use toml::{Table, Value};
use utoipa::ToSchema;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub data: DataConfig,
    pub engine: EngineConfig,
    pub objects: ObjectsConfig,
    pub node: NodeSection,
    pub worlds: WorldsSection,
    pub sweep: SweepSection,
    pub effects: EffectsSection,
    pub shell: ShellSection,
    pub api: ApiConfig,
    pub http: HttpSection,
    pub llm: LlmSection,
    pub process: ProcessSection,
    pub programs: ProgramsSection,
    pub quotas: QuotasSection,
    /// What holds in a universe, by its name or id, such as `[universes.shop]`.
    pub universes: BTreeMap<String, UniverseSection>,
}

/// What holds in one universe. Every process of a fleet must be told the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UniverseSection {
    /// The universes whose worlds may send messages to worlds of this one, by name or id: none unless they are named.
    pub accepts_from: BTreeSet<String>,
    /// The Ed25519 public keys of adapters and workers, by the name that stands in their receipts: 64 hex digits each. Receipts in the
    /// name of one that has a key must be signed with it.
    pub adapter_keys: BTreeMap<String, String>,
    /// What it may take; over `quotas.per_universe`, and under what is set by the API.
    pub quotas: QuotaLimits,
}

/// What a universe and a token may take for which nothing else was said. Nothing is limited by default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuotasSection {
    /// Of a universe.
    pub per_universe: QuotaLimits,
    /// Of a token.
    pub per_token: QuotaLimits,
}

impl QuotasSection {
    fn defaults(&self) -> QuotaDefaults {
        QuotaDefaults { per_universe: self.per_universe.into(), per_token: self.per_token.into() }
    }
}

/// Where things are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// The data folder: engine, large bodies, compiled components.
    #[schema(value_type = String)]
    pub folder: PathBuf,
}

/// Where the truth is kept: the data folder of this process, or a database that many share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EngineConfig {
    /// `postgres://…`, or `file://` and the absolute path of a folder. The folder `engine` in the data folder if absent.
    /// `config show` masks its password.
    pub url: Option<String>,
    /// The schema in a database: several fleets can share one.
    pub schema: String,
    /// How many transactions of this process read from a database at the same time; two more connections are used.
    pub connections_max: usize,
}

/// Where large bodies are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectsConfig {
    /// `s3://bucket/prefix`, or `file://` and the absolute path of a folder. The folder `objects` in the data folder if
    /// absent; with a database it must be given, because all processes need the same one.
    pub url: Option<String>,
    /// Bodies up to this size are kept in the engine instead.
    pub inline_bytes_max: usize,
    /// Settings by their usual names, such as `aws_endpoint`. They win over the variables `AWS_*`; all are masked.
    pub settings: BTreeMap<String, String>,
    /// A request that takes longer counts as failed.
    pub timeout_ms: u64,
    /// How often a request is made before its failure is reported.
    pub attempts_max: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSection {
    /// What this process does: of `world`, `adapter`, `timer`, `orchestrator`, `api`.
    #[schema(value_type = Vec<String>)]
    pub roles: BTreeSet<Role>,
    /// The number of this process in its fleet, above zero. Drawn at random if absent.
    pub worker: Option<u64>,
    /// How many worlds take their turns at the same time.
    pub lanes: usize,
    /// How many worlds that have something to do this process takes. Those that rest do not count; more are refused.
    pub worlds_max: u32,
    /// The universes that this process serves, by name; those that do not exist are made.
    pub universes: BTreeSet<String>,
    /// How long a process that was asked to end waits for what it has begun.
    pub drain_timeout_ms: u64,
    /// How long a worker that went silent keeps its worlds. They are renewed four times as often.
    pub lease_ttl_ms: u64,
    /// A file that gets a line for each step of the worker shells, for a postmortem.
    #[schema(value_type = Option<String>)]
    pub replay_log: Option<PathBuf>,
    /// Once the file has so many bytes it is renamed to `….1`, in place of the one before, and begun again.
    pub replay_log_bytes_max: u64,
    /// What the machine's clock is made wrong by: only for tests.
    #[serde(skip_serializing)]
    pub clock_skew_ms: i64,
}

/// When a world is snapshotted: after so many records, so many bytes, or so long, whichever comes first. What lies far enough below a
/// snapshot then leaves the engine for segments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorldsSection {
    /// A world is snapshotted once it has so many records above its newest snapshot.
    pub snapshot_records: u64,
    /// Or so many bytes of records, whichever comes first.
    pub snapshot_bytes: u64,
    /// How old the oldest record above the newest snapshot may grow.
    pub snapshot_age_ms: u64,
    /// After how many processes that ended, one after another, in their first cycle of a world it is put on hold; 0 for never.
    pub deaths_max: u32,
    /// How long a consumed inbox item, and with it its reply, can still be asked for.
    pub inbox_grace_ms: u64,
    pub cycle: CycleSection,
    pub segments: SegmentsSection,
    /// How long an idempotency key is remembered. Messages between worlds are recognized for as long as they can be sent again, whatever
    /// this is.
    pub dedupe_window_ms: u64,
}

/// When space is got back that nothing refers to any more, and how fast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SweepSection {
    /// Without it, only when an operator asks.
    pub enabled: bool,
    /// From the end of a sweep to the beginning of the next one.
    pub interval_ms: u64,
    /// How old an object must be to be judged, and how long it stays after it was found without a reference; an hour at least.
    pub grace_ms: u64,
    /// Keys that a sweep reads per second; 0 for no bound.
    pub keys_per_second_max: u64,
    /// Objects that a sweep removes per second; 0 for no bound.
    pub removals_per_second_max: u64,
}

/// How many effects are carried out at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EffectsSection {
    /// Effects of each kind that this process carries out at a time.
    pub calls_max: usize,
    /// Effects of all kinds and universes together that this process carries out at a time.
    pub attempts_at_a_time_max: usize,
    /// Attempts that this process begins, of all kinds and universes together.
    pub attempts_per_second_max: u32,
    /// By kind, such as `[effects.kinds."http.request"]`.
    pub kinds: BTreeMap<String, KindSection>,
}

/// What holds for one kind of effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KindSection {
    /// Effects of this kind that this process carries out at a time, in place of `effects.calls_max`.
    pub calls_max: Option<usize>,
    /// Effects of this kind that all workers of a universe carry out at a time: every process must be told the same.
    pub universe_calls_max: Option<usize>,
    /// Effects of this kind that begin in a second, over the whole universe: every process must be told the same.
    pub universe_per_second: Option<u32>,
    /// How many of them may begin at once after a quiet time; as many as in a second if nothing is said.
    pub universe_burst: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiConfig {
    /// Where the API is served. Port 0 takes a free one. On any address but loopback tokens are required.
    #[schema(value_type = String)]
    pub bind: SocketAddr,
    /// Where the other processes of a fleet reach this API, such as `http://10.0.0.7:7600`: they hand requests on for worlds that this process
    /// holds. A port of 0 stands for the one that was bound. If absent, `bind`, unless that is loopback, no address in particular, or served
    /// with TLS: then they are told nothing.
    pub advertise: Option<String>,
    /// A further address that serves `/livez`, `/readyz` and `/metrics` alone, with or without the role `api`.
    #[schema(value_type = Option<String>)]
    pub health_bind: Option<SocketAddr>,
    /// Whether requests need a token. If absent, they do unless the address is loopback.
    pub tokens_required: Option<bool>,
    /// Names by which a server without tokens may be called, beside the loopback ones.
    pub hosts_allowed: Vec<String>,
    /// How large the body of a request may be; blobs, programs and bundles have bounds of their own.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive. One that is streamed to a store, such as a blob, may take longer if it comes at
    /// `body_bytes_per_second_min` at least.
    pub body_timeout_ms: u64,
    /// How fast a body that is streamed has to come.
    pub body_bytes_per_second_min: u64,
    /// What the bodies of all requests may take of this process's memory at a time, those about one universe, and those that show one token.
    /// The first 16 KiB of each are not counted. What is beyond is refused with `BODIES_FULL`.
    pub bodies_bytes_max: usize,
    /// The same for the bodies about one universe.
    pub bodies_per_universe_bytes_max: usize,
    /// The same for the bodies of requests that show one token.
    pub bodies_per_token_bytes_max: usize,
    /// What answers that wait to be read may take of this process's memory at a time; what is beyond is refused with `ANSWERS_FULL`.
    pub answers_bytes_max: usize,
    /// The same for the answers about one universe.
    pub answers_per_universe_bytes_max: usize,
    /// The same for the answers to requests that show one token.
    pub answers_per_token_bytes_max: usize,
    /// How large the head of a request may be: its address and its headers.
    pub head_bytes_max: usize,
    /// How long the head of a request may take to arrive.
    pub head_timeout_ms: u64,
    /// The longest that a call, a claim or a tail is held open.
    pub wait_ms_max: u64,
    /// Connections at a time; further ones wait in the queue of the operating system.
    pub connections_max: usize,
    /// From one IPv4 address or one /64 network of IPv6, at a time. Half of `connections_max` if absent.
    pub connections_per_address_max: Option<usize>,
    /// Whose latest request showed the same token. Half of `connections_max` if absent.
    pub connections_per_token_max: Option<usize>,
    /// Answers that may wait to be written on one connection; further requests on it are not begun.
    pub pipelined_max: usize,
    /// In each such time a client takes at least `write_bytes_per_second_min` of what waits for it, or loses its connection.
    pub write_timeout_ms: u64,
    /// How fast a client has to take what waits for it.
    pub write_bytes_per_second_min: u64,
    /// Events to a world are refused while the oldest item of its inbox is older; 0 never refuses.
    pub inbox_age_ms_max: u64,
    /// New work is refused while the process has more in memory; 0 never refuses. If absent, nine tenths of what the machine or its control
    /// group has.
    pub memory_bytes_max: Option<u64>,
    pub tls: TlsConfig,
}

/// TLS, if both are given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The file with the certificates, PEM, the server's own first. Without it there is no TLS.
    #[schema(value_type = Option<String>)]
    pub certificates: Option<PathBuf>,
    /// The file with the private key of the first certificate, PEM.
    #[schema(value_type = Option<String>)]
    pub key: Option<PathBuf>,
}

/// The adapter `http.request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSection {
    /// Hosts outside the public internet that programs may reach by `http.request` and `llm.chat`, as they stand in the URL and without
    /// a port, such as `["localhost", "10.0.0.7"]`. All others that are not public are refused with `EFFECT_DENIED`, also after a redirect.
    pub private_hosts_allowed: BTreeSet<String>,
}

/// The adapter `llm.chat`, which is there once it has a base URL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LlmSection {
    /// The address of an OpenAI-compatible endpoint, such as `https://api.openai.com/v1`. Without it there is no `llm.chat`.
    pub base_url: Option<String>,
    /// The key of the endpoint, sent as a bearer token. A secret: `config show` masks it.
    pub api_key: Option<String>,
    /// The model for requests that name none.
    pub model: String,
    /// The models that programs may name beside `llm.model`; any other is refused with `EFFECT_DENIED`.
    pub models_allowed: BTreeSet<String>,
}

/// The adapter `process.run`, which is there once a command is listed, such as `[process.commands.thumbnail]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSection {
    /// What may run, by the name under which programs ask for it.
    pub commands: BTreeMap<String, CommandSection>,
    /// A command that runs longer is killed, and tried again within the manifest's budget.
    pub timeout_ms: u64,
    /// Bytes that a command may write to each of its two streams.
    pub output_bytes_max: usize,
}

impl Default for ProcessSection {
    fn default() -> Self {
        Self { commands: BTreeMap::new(), timeout_ms: 60_000, output_bytes_max: 256 << 10 }
    }
}

/// One command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSection {
    /// An absolute path: nothing is looked up, and no shell is asked.
    #[schema(value_type = String)]
    pub program: PathBuf,
    /// Arguments, which come before those that a program gives.
    #[serde(default)]
    pub args: Vec<String>,
    /// Whether a program may give arguments at all.
    #[serde(default)]
    pub takes_args: bool,
    /// The folder in which it runs.
    #[schema(value_type = String)]
    pub folder: PathBuf,
    /// All of its environment, beside `MUNDI_INTENT`.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

impl ProcessSection {
    fn adapter(&self) -> Result<Option<ProcessConfig>, ConfigError> {
        let refused = |name: &str, why: &str| ConfigError::new(format!("process.commands.{name}"), why);
        // The answer holds both streams, and is one payload.
        if 2 * self.output_bytes_max > limits::PAYLOAD_BYTES_MAX - 4_096 {
            return Err(ConfigError::new(
                "process.output_bytes_max",
                "both streams together fit into a receipt of 1 MiB",
            ));
        }
        let allowed = |(name, command): (&String, &CommandSection)| {
            let CommandSection { program, args, takes_args, folder, environment } = command.clone();
            if !program.is_absolute() || !folder.is_absolute() {
                return Err(refused(name, "`program` and `folder` are absolute paths"));
            }
            Ok((name.clone(), AllowedCommand { program, args, takes_args, folder, environment }))
        };
        let commands: BTreeMap<_, _> = self.commands.iter().map(allowed).collect::<Result<_, _>>()?;
        let (timeout, output_bytes_max) = (Duration::from_millis(self.timeout_ms), self.output_bytes_max);
        Ok((!commands.is_empty()).then_some(ProcessConfig { commands, timeout, output_bytes_max }))
    }
}

/// What components may take of this process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramsSection {
    /// Steps of components that run at the same moment; 0 stands for the number of processors. One of them is always kept for steps
    /// that take less than 10 ms.
    pub slots: usize,
    /// Shares of the processors by universe, where universes compete; 1 for those that are not named.
    pub weights: BTreeMap<String, u32>,
    /// Seconds of processor time that compiling one component may take.
    pub compile_cpu_s_max: u64,
    /// Memory that compiling one component may take.
    pub compile_memory_bytes_max: u64,
}

impl Default for ProgramsSection {
    fn default() -> Self {
        Self {
            slots: 0,
            weights: BTreeMap::new(),
            compile_cpu_s_max: limits::COMPILE_CPU_S_MAX,
            compile_memory_bytes_max: limits::COMPILE_MEMORY_BYTES_MAX,
        }
    }
}

impl ProgramsSection {
    fn check(&self) -> Result<(), ConfigError> {
        if let Some((universe, _)) = self.weights.iter().find(|(_, weight)| !(1..=WEIGHT_MAX).contains(*weight)) {
            let cause = format!("a weight is from 1 to {WEIGHT_MAX}");
            return Err(ConfigError::new(format!("programs.weights.{universe:?}"), cause));
        }
        if self.compile_cpu_s_max == 0 || self.compile_memory_bytes_max < COMPILE_MEMORY_BYTES_MIN {
            let cause = format!("nothing could be compiled: a second and {COMPILE_MEMORY_BYTES_MIN} bytes at least");
            return Err(ConfigError::new("programs.compile_cpu_s_max, programs.compile_memory_bytes_max", cause));
        }
        Ok(())
    }
}

/// More than a thousand times another universe's share is that of one that is alone.
const WEIGHT_MAX: u32 = 1_000;

/// Below this not even the compiler itself fits.
const COMPILE_MEMORY_BYTES_MIN: u64 = 64 << 20;

impl Default for DataConfig {
    fn default() -> Self {
        Self { folder: PathBuf::from("mundi-data") }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { url: None, schema: "mundi".to_owned(), connections_max: 16 }
    }
}

impl Default for ObjectsConfig {
    fn default() -> Self {
        let RequestPolicy { timeout, attempts_max, .. } = RequestPolicy::default();
        Self {
            url: None,
            inline_bytes_max: CasConfig::default().inline_bytes_max,
            settings: BTreeMap::new(),
            timeout_ms: millis(timeout),
            attempts_max,
        }
    }
}

impl ObjectsConfig {
    fn requests(&self) -> RequestPolicy {
        let (timeout, attempts_max) = (Duration::from_millis(self.timeout_ms), self.attempts_max);
        RequestPolicy { timeout, attempts_max, ..RequestPolicy::default() }
    }
}

impl EngineConfig {
    /// Whether other processes use the same.
    pub fn is_shared(&self) -> bool {
        self.url.as_ref().is_some_and(|url| !url.starts_with("file:"))
    }
}

impl Default for NodeSection {
    fn default() -> Self {
        let NodeConfig { roles, lanes, worlds_max, drain_timeout, lease_ttl, replay_log_bytes_max, .. } =
            NodeConfig::default();
        let universes = [DEFAULT_UNIVERSE.to_owned()].into();
        let (drain_timeout_ms, lease_ttl_ms) = (millis(drain_timeout), millis(lease_ttl));
        Self {
            roles,
            worker: None,
            lanes,
            worlds_max,
            universes,
            drain_timeout_ms,
            lease_ttl_ms,
            replay_log: None,
            replay_log_bytes_max,
            clock_skew_ms: 0,
        }
    }
}

impl Default for WorldsSection {
    fn default() -> Self {
        let SnapshotPolicy { records, bytes, age_ns } = SnapshotPolicy::default();
        Self {
            snapshot_records: records,
            snapshot_bytes: bytes,
            snapshot_age_ms: age_ns / 1_000_000,
            deaths_max: NodeConfig::default().deaths_max,
            inbox_grace_ms: millis(NodeConfig::default().inbox_grace),
            cycle: CycleSection::default(),
            segments: SegmentsSection::default(),
            dedupe_window_ms: millis(NodeConfig::default().dedupe_window),
        }
    }
}

impl WorldsSection {
    fn snapshots(&self) -> SnapshotPolicy {
        let Self { snapshot_records: records, snapshot_bytes: bytes, snapshot_age_ms, .. } = *self;
        SnapshotPolicy { records, bytes, age_ns: snapshot_age_ms.saturating_mul(1_000_000) }
    }
}

impl Default for SweepSection {
    fn default() -> Self {
        let NodeConfig { sweep, sweep_interval, .. } = NodeConfig::default();
        let SweepConfig { grace, keys_per_second_max, removals_per_second_max, .. } = sweep;
        Self {
            enabled: sweep_interval.is_some(),
            interval_ms: millis(sweep_interval.unwrap_or_default()),
            grace_ms: millis(grace),
            keys_per_second_max,
            removals_per_second_max,
        }
    }
}

impl SweepSection {
    fn sweep(&self) -> SweepConfig {
        SweepConfig {
            grace: Duration::from_millis(self.grace_ms),
            keys_per_second_max: self.keys_per_second_max,
            removals_per_second_max: self.removals_per_second_max,
            ..SweepConfig::default()
        }
    }

    fn interval(&self) -> Option<Duration> {
        self.enabled.then(|| Duration::from_millis(self.interval_ms))
    }
}

impl Default for EffectsSection {
    fn default() -> Self {
        let AttemptBounds { at_a_time_max, per_second_max } = AttemptBounds::default();
        Self {
            calls_max: AdapterWorkerConfig::default().calls_max,
            attempts_at_a_time_max: at_a_time_max,
            attempts_per_second_max: per_second_max,
            kinds: BTreeMap::new(),
        }
    }
}

impl EffectsSection {
    fn attempts(&self) -> AttemptBounds {
        AttemptBounds { at_a_time_max: self.attempts_at_a_time_max, per_second_max: self.attempts_per_second_max }
    }

    fn adapters(&self) -> AdapterWorkerConfig {
        let calls = |(kind, section): (&String, &KindSection)| Some((kind.clone(), section.calls_max?));
        AdapterWorkerConfig {
            calls_max: self.calls_max,
            kind_calls_max: self.kinds.iter().filter_map(calls).collect(),
            universe_caps: self.kinds.iter().map(|(kind, section)| (kind.clone(), section.cap())).collect(),
            ..AdapterWorkerConfig::default()
        }
    }
}

impl UniverseSection {
    fn rules(&self) -> Result<UniverseRules, String> {
        let key = |(adapter, digits): (&String, &String)| {
            let key = parse_hex::<PUBLIC_KEY_LEN>(digits);
            let invalid = || format!("the key of `{adapter}` is not an Ed25519 public key: expected 64 hex digits");
            Ok((adapter.clone(), key.ok_or_else(invalid)?))
        };
        let keys = self.adapter_keys.iter().map(key).collect::<Result<Vec<_>, String>>()?;
        Ok(UniverseRules {
            accepts_from: self.accepts_from.clone(),
            adapter_keys: AdapterKeys::new(keys),
            quotas: self.quotas.into(),
        })
    }
}

impl KindSection {
    fn cap(&self) -> KindCap {
        let rate = |per_second| RateTerms { per_second, burst: self.universe_burst.unwrap_or(per_second) };
        KindCap { calls_max: self.universe_calls_max, rate: self.universe_per_second.map(rate) }
    }

    /// A kind of which nothing could ever be done is a mistake, not a limit.
    fn check(&self) -> Result<(), &'static str> {
        let none = |limit: Option<usize>| limit == Some(0);
        match self {
            Self { calls_max, universe_calls_max, .. } if none(*calls_max) || none(*universe_calls_max) => {
                Err("no call could ever be made: a limit is above zero")
            }
            Self { universe_per_second: Some(0), .. } | Self { universe_burst: Some(0), .. } => {
                Err("no call could ever be made: a rate and its burst are above zero")
            }
            Self { universe_per_second: None, universe_burst: Some(_), .. } => {
                Err("`universe_burst` is for a rate: `universe_per_second` is missing")
            }
            _ => Ok(()),
        }
    }
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
    /// One client alone leaves half of the connections to the others, unless it is configured otherwise.
    fn clients(&self) -> ClientLimits {
        let half = (self.connections_max / 2).max(1);
        ClientLimits {
            per_address_max: self.connections_per_address_max.unwrap_or(half),
            per_token_max: self.connections_per_token_max.unwrap_or(half),
        }
    }

    /// A limit that lets nothing through is a mistake.
    fn check(&self) -> Result<(), ConfigError> {
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
            Some((key, _)) => Err(ConfigError::new(key, "nothing could ever be answered: a limit is above zero")),
            None => Ok(()),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{from}: {cause}")]
pub struct ConfigError {
    from: String,
    cause: String,
}

impl ConfigError {
    #[expect(clippy::needless_pass_by_value, reason = "errors are handed over by `map_err`")]
    pub fn new(from: impl Into<String>, cause: impl ToString) -> Self {
        Self { from: from.into(), cause: cause.to_string() }
    }
}

impl Coded for ConfigError {
    fn code(&self) -> Code {
        Code::ConfigInvalid
    }
}

/// Keys are few levels deep; what is masked stands here.
const SECRETS: [(&str, &str); 1] = [("llm", "api_key")];
const MASK: &str = "********";

fn without_password(url: &str) -> String {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let end = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
    let Some(at) = url[authority..end].rfind('@').map(|at| authority + at) else { return url.to_owned() };
    match url[authority..at].find(':') {
        Some(colon) => format!("{}:{MASK}{}", &url[..authority + colon], &url[at..]),
        None => url.to_owned(),
    }
}

impl Config {
    /// `flags` are paths such as `api.bind`, with what they were given as.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, Value)],
    ) -> Result<Self, ConfigError> {
        let mut layers = Table::new();
        if let Some(path) = file {
            let from = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| ConfigError::new(&from, error))?;
            let table: Table = text.parse().map_err(|error| ConfigError::new(&from, error))?;
            check(&table).map_err(|cause| ConfigError::new(&from, cause))?;
            merge(&mut layers, table);
        }
        for (name, text) in environment {
            let Some(path) = name.strip_prefix("MUNDI_").filter(|path| path.contains("__")) else { continue };
            let path = path.to_lowercase().replace("__", ".");
            let layer =
                check_layer(&path, |path| nested(path, parse(&text)), || nested(&path, Value::String(text.clone())));
            merge(&mut layers, layer.map_err(|cause| ConfigError::new(&name, cause))?);
        }
        for (path, value) in flags {
            let layer = nested(path, value.clone());
            check(&layer).map_err(|cause| ConfigError::new(format!("the flag for {path}"), cause))?;
            merge(&mut layers, layer);
        }
        let mut config: Self = layers.try_into().map_err(|error| ConfigError::new("configuration", error))?;
        config.api.check()?;
        let ClientLimits { per_address_max, per_token_max } = config.api.clients();
        config.api.connections_per_address_max.get_or_insert(per_address_max);
        config.api.connections_per_token_max.get_or_insert(per_token_max);
        config.check_access()?;
        config.check_policies()?;
        if config.api.tls.certificates.is_some() != config.api.tls.key.is_some() {
            return Err(ConfigError::new("api.tls", "needs both `certificates` and `key`"));
        }
        if let Some(address) = &config.api.advertise {
            advertised(address, 0).map_err(|cause| ConfigError::new("api.advertise", cause))?;
        }
        for (name, section) in &config.universes {
            section.rules().map_err(|cause| ConfigError::new(format!("universes.{name}"), cause))?;
        }
        for (kind, section) in &config.effects.kinds {
            section.check().map_err(|cause| ConfigError::new(format!("effects.kinds.{kind:?}"), cause))?;
        }
        config.programs.check()?;
        let window_ms = limits::DEDUPE_WINDOW_MS_MIN..=limits::DEDUPE_WINDOW_MS_MAX;
        if !window_ms.contains(&config.worlds.dedupe_window_ms) {
            let cause = format!("a window is {} to {} ms", window_ms.start(), window_ms.end());
            return Err(ConfigError::new("worlds.dedupe_window_ms", cause));
        }
        config.sweep.sweep().check().map_err(|cause| ConfigError::new("sweep.grace_ms", cause))?;
        if config.objects.timeout_ms == 0 || config.objects.attempts_max == 0 {
            return Err(ConfigError::new("objects", "`timeout_ms` and `attempts_max` are above zero"));
        }
        if config.sweep.interval_ms == 0 {
            return Err(ConfigError::new("sweep.interval_ms", "is above zero; `sweep.enabled = false` turns it off"));
        }
        if config.effects.calls_max == 0 {
            return Err(ConfigError::new("effects.calls_max", "no call could ever be made: a limit is above zero"));
        }
        if config.engine.is_shared() && config.objects.url.is_none() {
            return Err(ConfigError::new(
                "objects.url",
                "is missing: with a database, all processes need the same objects",
            ));
        }
        Ok(config)
    }

    fn check_access(&self) -> Result<(), ConfigError> {
        if self.api.tokens_required != Some(false) {
            return Ok(());
        }
        match self.api.health_bind.into_iter().chain([self.api.bind]).find(|bind| !bind.ip().is_loopback()) {
            Some(bind) => {
                let cause = format!("{bind} is not loopback: a server that others reach needs tokens");
                Err(ConfigError::new("api.tokens_required", cause))
            }
            None => Ok(()),
        }
    }

    /// The effective configuration as TOML, with secrets masked.
    pub fn show(&self) -> Result<String, ConfigError> {
        let failed = |error: &dyn ToString| ConfigError::new("configuration", error.to_string());
        let mut table = Table::try_from(self).map_err(|error| failed(&error))?;
        for (section, key) in SECRETS {
            if let Some(secret) = table.get_mut(section).and_then(|section| section.get_mut(key)) {
                *secret = Value::String(MASK.to_owned());
            }
        }
        if let Some(url) = &self.engine.url {
            merge(&mut table, nested("engine.url", Value::String(without_password(url))));
        }
        for name in self.objects.settings.keys() {
            merge(&mut table, nested(&format!("objects.settings.{name}"), Value::String(MASK.to_owned())));
        }
        toml::to_string_pretty(&table).map_err(|error| failed(&error))
    }

    pub fn node(&self) -> Result<NodeConfig, ConfigError> {
        let worker = self.node.worker.map(|number| {
            WorkerId::new(number).ok_or_else(|| ConfigError::new("node.worker", "a worker's number is above zero"))
        });
        let llm = self.llm.base_url.as_ref().map(|url| {
            let base_url = url.parse().map_err(|error| ConfigError::new("llm.base_url", format!("{error}")))?;
            let LlmSection { api_key, model, models_allowed, .. } = self.llm.clone();
            Ok(LlmConfig { base_url, api_key, model, models_allowed })
        });
        let rules = |(name, section): (&String, &UniverseSection)| {
            let rules = section.rules().map_err(|cause| ConfigError::new(format!("universes.{name}"), cause))?;
            Ok((name.clone(), rules))
        };
        let universe_rules = self.universes.iter().map(rules).collect::<Result<_, ConfigError>>()?;
        Ok(NodeConfig {
            roles: self.node.roles.clone(),
            worker: worker.transpose()?,
            lanes: self.node.lanes,
            weights: self.programs.weights.clone(),
            worlds_max: self.node.worlds_max.max(1),
            deaths_max: self.worlds.deaths_max,
            universes: self.node.universes.clone(),
            snapshots: self.worlds.snapshots(),
            cycle: self.worlds.cycle.budget(),
            segments: self.worlds.segments.policy(),
            inbox_grace: Duration::from_millis(self.worlds.inbox_grace_ms),
            content: CasConfig { inline_bytes_max: self.objects.inline_bytes_max, ..CasConfig::default() },
            shell: self.shell.policy(),
            quotas: self.quotas.defaults(),
            admission: self.api.admission(),
            replay_log: self.node.replay_log.clone(),
            replay_log_bytes_max: self.node.replay_log_bytes_max,
            dedupe_window: Duration::from_millis(self.worlds.dedupe_window_ms),
            objects: self.objects.requests(),
            sweep: self.sweep.sweep(),
            sweep_interval: self.sweep.interval(),
            adapters: self.effects.adapters(),
            attempts: self.effects.attempts(),
            http: HttpConfig {
                private_hosts_allowed: self.http.private_hosts_allowed.clone(),
                ..HttpConfig::default()
            },
            llm: llm.transpose()?,
            process: self.process.adapter()?,
            universe_rules,
            drain_timeout: Duration::from_millis(self.node.drain_timeout_ms),
            lease_ttl: Duration::from_millis(self.node.lease_ttl_ms),
            ..NodeConfig::default()
        })
    }

    /// Where the others of a fleet reach the API that was bound to this address, if they do.
    pub fn advertised(&self, bound: SocketAddr) -> Option<String> {
        let (ip, is_plain) = (bound.ip(), self.api.tls.key.is_none());
        match &self.api.advertise {
            _ if !self.engine.is_shared() => None,
            Some(address) => advertised(address, bound.port()).ok(),
            None => (is_plain && !ip.is_loopback() && !ip.is_unspecified()).then(|| format!("http://{bound}")),
        }
    }

    /// Who may do what at this address.
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

/// The address with the port that was bound, if it leaves that open.
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

/// One layer alone must make sense: so an error names where it comes from.
fn check(layer: &Table) -> Result<(), String> {
    layer.clone().try_into::<Config>().map(drop).map_err(|error| error.to_string().trim().to_owned())
}

/// A variable is TOML where that fits, else text: `MUNDI_LLM__API_KEY=123` is a text, `MUNDI_NODE__LANES=8` a number.
fn check_layer(path: &str, typed: impl FnOnce(&str) -> Table, text: impl FnOnce() -> Table) -> Result<Table, String> {
    let typed = typed(path);
    let Err(cause) = check(&typed) else { return Ok(typed) };
    let text = text();
    check(&text).map(|()| text).map_err(|_| cause)
}

fn parse(text: &str) -> Value {
    let parsed = format!("it = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("it"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn nested(path: &str, value: Value) -> Table {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let value = rest.map_or(value.clone(), |rest| Value::Table(nested(rest, value)));
    [(first.to_owned(), value)].into_iter().collect()
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// The variables of this process.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn flags_win_over_the_environment_which_wins_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mundi.toml");
        std::fs::write(&file, "[node]\nlanes = 1\nworker = 7\n[api]\nbind = \"127.0.0.1:1\"\nbody_bytes_max = 5")
            .unwrap();
        let vars = env(&[("MUNDI_NODE__LANES", "2"), ("MUNDI_API__BIND", "127.0.0.1:2"), ("MUNDI_SEEDS", "not ours")]);
        let config = Config::load(Some(&file), vars, &[("api.bind", "127.0.0.1:3".into())]).unwrap();
        assert_eq!((config.node.lanes, config.node.worker, config.api.body_bytes_max), (2, Some(7), 5));
        assert_eq!(config.api.bind.port(), 3);
        assert_eq!(config.api.connections_max, ApiConfig::default().connections_max);
    }

    #[test]
    fn an_unknown_key_is_an_error_that_says_where_it_comes_from() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mundi.toml");
        std::fs::write(&file, "[node]\nlanez = 1\n").unwrap();
        let error = Config::load(Some(&file), [], &[]).unwrap_err().to_string();
        assert!(error.contains("mundi.toml") && error.contains("lanez"), "{error}");
        let error = Config::load(None, env(&[("MUNDI_API__BINT", "x")]), &[]).unwrap_err().to_string();
        assert!(error.contains("MUNDI_API__BINT") && error.contains("bint"), "{error}");
        assert!(Config::load(None, [], &[("api.nope", 1.into())]).is_err());
    }

    #[test]
    fn a_value_that_looks_like_a_number_can_be_a_text() {
        let config = Config::load(None, env(&[("MUNDI_LLM__API_KEY", "123")]), &[]).unwrap();
        assert_eq!(config.llm.api_key.as_deref(), Some("123"));
    }

    #[test]
    fn secrets_are_masked_and_what_is_shown_can_be_loaded() {
        let config = Config::load(None, env(&[("MUNDI_LLM__API_KEY", "hush")]), &[]).unwrap();
        let shown = config.show().unwrap();
        assert!(!shown.contains("hush") && shown.contains("********"));
        let again: Config = toml::from_str(&shown).unwrap();
        assert_eq!(again.api, config.api);
    }

    #[test]
    fn the_passwords_of_engine_and_objects_are_masked() {
        let vars = env(&[
            ("MUNDI_ENGINE__URL", "postgres://u:hush@h/db?sslmode=require"),
            ("MUNDI_OBJECTS__URL", "s3://bucket"),
            ("MUNDI_OBJECTS__SETTINGS__AWS_SECRET_ACCESS_KEY", "hush"),
        ]);
        let shown = Config::load(None, vars, &[]).unwrap().show().unwrap();
        assert!(!shown.contains("hush") && shown.contains("postgres://u:********@h/db?sslmode=require"), "{shown}");
        assert_eq!(without_password("postgres://u@h/d"), "postgres://u@h/d");
        assert_eq!(without_password("postgres://h"), "postgres://h");
    }

    #[test]
    fn processes_that_share_a_database_share_their_objects() {
        let alone = env(&[("MUNDI_ENGINE__URL", "postgres://h/db")]);
        let refused = Config::load(None, alone, &[]).unwrap_err().to_string();
        assert!(refused.contains("objects.url"), "{refused}");
        assert!(Config::load(None, env(&[("MUNDI_ENGINE__URL", "file:///a")]), &[]).is_ok());
    }

    #[test]
    fn snapshots_and_limits_of_effects_reach_the_node() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mundi.toml");
        let text = "[worlds]\nsnapshot_age_ms = 5\n[effects]\ncalls_max = 9\n\
                    attempts_at_a_time_max = 11\nattempts_per_second_max = 12\n[effects.kinds.\"http.request\"]\n\
                    calls_max = 2\nuniverse_calls_max = 3\nuniverse_per_second = 7\n";
        std::fs::write(&file, text).unwrap();
        let config = Config::load(Some(&file), [], &[]).unwrap();
        let again: Config = toml::from_str(&config.show().unwrap()).unwrap();
        assert_eq!(again.effects, config.effects);
        let node = config.node().unwrap();
        assert_eq!(node.snapshots, SnapshotPolicy { age_ns: 5_000_000, ..SnapshotPolicy::default() });
        let rate = Some(RateTerms { per_second: 7, burst: 7 });
        let caps = [("http.request".to_owned(), KindCap { calls_max: Some(3), rate })].into();
        assert_eq!((node.adapters.calls_max, node.adapters.universe_caps), (9, caps));
        assert_eq!(node.adapters.kind_calls_max, [("http.request".to_owned(), 2)].into());
        assert_eq!(node.attempts, AttemptBounds { at_a_time_max: 11, per_second_max: 12 });
        let nothing = Config::default().node().unwrap();
        assert_eq!((nothing.snapshots, nothing.adapters.calls_max), (SnapshotPolicy::default(), 1_024));
    }

    #[test]
    fn who_may_send_to_a_universe_reaches_the_node() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mundi.toml");
        std::fs::write(&file, "[universes.billing]\naccepts_from = [\"shop\"]\n").unwrap();
        let config = Config::load(Some(&file), [], &[]).unwrap();
        let again: Config = toml::from_str(&config.show().unwrap()).unwrap();
        assert_eq!(again.universes, config.universes);
        let rules = &config.node().unwrap().universe_rules["billing"];
        assert!(rules.accepts_from.contains("shop"));
        assert!(Config::default().node().unwrap().universe_rules.is_empty(), "nobody, unless it is said");
        for (digits, is_key) in [("0".repeat(64), true), ("0".repeat(63), false), ("x".repeat(64), false)] {
            let section = format!("{{ adapter_keys = {{ mail = \"{digits}\" }} }}");
            let loaded = Config::load(None, env(&[("MUNDI_UNIVERSES__BILLING", &section)]), &[]);
            assert_eq!(loaded.is_ok(), is_key, "{digits}");
        }
    }

    #[test]
    fn the_keys_of_the_sweep_reach_the_node_and_a_grace_that_nobody_can_rely_on_is_refused() {
        let keys = [("INTERVAL_MS", "7"), ("GRACE_MS", "3600000"), ("KEYS_PER_SECOND_MAX", "11")];
        let all = keys.into_iter().chain([("REMOVALS_PER_SECOND_MAX", "13")]);
        let vars: Vec<_> = all.map(|(key, value)| (format!("MUNDI_SWEEP__{key}"), value.to_owned())).collect();
        let node = Config::load(None, vars.clone(), &[]).unwrap().node().unwrap();
        let SweepConfig { grace, keys_per_second_max, removals_per_second_max, .. } = node.sweep;
        assert_eq!((grace, node.sweep_interval), (Duration::from_secs(3_600), Some(Duration::from_millis(7))));
        assert_eq!((keys_per_second_max, removals_per_second_max), (11, 13));
        let objects = env(&[("MUNDI_OBJECTS__TIMEOUT_MS", "9"), ("MUNDI_OBJECTS__ATTEMPTS_MAX", "2")]);
        let RequestPolicy { timeout, attempts_max, .. } =
            Config::load(None, objects, &[]).unwrap().node().unwrap().objects;
        assert_eq!((timeout, attempts_max), (Duration::from_millis(9), 2));
        assert!(Config::load(None, env(&[("MUNDI_OBJECTS__ATTEMPTS_MAX", "0")]), &[]).is_err());
        let off = vars.into_iter().chain(env(&[("MUNDI_SWEEP__ENABLED", "false")]));
        assert_eq!(Config::load(None, off, &[]).unwrap().node().unwrap().sweep_interval, None);
        for (key, value) in [("MUNDI_SWEEP__GRACE_MS", "3599999"), ("MUNDI_SWEEP__INTERVAL_MS", "0")] {
            let refused = Config::load(None, env(&[(key, value)]), &[]).unwrap_err().to_string();
            assert!(refused.contains("sweep."), "{refused}");
        }
    }

    #[test]
    fn a_limit_that_lets_nothing_through_is_refused() {
        for wrong in ["calls_max = 0", "universe_calls_max = 0", "universe_per_second = 0", "universe_burst = 1"] {
            let kinds = format!("{{ \"llm.chat\" = {{ {wrong} }} }}");
            let refused = Config::load(None, env(&[("MUNDI_EFFECTS__KINDS", &kinds)]), &[]).unwrap_err().to_string();
            assert!(refused.contains("llm.chat"), "{wrong}: {refused}");
        }
        assert!(Config::load(None, env(&[("MUNDI_EFFECTS__CALLS_MAX", "0")]), &[]).is_err());
    }

    #[test]
    fn an_address_is_told_to_others_only_if_they_can_use_it() {
        let told = |bind: &str, advertise: Option<&str>| {
            let fleet = [("MUNDI_ENGINE__URL", "postgres://h/db"), ("MUNDI_OBJECTS__URL", "s3://bucket")];
            let own = advertise.map(|address| ("MUNDI_API__ADVERTISE", address));
            let vars: Vec<_> = fleet.into_iter().chain([("MUNDI_API__BIND", bind)]).chain(own).collect();
            Config::load(None, env(&vars), &[]).map(|config| config.advertised(config.api.bind))
        };
        assert_eq!(told("10.0.0.7:7600", None).unwrap().as_deref(), Some("http://10.0.0.7:7600"));
        assert_eq!(told("0.0.0.0:7600", None).unwrap(), None, "they need to be told");
        assert_eq!(told("127.0.0.1:7600", None).unwrap(), None, "it would be their own");
        let behind = told("0.0.0.0:7600", Some("https://one.fleet:443/mundi")).unwrap();
        assert_eq!(behind.as_deref(), Some("https://one.fleet/mundi"));
        assert_eq!(told("127.0.0.1:7", Some("http://127.0.0.1:0")).unwrap().as_deref(), Some("http://127.0.0.1:7/"));
        for wrong in ["one.fleet:7600", "ftp://one.fleet", "http://"] {
            assert!(told("0.0.0.0:7600", Some(wrong)).is_err(), "{wrong}");
        }
        let alone = env(&[("MUNDI_API__ADVERTISE", "http://one.fleet")]);
        let alone = Config::load(None, alone, &[]).unwrap();
        assert_eq!(alone.advertised(alone.api.bind), None, "a folder belongs to one process");
    }

    #[test]
    fn a_server_that_others_reach_needs_tokens() {
        let open = |bind: &str| Config::load(None, env(&[("MUNDI_API__BIND", bind)]), &[]).unwrap();
        let open = |bind: &str| {
            let config = open(bind);
            config.access(config.api.bind)
        };
        assert!(
            open("0.0.0.0:1").tokens_required
                && !open("127.0.0.1:1").tokens_required
                && !open("[::1]:1").tokens_required
        );
        let vars = env(&[("MUNDI_API__BIND", "0.0.0.0:1"), ("MUNDI_API__TOKENS_REQUIRED", "false")]);
        assert!(Config::load(None, vars, &[]).is_err());
    }
}
