//! The transaction protocols, one file each. The header of each says what it guarantees and what happens
//! when a commit's fate is unknown.

pub mod cas_put;
pub mod cas_sweep;
mod error;
pub mod pin_blob;
pub mod segment_export;

pub use error::{InboxError, LeaseError, WorldError};
