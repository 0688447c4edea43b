//! The lease kernel beside a model in plain Rust: the same results, the same state, and a replay that is the same byte for byte.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "the numbers of a test are small")]

mod bad_input;
mod copies;
mod cost;
mod model;
mod properties;
mod queue;
mod results;
mod rig;
mod watch;
