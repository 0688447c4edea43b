//! The components that this process can run: compiled in the background, kept in memory, found by their hash.

use crate::{
    cache::Cache,
    checks::Checks,
    compile::{self, CompileProcess},
    engine::{ENGINE, Engines},
    inspect::inspect,
    offer::Offer,
    program::{Blocking, ComponentProgram, Linked, Runner},
    queue::{CompileQueue, Queued},
    scheduler::{Scheduler, Tenant},
};
use mundi_kernel::{
    LoadError, MemoryObjects, Objects,
    loader::{Apart, CodeSource, Loader, Readiness, UniverseShare},
    manifest::{CompiledManifest, Manifest, ManifestError, WasmLimits},
    program::{Event, Failure, Host, Program, View},
};
use mundi_model::{Code, Coded, Hash, UniverseId, limits};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use wasmtime::component::Component;

/// Components that are compiled at the same time, each for another universe: a slow one does not hold up all others.
const COMPILERS: usize = 2;

/// Components that are read at the same time from what was compiled before.
const READERS: usize = 2;

/// Programs that were refused, or are kept, beyond which the oldest are forgotten.
const REMEMBERED_MAX: usize = 2 * limits::COMPONENTS_QUEUED_MAX;

/// A page of linear memory.
const PAGE_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone)]
pub struct ComponentsConfig {
    /// Where compiled code is kept. Without a folder each process compiles for itself.
    pub cache: Option<PathBuf>,
    /// The emergency stop: how long a step may hold up this node. Fuel ends a step long before.
    pub step_wall_max: Duration,
    /// A request for a component that is not ready is refused, and comes again. Else it waits, which suits tools.
    pub in_background: bool,
    /// Steps that run at the same moment; 0 stands for the number of processors.
    pub slots: usize,
    /// How a step that takes long leaves the thread that serves others, too.
    pub blocking: Blocking,
    /// Compiles in a process of its own, whose memory and time are bounded. Without it, components are compiled in this process.
    pub compiler: Option<CompileProcess>,
}

impl Default for ComponentsConfig {
    fn default() -> Self {
        Self {
            cache: None,
            step_wall_max: Duration::from_secs(10),
            in_background: true,
            slots: 0,
            blocking: |work| work(),
            compiler: None,
        }
    }
}

/// Why no component can be run on this machine at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the engine for components cannot be set up: {0}")]
    Engine(String),
    #[error("the folder for compiled code {}: {error}", path.display())]
    Cache { path: PathBuf, error: std::io::Error },
}

impl Coded for OpenError {
    fn code(&self) -> Code {
        match self {
            Self::Engine(_) => Code::ProgramEngine,
            Self::Cache { error, .. } => Code::of_folder(error.kind()),
        }
    }
}

/// The loader of components. It ends its threads when it is dropped, with all that serve one universe.
#[derive(Clone)]
pub struct Components {
    shop: Arc<Open>,
    runner: Runner,
    /// The order in which universes may check.
    checks: Arc<Scheduler>,
    in_background: bool,
    tenant: Tenant,
    source: Option<CodeSource>,
}

/// The workshop while someone needs it.
struct Open(Arc<Workshop>);

impl std::ops::Deref for Open {
    type Target = Workshop;

    fn deref(&self) -> &Workshop {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.state.lock().closed = true;
        self.arrived.notify_all();
    }
}

