//! The transaction protocols, one file each. The header of each says what it guarantees and what happens
//! when a commit's fate is unknown.

mod error;

pub use error::{InboxError, LeaseError, WorldError};
