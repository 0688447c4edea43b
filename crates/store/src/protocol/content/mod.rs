//! The content store and its sweep.

pub(crate) mod cas_put;
pub(crate) mod cas_sweep;
pub(in crate::protocol) mod keep_object;
pub(crate) mod sweep_run;

pub use keep_object::{KeepObject, ReleaseObject};
pub use sweep_run::{BeginSweep, Begun, ReadSweep, RequestSweep};
