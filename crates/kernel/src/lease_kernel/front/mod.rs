//! Layers in front of the kernel, with cells of their own: labels, by which available resources are chosen, and a queue for those who wait.
//! They turn what they are asked into explicit ids before the kernel sees it. The kernel knows nothing of them.

mod labels;
mod queue;

pub(super) use queue::Wish;
