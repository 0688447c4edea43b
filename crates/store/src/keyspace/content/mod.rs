//! The content store and its sweep.

pub mod blob_edge;
pub mod cas_doomed;
pub mod cas_meta;
pub mod gc_pin;
pub mod kept_object;
pub mod sweep_mark;
pub mod sweep_state;
