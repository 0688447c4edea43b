//! Planted bugs of durable functions, to prove that the simulator finds them. Without the feature `mutants` `planted` is a constant `false`.

/// Each is a mistake that a layer of this kind could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// An await that has ended ends again.
    EndedAwaitEnds = 1,
    /// The key of an instance that has ended starts it anew.
    EndedRunsAgain,
    /// Results are given to the code in the order in which they were asked for, not in that in which they came.
    ResultsUnordered,
}

impl Mutant {
    pub const ALL: [Self; 3] = [Self::EndedAwaitEnds, Self::EndedRunsAgain, Self::ResultsUnordered];
}

#[cfg(feature = "mutants")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a bug in this process, or takes it out again.
#[cfg(feature = "mutants")]
pub fn plant(mutant: Option<Mutant>) {
    PLANTED.store(mutant.map_or(0, |mutant| mutant as u8), std::sync::atomic::Ordering::SeqCst);
}

#[cfg(feature = "mutants")]
pub(crate) fn planted(mutant: Mutant) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::SeqCst) == mutant as u8
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn planted(_: Mutant) -> bool {
    false
}
