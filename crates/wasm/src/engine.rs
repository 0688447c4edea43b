//! The engine that runs components, and all settings of it.
//!
//! Whatever could make two runs differ is off or fixed: threads, relaxed instructions, the bits of a NaN, what the
//! processor at hand happens to offer. What remains is pinned in manifests as [`ENGINE`].

use crate::scheduler::{SLOTS_MAX, Scheduler};
use mundi_model::limits;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use wasmtime::{
    CacheStore, Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, WasmFeatures,
};

/// The name under which manifests pin what runs a component: the engine's version, the instructions that code is
/// compiled to, and the revision of the settings in this file. Patches of an engine are not in it: they repair, and a
/// world must not be stranded by a repair; should one change an outcome, replay finds it.
pub const ENGINE: &str = machine::ENGINE;

/// Steps that have begun and are not over: those that run, and long ones that wait for their next slice.
const INSTANCES_MAX: u32 = 128;
const _: () = assert!(SLOTS_MAX + limits::STEPS_LONG_MAX <= INSTANCES_MAX as usize);

/// Core instances and tables of one component. Interpreters are linked from some twenty libraries.
const PARTS_MAX: u32 = 64;

/// The memory that stays when an instance ends, instead of being given back page by page: as much as a step of a compiled language
/// writes, wherever in its memory, and most of what an interpreter does.
const KEPT_RESIDENT_BYTES: usize = 2 << 20;

/// Engines that differ in nothing but the stack that they give.
pub(crate) struct Engines {
    by_stack: Mutex<BTreeMap<u64, Engine>>,
    pub(crate) scheduler: Arc<Scheduler>,
}

impl Engines {
    /// Engines whose steps share so many slots; 0 stands for the number of processors.
    pub(crate) fn new(slots: usize) -> wasmtime::Result<Arc<Self>> {
        let engines = Arc::new(Self { by_stack: Mutex::default(), scheduler: Scheduler::new(slots) });
        engines.with_stack(limits::WASM_STACK_BYTES_MAX)?; // one that cannot be made is found at once
        let (scheduler, ticking) = (engines.scheduler.clone(), Arc::downgrade(&engines));
        std::thread::spawn(move || {
            scheduler.keep_ticking(|| ticking.upgrade().map(|engines| engines.tick()).is_some());
        });
        Ok(engines)
    }

    /// The engine whose stack has so many bytes: a power of two, so that there are few.
    pub(crate) fn with_stack(&self, bytes: u64) -> wasmtime::Result<Engine> {
        let mut engines = self.by_stack.lock();
        if let Some(engine) = engines.get(&bytes) {
            return Ok(engine.clone());
        }
        let engine = Engine::new(&config(bytes)?)?;
        engines.insert(bytes, engine.clone());
        Ok(engine)
    }

    /// A slice is over.
    fn tick(&self) {
        self.by_stack.lock().values().for_each(Engine::increment_epoch);
    }
}

/// An engine that compiles and runs nothing. Functions that the store has are not compiled again; what is compiled is the same.
pub(crate) fn compiler(stack_bytes: u64, functions: Option<Arc<dyn CacheStore>>) -> wasmtime::Result<Engine> {
    let mut config = config(stack_bytes)?;
    if let Some(functions) = functions {
        config.enable_incremental_compilation(functions)?;
    }
    Engine::new(&config)
}

fn config(stack_bytes: u64) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    // One instruction set for all processors of an architecture: how deep a recursion goes depends on it.
    config.target(&format!("{}-{SYSTEM}", machine::ARCHITECTURE))?;
    for flag in machine::FLAGS {
        #[expect(unsafe_code, reason = "the flags of the instruction set have no other interface")]
        // SAFETY: each names an extension of the processor, and the engine refuses code whose extensions it lacks.
        unsafe {
            config.cranelift_flag_enable(flag);
        }
    }
    config
        .cranelift_nan_canonicalization(true)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(usize::try_from(stack_bytes)?)
        .wasm_features(WasmFeatures::all(), false)
        .wasm_features(FEATURES, true)
        .concurrency_support(false)
        .memory_init_cow(true)
        // Backtraces are for people, and cost memory for each component.
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    Ok(config)
}

/// The features of components: deterministic, finished, and needed by today's compilers.
pub(crate) const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::COMPONENT_MODEL);

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(INSTANCES_MAX)
        .total_core_instances(INSTANCES_MAX * PARTS_MAX)
        .total_memories(INSTANCES_MAX * 2)
        .total_tables(INSTANCES_MAX * PARTS_MAX / 4)
        .max_core_instances_per_component(PARTS_MAX)
        .max_memories_per_component(2)
        .max_tables_per_component(PARTS_MAX / 4)
        .max_component_instance_size(1 << 20)
        .max_core_instance_size(1 << 20)
        .max_memory_size(usize::try_from(limits::WASM_MEMORY_BYTES_MAX).unwrap_or(usize::MAX))
        .table_elements(usize::try_from(limits::WASM_TABLE_ELEMENTS_MAX).unwrap_or(usize::MAX))
        // Only the pages that a step has written are made as they were, and none is given back and faulted in again: a
        // system call where there would be one for each memory and a fault for each page.
        .pagemap_scan(Enabled::Auto)
        .linear_memory_keep_resident(KEPT_RESIDENT_BYTES)
        .table_keep_resident(KEPT_RESIDENT_BYTES);
    pool
}

#[cfg(target_arch = "x86_64")]
mod machine {
    pub(super) const ENGINE: &str = "wasmtime-48/x86_64-v2/1";
    pub(super) const ARCHITECTURE: &str = "x86_64";
    /// Every server of the last fifteen years has these.
    pub(super) const FLAGS: &[&str] =
        &["has_sse3", "has_ssse3", "has_cmpxchg16b", "has_sse41", "has_sse42", "has_popcnt"];
}

#[cfg(target_arch = "aarch64")]
mod machine {
    pub(super) const ENGINE: &str = "wasmtime-48/aarch64/1";
    pub(super) const ARCHITECTURE: &str = "aarch64";
    pub(super) const FLAGS: &[&str] = &[];
}

/// Where the code will run: only how it is called and unwound depends on the system, not what it does.
#[cfg(target_os = "linux")]
const SYSTEM: &str = "unknown-linux-gnu";
#[cfg(target_os = "macos")]
const SYSTEM: &str = "apple-darwin";
