//! The tests of this crate that need no program of their own: one binary instantiates and links the layers below once.

mod calls;
mod children;
mod conformance;
mod crash_list;
mod fabric;
mod find;
mod hot_keys;
mod pools;
mod queues_under_load;
mod read_plans;
mod restore;
mod s3;
mod scale;
mod threads;
mod timers;
mod worlds;
