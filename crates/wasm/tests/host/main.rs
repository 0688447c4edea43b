//! Components as programs: that they run as native ones do, and that hostile ones are bounded.

mod corpus;
mod guest;
mod hostile;
mod parrot;
mod repository;
mod rig;
mod runs;
mod upload;