impl Components {
    pub fn open(config: ComponentsConfig) -> Result<Self, OpenError> {
        let engines = Engines::new(config.slots).map_err(|error| OpenError::Engine(error.to_string()))?;
        let open = |path: PathBuf| Cache::open(&path).map_err(|error| OpenError::Cache { path, error });
        let cache = config.cache.map(open).transpose()?;
        let (wall, blocking, compiler) = (config.step_wall_max, config.blocking, config.compiler);
        let runner = Runner { scheduler: engines.scheduler.clone(), blocking, wall, fuel: Arc::default() };
        let (state, arrived) = (Mutex::default(), Condvar::new());
        let shop = Arc::new(Workshop { engines, cache, compiler, wall, state, arrived });
        for lane in [Lane::Compile; COMPILERS].into_iter().chain([Lane::Read; READERS]) {
            let shop = shop.clone();
            std::thread::spawn(move || shop.work(lane));
        }
        let tenant = Tenant { universe: UniverseId::from_bytes([0; UniverseId::LEN]), weight: 1 };
        let checks = Scheduler::of_whole_work(config.slots, limits::CHECKS_WAITING_MAX);
        let (shop, in_background) = (Arc::new(Open(shop)), config.in_background);
        Ok(Self { shop, runner, checks, in_background, tenant, source: None })
    }

    /// Prepares a component now, on this thread. For tools and tests; a node prepares in the background.
    pub fn prepare_now(&self, code: &[u8]) -> Result<Manifest, ManifestError> {
        let program = Hash::of(code);
        let made = self.shop.make(program, code, None).map_err(ManifestError::ProgramRefused)?;
        let offered = made.offered.clone();
        self.shop.finish(program, Ok(made));
        Ok(offered)
    }
}

impl Loader for Components {
    fn inspect(&self, code: &[u8]) -> Result<(), ManifestError> {
        inspect(code).map(drop).map_err(|refusal| ManifestError::ProgramRefused(refusal.to_string()))
    }

    fn prepare(&self, program: Hash, code: Option<Arc<[u8]>>) -> Readiness {
        let mut state = self.shop.state.lock();
        if let Some(readiness) = state.readiness(&program) {
            return readiness;
        }
        let Some(code) = code else { return Readiness::Unknown };
        let (universe, lane) = (self.tenant.universe, self.shop.lane(program));
        let ahead = state.queue(lane).ahead(universe, &program);
        let queued = match &self.source {
            Some(source) => Queued::InStore { program, source: source.clone() },
            None => Queued::AtHand { program, code },
        };
        if state.queue_mut(lane).push(universe, queued) {
            state.known.insert(program, Stage::Queued { universe, lane });
            self.shop.arrived.notify_all();
        }
        Readiness::Queued { ahead }
    }

    fn for_universe(&self, share: UniverseShare) -> Option<Arc<dyn Loader>> {
        let UniverseShare { universe, weight, source, fuel } = share;
        let runner = Runner { fuel, ..self.runner.clone() };
        Some(Arc::new(Self { tenant: Tenant { universe, weight }, source: Some(source), runner, ..self.clone() }))
    }

    fn apart(&self) -> Arc<dyn Apart> {
        Arc::new(Checks { scheduler: self.checks.clone(), tenant: self.tenant, blocking: self.runner.blocking })
    }

    fn check(&self, manifest: &Manifest) -> Result<(), ManifestError> {
        match &manifest.wasm {
            Some(wasm) if wasm.engine == ENGINE => Ok(()),
            Some(wasm) => Err(ManifestError::EngineMismatch { named: wasm.engine.clone(), here: ENGINE.to_owned() }),
            None => Err(ManifestError::ProgramUnknown(manifest.program)),
        }
    }

    fn load(&self, objects: &dyn Objects, manifest: &Manifest) -> Result<Arc<dyn Program>, ManifestError> {
        let program = manifest.program;
        let Some(wasm) = &manifest.wasm else { return Err(ManifestError::ProgramUnknown(program)) };
        if let Err(mismatch) = self.check(manifest) {
            return Ok(Arc::new(Elsewhere { why: mismatch.to_string() }));
        }
        if let Some(made) = self.shop.made(&program)? {
            return made.program(&self.shop.engines, wasm.limits, self.tenant, &self.runner);
        }
        let code = objects.load(&program)?;
        let found = Hash::of(&code);
        if found != program {
            return Err(LoadError::Corrupt { hash: program, why: format!("its bytes hash to {found}") }.into());
        }
        if self.in_background {
            self.prepare(program, Some(code));
            return Err(LoadError::Preparing(program).into());
        }
        self.prepare_now(&code)?;
        let made = self.shop.made(&program)?.ok_or(LoadError::Preparing(program))?;
        made.program(&self.shop.engines, wasm.limits, self.tenant, &self.runner)
    }
}

