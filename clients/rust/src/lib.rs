//! Client of Mundi: durable worlds, their journals, forks and effects.
//!
//! Refusals of the server are errors with a stable code, a kind that says what a caller can do, and a hint. Calls and sends have an
//! idempotency key of their own, so that they are repeated while the server is away and done once.
//!
//! ```no_run
//! # async fn example() -> Result<(), mundi_client::Error> {
//! let mundi = mundi_client::Mundi::new("http://127.0.0.1:7600");
//! let alice = mundi.create(Some("alice"), &serde_json::json!({ "program": "counter" })).await?;
//! let count: u64 = alice.call("add", &5).await?;
//! # let _ = count; Ok(()) }
//! ```
//!
//! This crate must not know how a server works inside: it depends on no other crate of Mundi.

mod call;
mod children;
mod client;
mod error;
mod following;
mod functions;
mod holders;
mod http;
mod journal;
mod pool;
mod worker;
mod world;

pub use call::CallOptions;
pub use children::Children;
pub use client::{Bulk, Mundi};
pub use error::{Error, Kind};
pub use functions::Functions;
pub use http::{Http, escape};
pub use pool::Pool;
pub use worker::{Failure, Task, Worker};
pub use world::{QueryOptions, SendOptions, World};
