//! Mundi as a library: what a program that embeds it needs, under one name.
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

use mundi_wasm::{Components, ComponentsConfig, components::OpenError};
use std::{path::Path, sync::Arc};

pub use mundi_engine as engine;
pub use mundi_kernel::{manifest, program};
pub use mundi_model::{Value, WorldId, cbor, record::ReceiptStatus};
pub use mundi_server::{
    node::{HttpConfig, LlmConfig, Node, NodeConfig, NodeError, ProcessConfig, Universe},
    programs::Programs,
};

/// What runs the components that are uploaded to a node: `Programs::builtin().with_loader(components(folder)?)`. What is
/// compiled of them is kept in the data folder, and can be deleted at any time.
pub fn components(folder: &Path) -> Result<Arc<Components>, OpenError> {
    let cache = Some(folder.join("compiled"));
    Ok(Arc::new(Components::open(ComponentsConfig { cache, ..ComponentsConfig::default() })?))
}

/// The same for one who only looks: nothing is kept, and whoever asks waits for the compiler.
pub fn components_to_look() -> Result<Arc<Components>, OpenError> {
    Ok(Arc::new(Components::open(ComponentsConfig { in_background: false, ..ComponentsConfig::default() })?))
}

/// The Rust of the README is compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
