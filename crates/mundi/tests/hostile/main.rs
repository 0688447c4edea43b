//! Attacks on the real server process: one client or tenant tries to hurt the others.
//!
//! One file per attack.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod ambiguous;
mod bodies;
mod components;
mod connections;
#[path = "../api/guest.rs"]
#[allow(dead_code, reason = "shared with the tests of the API, which use more of it")]
mod guest;
mod holds;
#[path = "../fleet/member.rs"]
#[allow(dead_code, reason = "shared with the tests of a fleet, which use more of it")]
mod member;
#[path = "../api/process.rs"]
#[allow(dead_code, reason = "shared with the tests of the API, which use more of it")]
mod process;
mod registered;
mod revoked;
mod schemas;
