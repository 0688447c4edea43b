//! Configuration of a node: the parts that it runs, and their settings.

use super::AdmissionPolicy;
use crate::quotas::QuotaDefaults;
use mundi_adapters::{http::HttpConfig, llm::LlmConfig, process::ProcessConfig};
use mundi_kernel::manifest::Retry;
use mundi_model::{WorkerId, limits};
use mundi_runtime::{
    effects::{AdapterWorkerConfig, attempts::AttemptBounds, signature::AdapterKeys, usual_retry},
    shell::Policy,
    worker::SegmentPolicy,
    world::{CycleBudget, SnapshotPolicy},
};
use mundi_store::{blobs::CasConfig, objects::RequestPolicy, reachability::SweepConfig, values::Quotas};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    path::PathBuf,
    time::Duration,
};

/// The part that a process plays for a universe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs worlds.
    World,
    /// Carries out effects.
    Adapter,
    /// Fires timers and delivers what was sent with a delay.
    Timer,
    /// Places worlds on workers.
    Orchestrator,
    /// Looks at the holders of pools' leases, revokes and reclaims.
    Watcher,
    /// Answers HTTP.
    Api,
}

impl Role {
    pub const ALL: [Self; 6] = [Self::World, Self::Adapter, Self::Timer, Self::Orchestrator, Self::Watcher, Self::Api];

    /// As the configuration names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::World => "world",
            Self::Adapter => "adapter",
            Self::Timer => "timer",
            Self::Orchestrator => "orchestrator",
            Self::Watcher => "watcher",
            Self::Api => "api",
        }
    }
}

/// The rules of one universe. Every process of a fleet must be configured the same.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UniverseRules {
    /// The universes whose worlds may send messages to worlds of this one, by name or id.
    pub accepts_from: BTreeSet<String>,
    /// The keys of adapters and external workers: receipts of these must be signed.
    pub adapter_keys: AdapterKeys,
    /// Its quotas, before the defaults.
    pub quotas: Quotas,
}

#[derive(Clone)]
pub struct NodeConfig {
    pub roles: BTreeSet<Role>,
    /// No two running processes may share it. A process that comes back under the same one takes its own leases again
    /// at once; under another it waits until they expire. Drawn at random if it is not given.
    pub worker: Option<WorkerId>,
    /// How many worlds run at the same time.
    pub runners: usize,
    /// Shares of the processors by universe, where steps of components compete; 1 for those that are not named.
    pub weights: BTreeMap<String, u32>,
    /// How many worlds that have work this process takes; those that rest do not count.
    pub worlds_max: u32,
    /// After how many processes that ended in their first cycle of a world it is put on hold; 0 for never.
    pub deaths_max: u32,
    /// Made if they are not there.
    pub universes: BTreeSet<String>,
    /// By name or id.
    pub universe_rules: BTreeMap<String, UniverseRules>,
    pub snapshots: SnapshotPolicy,
    /// The budget of a world before another one gets its turn.
    pub cycle: CycleBudget,
    /// When old journal records leave the engine.
    pub segments: SegmentPolicy,
    /// How long a consumed inbox item, and with it its reply, can still be asked for.
    pub inbox_grace: Duration,
    /// The content that is kept in the engine instead of the object store.
    pub content: CasConfig,
    /// How worker shells work on their mailboxes.
    pub shell: Policy,
    /// A file that gets a line for each step of the worker shells.
    pub replay_log: Option<PathBuf>,
    /// Once it has so many bytes it is renamed to `….1` and begun again.
    pub replay_log_bytes_max: u64,
    /// The quotas of universes and tokens for which nothing else was set.
    pub quotas: QuotaDefaults,
    /// When the API refuses new work.
    pub admission: AdmissionPolicy,
    /// How long a request to the object store may take, and how often it is made.
    pub objects: RequestPolicy,
    /// When objects that nothing refers to are removed, and how fast.
    pub sweep: SweepConfig,
    /// From the end of a sweep to the next one; `None` for sweeps only when someone asks.
    pub sweep_interval: Option<Duration>,
    /// From the end of a watcher's round to the beginning of the next one.
    pub watch_interval: Duration,
    pub adapters: AdapterWorkerConfig,
    /// Over all universes.
    pub attempts: AttemptBounds,
    /// Of effects whose manifest does not say how they are tried again.
    pub retry: Retry,
    pub http: HttpConfig,
    pub llm: Option<LlmConfig>,
    pub process: Option<ProcessConfig>,
    /// Where files wait that are not yet verified; the system's folder for such if nothing is said.
    pub spool: Option<PathBuf>,
    /// How long a drain may take before what is left is dropped; leases expire by themselves then.
    pub drain_timeout: Duration,
    /// How long a worker that stopped its heartbeats keeps its worlds; they are renewed four times as often.
    pub lease_ttl: Duration,
    /// How long a world that rests keeps its hint. Other processes find it there and try for its lease in vain; who is alone may
    /// keep it longer, and writes it less often.
    pub settle_after: Duration,
    /// How long the name of what was sent is remembered: an idempotency key, and a message whose effect is over.
    pub dedupe_window: Duration,
    /// Requests for worlds that other processes hold are forwarded to them: for an engine that several share.
    pub forwards: bool,
}

/// The universe that is there without being asked for.
pub const DEFAULT_UNIVERSE: &str = "default";

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            roles: Role::ALL.into(),
            worker: None,
            runners: 256,
            weights: BTreeMap::new(),
            worlds_max: 10_000,
            deaths_max: limits::WORLD_DEATHS_MAX,
            universes: [DEFAULT_UNIVERSE.to_owned()].into(),
            universe_rules: BTreeMap::new(),
            snapshots: SnapshotPolicy::default(),
            cycle: CycleBudget::default(),
            segments: SegmentPolicy::default(),
            inbox_grace: Duration::from_secs(3_600),
            content: CasConfig::default(),
            shell: Policy::default(),
            replay_log: None,
            replay_log_bytes_max: 64 << 20,
            quotas: QuotaDefaults::default(),
            admission: AdmissionPolicy::default(),
            objects: RequestPolicy::default(),
            sweep: SweepConfig::default(),
            sweep_interval: Some(Duration::from_secs(60 * 60)),
            watch_interval: Duration::from_secs(1),
            adapters: AdapterWorkerConfig::default(),
            attempts: AttemptBounds::default(),
            retry: usual_retry(),
            http: HttpConfig::default(),
            llm: None,
            process: None,
            spool: None,
            drain_timeout: Duration::from_secs(30),
            lease_ttl: Duration::from_secs(20),
            settle_after: Duration::from_millis(250),
            dedupe_window: Duration::from_nanos(limits::DEDUPE_WINDOW_NS),
            forwards: false,
        }
    }
}

impl NodeConfig {
    pub(super) fn dedupe_window_ns(&self) -> u64 {
        u64::try_from(self.dedupe_window.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A file without a name, for something that is not yet verified. It is gone when it is closed.
pub(crate) fn spool(config: &NodeConfig) -> io::Result<File> {
    match &config.spool {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            tempfile::tempfile_in(folder)
        }
        None => tempfile::tempfile(),
    }
}
