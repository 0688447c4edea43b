//! Where worlds should run, and which have work.

pub mod assigned_world;
pub mod assignment;
pub mod ready;
pub mod ready_notify;
pub mod worker;
