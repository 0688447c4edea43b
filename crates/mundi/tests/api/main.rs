//! The API of the real server process: every noun, every kind of refusal.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod access;
mod admission;
mod clients;
mod components;
mod console;
mod events;
mod find;
mod forks;
mod functions;
mod guest;
mod hostile;
mod lifecycle;
mod named_programs;
mod nouns;
mod pools;
mod pools_killed;
mod pools_watched;
mod process;
mod repair;
mod roles;
mod routes;
mod rust_client;
mod soak;
mod tasks;
mod telemetry;
