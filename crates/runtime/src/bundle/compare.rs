//! The parts of a bundle that another program is compared with.

use mundi_kernel::rehearse::Compare;

/// What [`Bundle::rehearse`](super::Bundle::rehearse) compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleCompare {
    /// Every step.
    Steps(Compare),
    /// Only what an upgrade at its end would compare: running instances of durable functions by what is on record of them, and the outputs of steps
    /// that are of no function.
    OpenWork,
}