/// A program that another engine must run. A world of it can be restored from a snapshot at its head, and upgraded; it
/// takes no step.
struct Elsewhere {
    why: String,
}

impl Program for Elsewhere {
    fn handle(&self, host: &mut dyn Host, _: &Event<'_>) -> Result<(), Failure> {
        Err(host.abandon(Code::ProgramEngine, &self.why).into())
    }

    fn query(&self, view: &mut dyn View, _: &str, _: &[u8]) -> Result<Vec<u8>, Failure> {
        Err(view.abandon(Code::ProgramEngine, &self.why).into())
    }
}

/// A component that is ready.
struct Made {
    component: Component,
    offered: Manifest,
    /// Linked for each stack that manifests asked for.
    linked: Mutex<BTreeMap<u64, Arc<Linked>>>,
}

impl Made {
    fn program(
        &self,
        engines: &Engines,
        limits: WasmLimits,
        tenant: Tenant,
        runner: &Runner,
    ) -> Result<Arc<dyn Program>, ManifestError> {
        self.check_fits(&limits)?;
        let linked = self
            .linked(engines, limits.stack_bytes_max)
            .map_err(|error| ManifestError::ProgramRefused(error.to_string()))?;
        Ok(Arc::new(ComponentProgram { linked, limits, tenant, runner: runner.clone() }))
    }

    fn linked(&self, engines: &Engines, stack_bytes: u64) -> wasmtime::Result<Arc<Linked>> {
        let mut linked = self.linked.lock();
        if let Some(linked) = linked.get(&stack_bytes) {
            return Ok(linked.clone());
        }
        let engine = engines.with_stack(stack_bytes)?;
        #[expect(unsafe_code, reason = "compiled code can only be trusted, not checked")]
        // SAFETY: the compiler of this process gave these bytes; the engines differ in nothing that code depends on.
        let component = unsafe { Component::deserialize(&engine, self.component.serialize()?) }?;
        let new = Arc::new(Linked::again(&component)?);
        linked.insert(stack_bytes, new.clone());
        Ok(new)
    }

    /// A component that needs more than its manifest allows would never begin a step.
    fn check_fits(&self, limits: &WasmLimits) -> Result<(), ManifestError> {
        let refused = |why: String| Err(ManifestError::ProgramRefused(why));
        let Some(needs) = self.component.resources_required() else {
            return refused("it imports core modules".to_owned());
        };
        let memory_bytes = needs.max_initial_memory_size.unwrap_or(0).saturating_mul(PAGE_BYTES);
        if memory_bytes > limits.memory_bytes_max {
            return refused(format!("it begins with {memory_bytes} bytes of memory, above the manifest's bound"));
        }
        let elements = needs.max_initial_table_size.unwrap_or(0);
        if elements > limits.table_elements_max {
            return refused(format!("it begins with a table of {elements}, above the manifest's bound"));
        }
        Ok(())
    }

    /// Whether worlds run it.
    fn is_used(&self) -> bool {
        self.linked.lock().values().any(|linked| Arc::strong_count(linked) > 1)
    }
}

/// A description whose schemas do not compile would be refused later, and by then nobody is there to hear why.
fn check_schemas(offered: Manifest) -> Result<Manifest, ManifestError> {
    let mut objects = MemoryObjects::new();
    let hash = objects.put(offered.to_bytes());
    match CompiledManifest::load(&objects, hash) {
        // A schema that is an object of its own is looked for when the manifest is stored.
        Ok(_) | Err(ManifestError::Load(_)) => Ok(offered),
        Err(error) => Err(error),
    }
}

