//! The `mundi` program as people and scripts use it: what it prints, how it ends, and the commands of the README.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bundles;
mod crash;
mod dead_letters;
mod demo;
mod disk;
#[path = "../api/guest.rs"]
mod guest;
mod named_programs;
#[path = "../api/process.rs"]
#[allow(dead_code, reason = "shared with the tests of the API, which use all of it")]
mod process;
mod program;
mod programs;
mod readme;
mod shapes;
