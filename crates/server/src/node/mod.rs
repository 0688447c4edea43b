//! A node: engine, content store, segments and roles in one process, that starts, drains and stops as a whole.
//!
//! ```
//! use mundi_server::{node::{Node, NodeConfig}, programs::Programs};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let node = Node::open(folder.path(), Programs::builtin(), NodeConfig::default()).await?;
//! let universe = node.universe("default").ok_or("it is always there")?;
//! let world = universe.create("counter").await?;
//! assert_eq!(universe.call(world, "add", serde_json::json!(2).into()).await?, serde_json::json!(2).into());
//! assert_eq!(universe.call(world, "add", serde_json::json!(3).into()).await?, serde_json::json!(5).into());
//! node.drain().await;
//! node.stop().await;
//! # Ok(())
//! # }
//! ```

mod admission;
mod budgets;
mod config;
mod edge;
mod error;
mod forward;
mod open;
mod program_names;
mod quotas;
mod replay_log;
mod reports;
mod roles;
mod universe;
mod universe_policy;
mod world_names;

pub(crate) use admission::Overload;
pub use admission::{AdmissionPolicy, memory_limit_bytes};
pub(crate) use config::spool;
pub use config::{DEFAULT_UNIVERSE, NodeConfig, Role, UniverseRules};
pub use edge::{FleetClock, SystemClock, SystemEntropy};
pub use error::NodeError;
pub(crate) use forward::{Answered, FORWARDED_TO, HOLDER};
pub use mundi_adapters::{http::HttpConfig, llm::LlmConfig, process::ProcessConfig};
pub use mundi_runtime::delivery::Delayed;
#[cfg(feature = "foundationdb")]
pub(crate) use open::cluster_options;
pub(crate) use open::object_settings;
pub use open::{engine, engine_above, objects as configured_objects};
pub use program_names::{FoundProgram, ListedProgram};
pub(crate) use quotas::{Growth, Tenant};
pub(crate) use universe::CALL_TIMEOUT;
pub use universe::Universe;

use crate::{
    config::Config,
    programs::{NamedProgram, Programs},
    quotas::{Refusals, TokenAccounts},
};
use admission::Admission;
use edge::StopTasks;
use forward::Forwarder;
use mundi_engine::{AnyEngine, Embedded};
use mundi_model::{Hash, UniverseId, WorkerId, limits};
use mundi_runtime::{
    Plane, Services,
    effects::{AdapterWorkerConfig, attempts::Attempts, policy::PolicyContexts},
    metrics::Metrics,
    shell::{Counters, Failed},
    worker::FirstCycles,
};
use mundi_store::{
    Clock, Entropy,
    blobs::Cas,
    objects::{self, Objects},
    protocol::{ListUniverses, NameUniverse},
    segments::SegmentStore,
};
use parking_lot::RwLock;
use reports::Reports;
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The plane that a node gives to its roles.
pub type NodePlane = Services<AnyEngine, Cas<AnyEngine>, SegmentStore<AnyEngine>>;

/// How often a node looks for universes that other processes made.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A running node. Clones are handles to the same one; dropping them does not stop it.
#[derive(Clone)]
pub struct Node(Arc<Shared>);

struct Shared {
    plane: NodePlane,
    objects: Objects,
    config: NodeConfig,
    /// The configuration by which the engine and the object store were opened, if one named them.
    configured: OnceLock<Config>,
    worker: WorkerId,
    named: BTreeMap<String, NamedProgram>,
    older: Vec<NamedProgram>,
    /// By name, and by id as text.
    universes: RwLock<BTreeMap<String, Arc<Universe>>>,
    metrics: Arc<Metrics>,
    /// Of the worlds of all universes: what ends this process ends it for all.
    first_cycles: Arc<FirstCycles>,
    /// The manifests that effects were asked for under.
    policies: PolicyContexts,
    reports: Reports,
    attempts: Arc<Attempts>,
    admission: Admission,
    token_accounts: TokenAccounts,
    refusals: Refusals,
    /// The failure of a worker shell that ends the process.
    escalated: tokio::sync::watch::Sender<Option<Failed>>,
    /// There if others may hold worlds.
    forwarder: Option<Arc<Forwarder>>,
    /// Where others reach this process.
    address: RwLock<Option<String>>,
    /// Held while a universe is opened, so that each is opened once; taken out when the node stops.
    stop: tokio::sync::Mutex<Option<StopTasks>>,
    /// Takes nothing new; what runs continues.
    leaving: tokio::sync::watch::Sender<bool>,
}

