//! Mundi as a library: the API for programs that embed it.
//!
//! ```no_run
//! use mundi::{Node, NodeConfig, Programs, Value};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::open("mundi-data".as_ref(), Programs::builtin(), NodeConfig::default()).await?;
//! let universe = node.universe("default").ok_or("it is always there")?;
//! let world = universe.create("counter").await?;
//! println!("{:?}", universe.call(world, "add", Value::Null).await?);
//! node.drain().await;
//! node.stop().await;
//! # Ok(())
//! # }
//! ```

use mundi_server::config::Config;
use mundi_wasm::{CompileLimits, CompileProcess, Components, ComponentsConfig, components::OpenError};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::runtime::{Handle, RuntimeFlavor};

pub use mundi_engine as engine;
pub use mundi_kernel::{children, manifest, program};
pub use mundi_model::{
    Hash, Value, WorldId, cbor, child,
    record::{EffectPolicy, ReceiptStatus},
};
pub use mundi_runtime::{
    control::ClientRequest,
    lifecycle::{ForkAt, ForkPolicy},
};
pub use mundi_server::{
    node::{HttpConfig, LlmConfig, Node, NodeConfig, NodeError, ProcessConfig, Universe},
    programs::Programs,
};

/// Runs the components that are uploaded to a node: `Programs::builtin().with_loader(components(folder)?)`. Their
/// compiled of them is kept in the data folder, and can be deleted at any time.
pub fn components(folder: &Path) -> Result<Arc<Components>, OpenError> {
    Ok(Arc::new(Components::open(in_folder(folder))?))
}

/// The same as a configuration wants it, for the `mundi` program, which compiles in processes of its own.
pub fn components_of(config: &Config) -> Result<Arc<Components>, OpenError> {
    let programs = &config.programs;
    let limits =
        CompileLimits { cpu_s_max: programs.compile_cpu_s_max, memory_bytes_max: programs.compile_memory_bytes_max };
    let mut arguments: Vec<OsString> = vec![
        "compile-component".into(),
        format!("--cpu-s-max={}", limits.cpu_s_max).into(),
        format!("--memory-bytes-max={}", limits.memory_bytes_max).into(),
    ];
    if programs.reuse_functions {
        let functions = compiled_in(&config.data.folder).join("functions");
        arguments.extend(["--functions".into(), functions.into()]);
    }
    let compiler = this_program().map(|program| CompileProcess { program, arguments, limits });
    let config = ComponentsConfig { compiler, slots: programs.slots, ..in_folder(&config.data.folder) };
    Ok(Arc::new(Components::open(config)?))
}

/// This program, also after its file was replaced by a newer one.
fn this_program() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Some(running) } else { std::env::current_exe().ok() }
}

/// Where compiled code is kept; it can be deleted at any time.
fn compiled_in(folder: &Path) -> PathBuf {
    folder.join("compiled")
}

fn in_folder(folder: &Path) -> ComponentsConfig {
    ComponentsConfig { cache: Some(compiled_in(folder)), blocking: off_the_runtime, ..ComponentsConfig::default() }
}

/// Runs long work on a thread of the runtime, whose tasks continue on another thread.
fn off_the_runtime(work: &mut dyn FnMut()) {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// The same for one who only looks: nothing is kept, and whoever asks waits for the compiler.
pub fn components_to_look() -> Result<Arc<Components>, OpenError> {
    Ok(Arc::new(Components::open(ComponentsConfig { in_background: false, ..ComponentsConfig::default() })?))
}

/// The Rust of the README is compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
