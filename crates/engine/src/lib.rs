//! The ordered transactional key-value contract on which everything durable in Mundi is built,
//! engines that implement it, and a conformance suite that tests an engine against it.
//!
//! Start with [`Engine`] and [`Transaction`]: their documentation is the contract. [`Memory`] is the
//! reference, [`Embedded`] is what users run on one machine, `Postgres` what they run on several, and `FoundationDb` on many.
//!
//! This crate must not depend on what is stored in it: no world, no journal, no queue of a layer. Its only queue is that of commits.
//!
//! The embedded engine is an ordered map with serializable transactions in one folder:
//!
//! ```
//! use mundi_engine::{Embedded, Engine, RangeRead, Transaction};
//!
//! async fn first_look(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//!     let engine = Embedded::open(folder)?;
//!
//!     let mut tx = engine.begin().await?;
//!     tx.put(b"greeting", "hello")?;
//!     tx.put_stamped(b"inbox/", b"", "first")?; // the key gets a token that rises in commit order
//!     tx.commit().await?; // on disk when this returns
//!
//!     let mut tx = engine.begin().await?;
//!     assert_eq!(tx.get(b"greeting").await?.as_deref(), Some(&b"hello"[..]));
//!     assert_eq!(tx.range(RangeRead::prefix(b"inbox/", 10)).await?.items.len(), 1);
//!     Ok(())
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let folder = tempfile::tempdir()?;
//!     pollster::block_on(first_look(folder.path()))
//! }
//! ```

mod any;
pub mod conformance;
mod contract;
pub mod embedded;
mod error;
mod forward;
pub mod foundationdb;
mod generations;
mod group;
pub mod memory;
mod overlay;
mod plan;
#[cfg(feature = "postgres")]
mod planned_reads;
#[cfg(feature = "postgres")]
pub mod postgres;
mod recent;
mod transaction_size;
mod watch;
mod write_set;

#[cfg(feature = "foundationdb")]
pub use crate::foundationdb::FoundationDb;
pub use any::{AnyEngine, AnyTransaction};
pub use contract::{Committed, Engine, Page, RangeRead, Transaction};
pub use embedded::Embedded;
pub use error::{CommitError, EngineError};
pub use memory::Memory;
pub use plan::{Read, ReadPlan, Source};
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