impl Node {
    /// A node on a data folder, which is made if it is not there. The folder belongs to one process at a time.
    pub async fn open(folder: &Path, programs: Programs, config: NodeConfig) -> Result<Self, NodeError> {
        std::fs::create_dir_all(folder).map_err(|error| NodeError::folder(folder, &error))?;
        let folder = folder.canonicalize().map_err(|error| NodeError::folder(folder, &error))?;
        let at = folder.join("engine");
        let opening = tokio::task::spawn_blocking(move || Embedded::open(at));
        let engine = opening.await.map_err(|error| NodeError::Panicked(error.to_string()))??;
        let objects = objects::open(&folder.join("objects").display().to_string())?;
        // One process at a time: it takes up its own leases where the last one left them, and ends its claims.
        let worker = config.worker.or_else(|| WorkerId::new(1));
        let spool = config.spool.or_else(|| Some(folder.join("spool")));
        let adapters = AdapterWorkerConfig { is_alone: true, ..config.adapters };
        Self::start(engine, objects, programs, NodeConfig { worker, spool, adapters, ..config }).await
    }

    /// A node on this engine and object store.
    pub async fn start(
        engine: impl Into<AnyEngine>,
        objects: Objects,
        programs: Programs,
        config: NodeConfig,
    ) -> Result<Self, NodeError> {
        Self::start_by(Arc::new(SystemClock), engine.into(), objects, programs, config).await
    }

    /// A node that goes by this clock.
    pub async fn start_by(
        clock: Arc<dyn Clock>,
        engine: AnyEngine,
        objects: Objects,
        programs: Programs,
        config: NodeConfig,
    ) -> Result<Self, NodeError> {
        let entropy = Arc::new(SystemEntropy::default());
        let (tasks, stop) = edge::tasks();
        let objects = objects.with_requests(clock.clone(), config.objects);
        let blobs = Cas::new(engine.clone(), objects.clone(), clock.clone(), entropy.clone(), config.content);
        let plane = Services {
            segments: SegmentStore::new(engine.clone(), objects.clone()),
            engine,
            blobs,
            clock,
            entropy,
            registry: Arc::new(programs.registry),
            spawner: Arc::new(tasks),
            retry: config.retry,
        };
        let (worker, metrics) = (config.worker.unwrap_or_else(random_worker), Arc::<Metrics>::default());
        let forwarder = config.forwards.then(|| Arc::new(Forwarder::new(plane.clone(), worker, metrics.clone())));
        let reports = Reports::new(&config, &plane.clock, &metrics)?;
        let attempts = Arc::new(Attempts::new(config.attempts).with_metrics(metrics.clone()));
        let shared = Shared {
            worker,
            named: programs.named,
            older: programs.older,
            universes: RwLock::default(),
            metrics,
            first_cycles: Arc::default(),
            policies: PolicyContexts::default(),
            reports,
            attempts,
            admission: Admission::default(),
            token_accounts: TokenAccounts::default(),
            refusals: Refusals::default(),
            escalated: tokio::sync::watch::Sender::new(None),
            forwarder,
            address: RwLock::default(),
            stop: tokio::sync::Mutex::new(Some(stop)),
            leaving: tokio::sync::watch::Sender::new(false),
            plane,
            objects,
            config,
            configured: OnceLock::new(),
        };
        let node = Self(Arc::new(shared));
        for name in &node.0.config.universes {
            node.create_universe(name).await?;
        }
        node.look().await?;
        node.clone().keep_looking();
        Ok(node)
    }