/// Where a component waits. One that was compiled before, by an earlier process or until it was forgotten, waits for no compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Compile,
    Read,
}

/// How far a component is.
enum Stage {
    /// In a queue of this universe.
    Queued {
        universe: UniverseId,
        lane: Lane,
    },
    Compiling {
        bytes: usize,
    },
    Ready(Arc<Made>),
    Refused(String),
}

#[derive(Default)]
struct State {
    known: BTreeMap<Hash, Stage>,
    to_compile: CompileQueue,
    to_read: CompileQueue,
    /// Finished ones, the oldest first.
    finished: VecDeque<Hash>,
    closed: bool,
}

impl State {
    fn queue(&self, lane: Lane) -> &CompileQueue {
        match lane {
            Lane::Compile => &self.to_compile,
            Lane::Read => &self.to_read,
        }
    }

    fn queue_mut(&mut self, lane: Lane) -> &mut CompileQueue {
        match lane {
            Lane::Compile => &mut self.to_compile,
            Lane::Read => &mut self.to_read,
        }
    }

    fn readiness(&self, program: &Hash) -> Option<Readiness> {
        Some(match self.known.get(program)? {
            Stage::Queued { universe, lane } => {
                Readiness::Queued { ahead: self.queue(*lane).ahead(*universe, program) }
            }
            Stage::Compiling { bytes } => Readiness::Compiling { bytes: *bytes },
            Stage::Ready(made) => Readiness::Ready(Box::new(made.offered.clone())),
            Stage::Refused(why) => Readiness::Refused(why.clone()),
        })
    }

    /// Forgets the oldest that nobody uses, once there are many. Those in use do not count: a node with many components
    /// would forget each new one before its world comes back for it.
    fn trim(&mut self) {
        let is_spare = |stage: &&Stage| matches!(stage, Stage::Ready(made) if !made.is_used());
        let mut spare = self.known.values().filter(is_spare).count();
        let mut kept = VecDeque::with_capacity(self.finished.len());
        for program in std::mem::take(&mut self.finished) {
            let (drop, is_spare) = match self.known.get(&program) {
                Some(Stage::Ready(made)) => (spare > limits::COMPONENTS_KEPT_MAX && !made.is_used(), true),
                Some(Stage::Refused(_)) => (self.known.len() > REMEMBERED_MAX, false),
                _ => (false, false),
            };
            if drop {
                self.known.remove(&program);
                spare -= usize::from(is_spare);
            } else {
                kept.push_back(program);
            }
        }
        self.finished = kept;
    }
}

/// Where components are made.
struct Workshop {
    engines: Arc<Engines>,
    cache: Option<Cache>,
    compiler: Option<CompileProcess>,
    wall: Duration,
    state: Mutex<State>,
    arrived: Condvar,
}

impl Workshop {
    /// Makes one component of a lane after another, until the loader is gone.
    fn work(&self, lane: Lane) {
        while let Some((universe, queued)) = self.next(lane) {
            let program = queued.program();
            // A file that makes the reader panic is as good as none.
            let read = || catch_unwind(AssertUnwindSafe(|| self.kept(program))).ok().flatten();
            let kept = if lane == Lane::Read { read() } else { None };
            if lane == Lane::Read && kept.is_none() {
                self.leave_to_compilers(universe, queued);
            } else {
                match queued.code() {
                    Some(code) => {
                        self.state.lock().known.insert(program, Stage::Compiling { bytes: code.len() });
                        let made = self.make(program, &code, kept);
                        self.finish(program, made);
                    }
                    // Gone meanwhile, or the store does not answer: whoever still wants it comes again.
                    None => drop(self.state.lock().known.remove(&program)),
                }
            }
            self.state.lock().queue_mut(lane).done(universe);
            self.arrived.notify_all();
        }
    }

    fn lane(&self, program: Hash) -> Lane {
        let is_kept = self.cache.as_ref().is_some_and(|cache| {
            self.engines
                .with_stack(WasmLimits::default().stack_bytes_max)
                .is_ok_and(|engine| cache.has(&engine, program))
        });
        if is_kept { Lane::Read } else { Lane::Compile }
    }

