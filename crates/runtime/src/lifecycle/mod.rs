//! The life cycle of a world: created, seeded, forked, paused, resumed, archived, deleted.

pub(crate) mod checkpoints;
mod create;
mod delete;
mod fork;
pub(crate) mod past;
mod registration;

pub use create::{Naming, NewWorld, begin_world, create, create_named};
pub use delete::delete;
pub(crate) use fork::inherit_rest;
pub use fork::{Beginning, FUNCTIONS_INBOX, ForkAt, ForkPolicy, ForkWorld, Forked, fork, fork_named};
pub use registration::{
    is_program_registered, register_manifest, register_program, register_trusted, require_registered,
};
