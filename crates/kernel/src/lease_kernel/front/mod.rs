//! Layers in front of the kernel, with cells of their own: labels, by which available resources are chosen, a queue for those who wait, and
//! what watchers leave on record. They turn what they are asked into explicit ids before the kernel sees it. The kernel knows nothing of them.

mod labels;
mod queue;
mod watch;

pub(super) use queue::{First, Wish};
