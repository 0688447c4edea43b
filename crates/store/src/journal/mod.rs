//! A world's journal: what may be appended, and how it is read back across segments and the hot tail.

pub(crate) mod append;
mod batch;
mod error;
mod history;
mod segments;

pub use crate::keyspace::journal_entry::StoredRecord;
pub use batch::{Batch, Failures};
pub use error::JournalError;
pub use history::History;
pub use segments::{NoSegments, Segments};
