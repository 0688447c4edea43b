//! Attacks on the real server process: one client or tenant tries to hurt the others.
//!
//! One file per attack. `MUNDI_HOSTILE_SCALE=20` makes each of them so many times longer or larger, as far as that means anything for
//! it: `cargo xtask nightly` does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod ambiguous;
mod bodies;
mod bundles;
mod components;
mod connections;
mod crowds;
mod deaths;
#[path = "../api/guest.rs"]
#[allow(dead_code, reason = "shared with the tests of the API, which use more of it")]
mod guest;
mod holds;
#[path = "../fleet/member.rs"]
#[allow(dead_code, reason = "shared with the tests of a fleet, which use more of it")]
mod member;
mod neighbours;
#[path = "../api/process.rs"]
#[allow(dead_code, reason = "shared with the tests of the API, which use more of it")]
mod process;
mod quotas;
mod registered;
mod retries;
mod revoked;
mod schemas;
mod shares;
mod sql;

/// So many, of an attack that may be longer.
fn scaled(count: usize) -> usize {
    let scale = std::env::var("MUNDI_HOSTILE_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    count * std::cmp::max(scale, 1)
}
