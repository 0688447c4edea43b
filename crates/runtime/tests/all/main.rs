//! The tests of this crate that need no program of their own: one binary instantiates and links the layers below once.

mod ancestors;
mod children;
mod compaction;
mod deaths;
mod delivery;
mod fork_policies;
mod hold;
mod host;
mod lifecycle;
mod ops;
mod orchestrator;
mod outside;
mod past;
mod recorded;
mod repair;
mod roles;
mod scale;
mod sweeper;
mod take_over;
mod watcher;
mod why;