    pub fn plane(&self) -> &NodePlane {
        &self.0.plane
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.0.objects
    }

    /// The configuration by which the engine and the object store were opened, if one named them.
    pub(crate) fn configured(&self) -> Option<&Config> {
        self.0.configured.get()
    }

    pub fn config(&self) -> &NodeConfig {
        &self.0.config
    }

    pub fn worker(&self) -> WorkerId {
        self.0.worker
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn shared_metrics(&self) -> Arc<Metrics> {
        self.0.metrics.clone()
    }

    /// The policies of the manifests under which effects were asked for.
    pub fn policies(&self) -> &PolicyContexts {
        &self.0.policies
    }

    /// The counters of this process's worker shells, by kind.
    pub fn shell_counters(&self) -> [(&'static str, Counters); 4] {
        self.0.reports.counters()
    }

    /// Completes when a worker shell failed in a way that `shell.on_non_retryable = "escalate"` ends the process for.
    pub async fn escalated(&self) -> Failed {
        let mut escalated = self.0.escalated.subscribe();
        loop {
            if let Some(failed) = escalated.borrow_and_update().clone() {
                return failed;
            }
            if escalated.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn escalate(&self, failed: Failed) {
        self.leave();
        self.0.escalated.send_replace(Some(failed));
    }

    /// The programs that have a name here.
    pub fn programs(&self) -> &BTreeMap<String, NamedProgram> {
        &self.0.named
    }

    /// All programs that are built in: those that have a name, and older versions of them.
    pub(crate) fn built_in(&self) -> impl Iterator<Item = &NamedProgram> {
        self.0.named.values().chain(&self.0.older)
    }

    /// The manifests of all programs that are built in, by `name@version`, and by the name alone for the newest.
    pub(super) fn built_in_names(&self) -> BTreeMap<String, Hash> {
        let numbered = self.built_in().map(|it| (format!("{}@{}", it.name, it.version), it.manifest_hash()));
        let newest = self.programs().iter().map(|(name, it)| (name.clone(), it.manifest_hash()));
        numbered.chain(newest).collect()
    }

    pub fn is_leaving(&self) -> bool {
        *self.0.leaving.borrow()
    }

    /// Completes when the node drains: for requests that only wait.
    pub fn left(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut leaving = self.0.leaving.subscribe();
        async move { drop(leaving.wait_for(|leaving| *leaving).await) }
    }

    /// Says that the node is about to drain: load balancers send others elsewhere, and those who only wait are let go.
    pub fn leave(&self) {
        self.0.leaving.send_replace(true);
    }

    /// Lets the other processes of a fleet know where the API of this one is reached, as `http://…` or `https://…`: they hand requests on for
    /// worlds that it holds.
    pub fn advertise(&self, address: &str) {
        *self.0.address.write() = Some(address.to_owned());
        self.universes().iter().for_each(|universe| universe.advertise(address));
    }

    /// A universe, by its name or by its id.
    pub fn universe(&self, name: &str) -> Option<Arc<Universe>> {
        self.0.universes.read().get(name).cloned()
    }

    /// All universes, by name.
    pub fn universes(&self) -> Vec<Arc<Universe>> {
        let known = self.0.universes.read();
        known.iter().filter(|(name, universe)| **name == universe.name()).map(|(_, known)| known.clone()).collect()
    }

    /// Makes a universe, or opens the one that has the name already; says whether it was there before.
    pub async fn create_universe(&self, name: &str) -> Result<(Arc<Universe>, bool), NodeError> {
        check_name(name)?;
        let plane = self.plane();
        let universe = universe_id(plane.random());
        let named = NameUniverse { name: name.to_owned(), universe, now_ns: plane.now_ns() };
        let named = plane.run(&named).await?.output;
        Ok((self.open_universe(name, named.universe).await?, named.before))
    }

    async fn open_universe(&self, name: &str, id: UniverseId) -> Result<Arc<Universe>, NodeError> {
        let stop = self.0.stop.lock().await;
        if let Some(universe) = self.universe(name) {
            return Ok(universe);
        }
        if stop.is_none() {
            return Err(NodeError::Stopped);
        }
        let universe = Arc::new(Universe::open(self, name, id).await?);
        let mut known = self.0.universes.write();
        known.insert(name.to_owned(), universe.clone());
        known.insert(id.to_string(), universe.clone());
        drop(known);
        if let Some(address) = self.0.address.read().as_deref() {
            universe.advertise(address);
        }
        Ok(universe)
    }

    /// Opens the universes that the directory knows and this process does not.
    async fn look(&self) -> Result<(), NodeError> {
        for (name, named) in self.plane().run(&ListUniverses).await?.output {
            if self.universe(&name).is_none() {
                self.open_universe(&name, named.universe).await?;
            }
        }
        Ok(())
    }

    fn keep_looking(self) {
        let plane = self.plane().clone();
        plane.spawner().spawn(Box::pin(async move {
            while !self.is_leaving() {
                tokio::time::sleep(LOOK_EVERY).await;
                if let Err(error) = self.look().await {
                    tracing::warn!(%error, "the universes could not be listed");
                }
            }
        }));
    }

    /// Accepts nothing new, finishes requests in progress, snapshots and releases all worlds. Bounded in time.
    pub async fn drain(&self) {
        self.leave();
        let universes = self.universes();
        universes.iter().for_each(|universe| universe.begin_drain());
        let drained = async {
            for universe in universes {
                universe.drain().await;
            }
        };
        if tokio::time::timeout(self.0.config.drain_timeout, drained).await.is_err() {
            tracing::warn!("the drain took too long; the remaining worlds continue after their leases expire");
        }
    }

    /// Ends all tasks at their next await. What was acknowledged is durable; leases expire by themselves.
    pub async fn stop(&self) {
        self.leave();
        let stop = self.0.stop.lock().await.take();
        if let Some(stop) = stop {
            stop.stop().await;
        }
        let node = self.clone();
        let closed = tokio::task::spawn_blocking(move || node.0.reports.close()); // waits for the disk
        let _written = closed.await;
        self.0.universes.write().clear();
    }
}

/// Every key of a universe begins with its id, and keys that begin with 0xff are the engine's own.
fn universe_id(mut random: [u8; UniverseId::LEN]) -> UniverseId {
    random[0] &= 0x7f;
    UniverseId::from_bytes(random)
}

fn random_worker() -> WorkerId {
    let mut bytes = [0; 8];
    SystemEntropy::default().fill(&mut bytes);
    let number = u64::from_be_bytes(bytes) >> 2; // the upper ones are reserved for mailboxes that no process owns
    WorkerId::new(number.max(2)).unwrap_or(Delayed::WORKER)
}

fn check_name(name: &str) -> Result<(), NodeError> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let parses = name.parse::<UniverseId>().is_ok();
    if !parses && (1..=limits::UNIVERSE_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    Err(NodeError::NameInvalid(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_engine::{Engine, Memory, Transaction};

    #[tokio::test]
    async fn whatever_is_drawn_for_a_universe_the_engine_takes_its_keys() {
        let engine = Memory::new();
        let put = async |key: &[u8]| {
            let mut tx = engine.begin().await?;
            tx.put(key, bytes::Bytes::new())?;
            tx.commit().await.map(drop).map_err(|_| mundi_engine::EngineError::Closed)
        };
        assert!(put(&[0xff; UniverseId::LEN]).await.is_err(), "or there would be nothing to keep clear of");
        for first in 0..=u8::MAX {
            let mut drawn = [0xff; UniverseId::LEN];
            drawn[0] = first;
            put(universe_id(drawn).as_bytes()).await.unwrap_or_else(|error| panic!("{first:#x}: {error}"));
        }
    }
}
