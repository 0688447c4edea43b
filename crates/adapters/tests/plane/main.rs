//! The whole plane, world workers with adapter and timer workers: in an executor with its own time, where a crash drops
//! every task of a node at its await; and in a process of its own, where a crash is `kill -9`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod blob;
mod calls;
mod child_agents;
mod child_functions;
mod child_worlds;
mod crash_points;
mod fabric;
mod kill;
mod leases;
mod rig;
mod signed;
mod slots;
mod stories;
mod trace;
mod worlds;
