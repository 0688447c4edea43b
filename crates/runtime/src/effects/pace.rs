//! How many effects of a universe begin: they cannot be refused, so they wait.

/// The quotas of a universe, as far as they are about effects.
pub trait EffectPace: Send + Sync {
    /// Whether there is a quota. Then all effects go through the queue, and wait there.
    fn is_limited(&self) -> bool;

    /// How many more may begin now, while so many run in this worker.
    fn room(&self, running: usize) -> usize;

    /// So many have begun.
    fn began(&self, count: usize);

    /// So many run in this worker now.
    fn running(&self, count: usize);

    /// One attempt begins beside those of this worker, if one may: a call of a child. It counts until it [ends](Self::end_call).
    fn begin_call(&self) -> bool;

    /// An attempt is over that began beside those of this worker.
    fn end_call(&self);
}

/// No quota.
pub struct Unpaced;

impl EffectPace for Unpaced {
    fn is_limited(&self) -> bool {
        false
    }

    fn room(&self, _: usize) -> usize {
        usize::MAX
    }

    fn began(&self, _: usize) {}

    fn running(&self, _: usize) {}

    fn begin_call(&self) -> bool {
        true
    }

    fn end_call(&self) {}
}
