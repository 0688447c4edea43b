//! The right to run a world.

pub mod lease;
pub mod lease_request;
pub mod lease_term;
