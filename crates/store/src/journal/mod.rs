//! A world's journal: what may be appended, and how it is read back across segments and the hot tail.

mod error;
mod segments;

pub use error::JournalError;
pub use segments::{NoSegments, Segments};
