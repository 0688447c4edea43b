//! The `mundi` program as people and scripts use it: what it prints, how it ends, and the commands of the README.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bulk;
mod bundles;
mod consistency;
mod crash;
mod dead_letters;
mod demo;
mod disk;
mod examples;
mod fields;
mod forks;
#[path = "../api/guest.rs"]
mod guest;
mod kinds;
mod named_programs;
mod names;
mod outside;
#[path = "../api/process.rs"]
#[allow(dead_code, reason = "shared with the tests of the API, which use all of it")]
mod process;
mod program;
mod programs;
mod readme;
mod repair;
mod shapes;
mod todo_agent;
