//! Components as programs: that they run as native ones do, and that hostile ones are bounded.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it saw"
)]

mod corpus;
mod functions;
mod guest;
mod hostile;
mod parrot;
mod repository;
mod rig;
mod runs;
mod upload;
