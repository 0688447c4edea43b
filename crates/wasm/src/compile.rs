//! Compiling in a process of its own, with a bound on its memory and on the processor time that it takes.
//!
//! A compiler cannot be stopped, and what it takes grows faster than what it is given. [`inspect`](crate::inspect) refuses what is
//! known to be much; what it does not know ends here, in a process that the operating system ends. The process is the same
//! program as this one, so what it writes can be trusted as what this process compiles itself.

use crate::{engine::compiler, functions::Functions};
use mundi_kernel::manifest::WasmLimits;
use mundi_model::limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    ffi::OsString,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};
use wasmtime::{CacheStore, Engine, component::Component};

/// How a compiler is started.
#[derive(Debug, Clone)]
pub struct CompileProcess {
    pub program: PathBuf,
    /// The arguments that make the program call [`compile_stdin`] with the limits below.
    pub arguments: Vec<OsString>,
    pub limits: CompileLimits,
}

/// The limits of one compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Seconds of processor time, over all threads.
    pub cpu_s_max: u64,
    pub memory_bytes_max: u64,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self { cpu_s_max: limits::COMPILE_CPU_S_MAX, memory_bytes_max: limits::COMPILE_MEMORY_BYTES_MAX }
    }
}

/// Niceness of the process: steps and requests go first.
const NICE: i32 = 10;

/// How readily the system ends the process when memory runs out; a server has 0, and 1000 is the most.
const OOM_SCORE: &str = "500";

/// The process's report about a failed allocation that it survived.
const OUT_OF_MEMORY: &str = "out of memory";

/// The bytes of the process's report about a failure.
const SAID_BYTES_MAX: u64 = 4 << 10;

/// Compiles the component that is read from standard input, and writes what the engine can load to standard output. For the
/// process that a [`CompileProcess`] starts.
pub fn compile_stdin(bounds: CompileLimits, functions: Option<&Path>) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let compiler = Compiler::new(functions)?;
    bound(Resource::Cpu, bounds.cpu_s_max).map_err(|error| said(&error))?;
    // What the engine has reserved for instances counts as data, too, and is never touched here. A system that does not say how
    // much that is has no bound on memory.
    if let Some(reserved_bytes) = data_bytes() {
        let memory_bytes_max = bounds.memory_bytes_max.saturating_add(reserved_bytes);
        bound(Resource::Data, memory_bytes_max).map_err(|error| said(&error))?;
    }
    let _as_before = rustix::process::nice(NICE);
    // If the machine runs out of memory, the system ends the compiler and not the server that started it.
    let _as_before = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let mut code = Vec::new();
    let read = io::stdin().lock().take(limits::COMPONENT_BYTES_MAX as u64 + 1).read_to_end(&mut code);
    read.map_err(|error| said(&error))?;
    let compiled = compiler.compile(&code)?;
    io::stdout().lock().write_all(&compiled).map_err(|error| said(&error))?;
    compiler.keep();
    Ok(())
}

/// Compiles components, and runs none. Functions that an earlier one left in its folder are not compiled again: the code is the same,
/// byte for byte.
pub struct Compiler {
    engine: Engine,
    functions: Option<Arc<Functions>>,
}

impl Compiler {
    pub fn new(functions: Option<&Path>) -> Result<Self, String> {
        // A folder that cannot be read makes it slower, and no more.
        let functions = functions.and_then(|folder| Functions::open(folder).ok()).map(Arc::new);
        let store = functions.clone().map(|functions| functions as Arc<dyn CacheStore>);
        let engine = compiler(WasmLimits::default().stack_bytes_max, store).map_err(|error| error.to_string())?;
        Ok(Self { engine, functions })
    }

    pub fn compile(&self, code: &[u8]) -> Result<Vec<u8>, String> {
        self.engine.precompile_component(code).map_err(|error| format!("{error:#}"))
    }

    /// Leaves the functions that were compiled for the next one. What cannot be kept is compiled again.
    pub fn keep(&self) {
        let _kept = self.functions.as_ref().map(|functions| functions.keep());
    }
}

fn bound(resource: Resource, value: u64) -> rustix::io::Result<()> {
    let limit = getrlimit(resource);
    let value = limit.maximum.map_or(value, |maximum| maximum.min(value));
    setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
}

/// The memory that counts as data now, reserved or used, where the system says so.
fn data_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmData:")?.trim().strip_suffix(" kB"))?;
    Some(kib.trim().parse::<u64>().ok()?.saturating_mul(1_024))
}

/// Compiles in another process. A failure is a sentence about the component.
pub(crate) fn in_process(process: &CompileProcess, engine: &Engine, code: &[u8]) -> Result<Component, String> {
    let (compiled, failed) = run(process, code).map_err(|error| format!("the compiler cannot be started: {error}"))?;
    if let Some(failed) = failed {
        return Err(failed);
    }
    #[expect(unsafe_code, reason = "compiled code can only be trusted, not checked")]
    // SAFETY: a process of this same program gave these bytes, through a pipe that nobody else writes to; the engine refuses
    // what another version or setting made.
    unsafe { Component::deserialize(engine, compiled) }.map_err(|error| format!("{error:#}"))
}

/// The output of the process, and the reason of its failure.
fn run(process: &CompileProcess, code: &[u8]) -> io::Result<(Vec<u8>, Option<String>)> {
    let mut command = Command::new(&process.program);
    // An allocator that reserves memory ahead would have it counted as reserved, and use it beyond the bound.
    command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    command.args(&process.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ended before it read all says below why.
        let _all_or_ended = stdin.write_all(code);
    }
    let mut compiled = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(limits::COMPILED_BYTES_MAX).read_to_end(&mut compiled)?;
    }
    let mut said = String::new();
    if let Some(stderr) = child.stderr.take() {
        let _what_can_be_read = stderr.take(SAID_BYTES_MAX).read_to_string(&mut said);
    }
    let status = child.wait()?;
    let CompileLimits { cpu_s_max, memory_bytes_max } = process.limits;
    let failed = match status.code() {
        Some(0) => None,
        Some(_) if !said.is_empty() && !said.contains(OUT_OF_MEMORY) => Some(said.trim_end().to_owned()),
        _ => Some(format!(
            "compiling it takes more than {cpu_s_max} s of processor time or {memory_bytes_max} bytes of memory \
             (`programs.compile_cpu_s_max`, `programs.compile_memory_bytes_max`)"
        )),
    };
    Ok((compiled, failed))
}
