//! The kernel as a host sees it. One binary, because linking is what takes the time.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod rig;

mod determinism;
mod forks;
mod golden;
mod holds;
mod hostile;
mod intents;
mod manifests;
mod misuses;
mod properties;
mod replays;
mod schemas;
mod snapshots;
mod turns;
mod verify;