    /// What was compiled before, if it is undamaged.
    fn kept(&self, program: Hash) -> Option<Component> {
        let engine = self.engines.with_stack(WasmLimits::default().stack_bytes_max).ok()?;
        self.cache.as_ref()?.load(&engine, program)
    }

    /// A component whose compiled code is damaged, or was removed meanwhile, is compiled again.
    fn leave_to_compilers(&self, universe: UniverseId, queued: Queued) {
        let (program, mut state) = (queued.program(), self.state.lock());
        if state.to_compile.push(universe, queued) {
            state.known.insert(program, Stage::Queued { universe, lane: Lane::Compile });
        } else {
            state.known.remove(&program);
        }
    }

    fn next(&self, lane: Lane) -> Option<(UniverseId, Queued)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some((universe, queued)) = state.queue_mut(lane).pop() {
                state.known.insert(queued.program(), Stage::Compiling { bytes: 0 });
                return Some((universe, queued));
            }
            self.arrived.wait(&mut state);
        }
    }

    fn finish(&self, program: Hash, made: Result<Made, String>) {
        let stage = match made {
            Ok(made) => Stage::Ready(Arc::new(made)),
            Err(why) => Stage::Refused(why),
        };
        let mut state = self.state.lock();
        let before = state.known.insert(program, stage);
        if !matches!(before, Some(Stage::Ready(_) | Stage::Refused(_))) {
            state.finished.push_back(program);
        }
        state.trim();
    }

    /// The component, if it is ready. Nothing if nobody has begun it.
    fn made(&self, program: &Hash) -> Result<Option<Arc<Made>>, ManifestError> {
        match self.state.lock().known.get(program) {
            None => Ok(None),
            Some(Stage::Ready(made)) => Ok(Some(made.clone())),
            Some(Stage::Queued { .. } | Stage::Compiling { .. }) => Err(LoadError::Preparing(*program).into()),
            Some(Stage::Refused(why)) => Err(ManifestError::ProgramRefused(why.clone())),
        }
    }

    /// From bytes to a component that runs. A compiler that panics refuses.
    fn make(&self, program: Hash, code: &[u8], kept: Option<Component>) -> Result<Made, String> {
        let made = catch_unwind(AssertUnwindSafe(|| self.try_make(program, code, kept)));
        made.unwrap_or_else(|_| Err("the compiler failed on it".to_owned()))
    }

    fn try_make(&self, program: Hash, code: &[u8], kept: Option<Component>) -> Result<Made, String> {
        inspect(code).map_err(|refusal| refusal.to_string())?;
        let failed = |error: wasmtime::Error| format!("{error:#}");
        let limits = WasmLimits::default();
        let engine = self.engines.with_stack(limits.stack_bytes_max).map_err(failed)?;
        let component = match kept.or_else(|| self.kept(program)) {
            Some(component) => component,
            None => {
                let component = match &self.compiler {
                    Some(process) => compile::in_process(process, &engine, code)?,
                    None => Component::from_binary(&engine, code).map_err(failed)?,
                };
                if let Some(cache) = &self.cache {
                    // One that cannot be kept is compiled again by the next process.
                    let _kept = cache.store(program, &component);
                }
                component
            }
        };
        let (linked, described) = Linked::new(&component, &limits, self.wall)?;
        let offered = Offer::parse(&described).and_then(|offer| offer.manifest(program));
        let offered = offered.and_then(check_schemas).map_err(|error| error.to_string())?;
        let linked = Mutex::new([(limits.stack_bytes_max, Arc::new(linked))].into());
        let made = Made { component, offered, linked };
        made.check_fits(&made.offered.wasm.as_ref().map_or(limits, |wasm| wasm.limits)).map_err(|e| e.to_string())?;
        Ok(made)
    }
}
