//! Planted bugs, to prove that the simulator's checkers find them.
//!
//! Without the feature `mutants` [`planted`] is a constant `false`, and what it guards is not compiled into anything. Only
//! the tests of `mundi-sim` ask for the feature, and even then nothing is planted until a test says so.

/// Each is a mistake that a system of this kind could make, or has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// A fence is not compared with the lease.
    FenceDropped = 1,
    /// A turn appends in one transaction and moves the cursor in another.
    TurnSplit,
    /// Intents are journaled, and their publishing is left to a transaction that never comes.
    PublishApart,
    /// A name under which something was enqueued is not looked up.
    DedupeSkipped,
    /// An item can be ended by its number alone: the attempt's token is not compared.
    AckWithoutToken,
    /// The cursor moves past items that were read and not taken.
    CursorEarly,
    /// A release forgets the epoch.
    EpochReset,
    /// A timer fires five seconds before its time.
    TimerEarly,
    /// A promotion brings an old baseline back.
    BaselineRegressed,
    /// Records leave the engine before a segment is indexed.
    SegmentUnindexed,
    /// A snapshot's notes are written, and the head does not move over them.
    HeadLeftBehind,
    /// A restored world forgets how late it was.
    TimeForgotten,
    /// A fork continues with its parent's effects although it was not asked to.
    ForkRepeats,
    /// All timers lie in the queue of one universe.
    UniverseCrossed,
    /// An item that is delivered directly gets a place behind items that the turn has not seen.
    DirectAhead,
    /// An operator's answer is taken without a check that the intent is open.
    AnswerUnasked,
    /// A full page of an inbox is taken for all of it, so what is handed to a world directly passes what was not read.
    EndAssumed,
    /// The name of a message expires although the effect that sends it is open.
    NameExpired,
    /// A sweep gathers the references of one world only.
    SweepUnwalked,
    /// Worlds of a worker that is gone stay assigned to it.
    OrphansKept,
    /// A world whose turns always fail is tried again for ever, without a pause.
    HoldSkipped,
    /// A worker that starts again ends the claims of all workers, not only those of its own earlier life.
    ClaimsStolen,
    /// Each caller of a turn is stored the answer of the first one.
    RepliesMixed,
    /// A worker keeps the leases of worlds that rest.
    IdleKept,
    /// An input whose step failed is consumed although the manifest holds the world there.
    HeldConsumed,
    /// A skip passes the item behind the failed one as well.
    SkipTakesTwo,
    /// A sandbox carries out what neither its parent nor its script answers.
    SandboxLeaks,
    /// A first turn that went well does not end a world's probation.
    ProbationKept,
    /// A token's charge whose commit got no answer is made twice.
    ChargeRepeated,
    /// A revoke makes the resources of a lease available.
    RevokeFrees,
    /// A release leaves the epoch of a lease as it was.
    LeaseEpochKept,
    /// A reservation takes only the first member of a bundle.
    BundleHalf,
    /// Operations of different clients share their ids.
    DedupeWithoutClient,
    /// A lease that ended can be activated.
    RetiredRevived,
    /// A reply to a call of a world is stored, and its receipt is left to a transaction that never comes.
    ReplyUnpublished,
    /// A watcher measures the delay between revoke and reclaim by its wall clock.
    WatcherTrustsClock,
    /// An entry of the index of worlds stays although its world changed.
    IndexStale,
    /// The entry for a world's last activity stays although a worker opened or released the world since.
    ActivityStale,
    /// A name that a world has is given to another one.
    NameTwice,
    /// Labels change, and the command that says so is left to a transaction that never comes.
    LabelUnjournaled,
    /// A child starts, and its event is left to a transaction that never comes.
    StartUnrecorded,
    /// A child can be started and ended by its id alone: the lease is not compared.
    ChildLeaseUnchecked,
    /// Children are dispatched while a lease of the same parent has run out.
    DispatchBeforeRecovery,
    /// Children whose executors are gone are recovered in the wrong order.
    RecoveryUnordered,
    /// A child that was cancelled ends as if it had failed by itself.
    CancelLineageLost,
    /// A debit is not compared with the parent's limit.
    BudgetUnchecked,
    /// A report of what a child used so far is debited whole, not by what is new of it.
    ReportRepeated,
    /// The calls of all runs share their idempotency keys.
    CallKeyShared,
    /// A child that is a world starts, and its world is left to a transaction that never comes.
    ChildWorldMissing,
    /// Recovery ends a child that is a world, although no process runs it.
    ChildWorldRecovered,
    /// A cancel ends a child that is a world, and the world is not told.
    ChildWorldUntold,
    /// A cancel request makes a child that has started leased again.
    PhaseLowered,
    /// A revoke leaves the key by which effects of the holder begin.
    LeaseAuthorityKept,
    /// An effect begins without a look at the lease that it names.
    EffectLeaseUnread,
    /// The lease of an effect is read for its first attempt only.
    EffectLeaseReadOnce,
    /// The claim of an effect does not conflict with a change of its lease.
    EffectLeaseReadApart,
    /// An effect that finds a message under a name that it shares with another effect does not keep the name.
    SharedNameForgotten,
}

impl Mutant {
    /// Those of the lease kernel, which the simulation of pools finds.
    pub const OF_POOLS: [Self; 6] = [
        Self::RevokeFrees,
        Self::LeaseEpochKept,
        Self::BundleHalf,
        Self::DedupeWithoutClient,
        Self::RetiredRevived,
        Self::LeaseAuthorityKept,
    ];

    /// Those of effects under leases, which the simulation of holders finds.
    pub const OF_LEASED_EFFECTS: [Self; 3] =
        [Self::EffectLeaseUnread, Self::EffectLeaseReadOnce, Self::EffectLeaseReadApart];

    /// Those of watchers, which the simulation of watched pools finds.
    pub const OF_WATCHERS: [Self; 1] = [Self::WatcherTrustsClock];

    /// Those of children, which the simulation of children finds.
    pub const OF_CHILDREN: [Self; 12] = [
        Self::StartUnrecorded,
        Self::ChildLeaseUnchecked,
        Self::DispatchBeforeRecovery,
        Self::RecoveryUnordered,
        Self::CancelLineageLost,
        Self::BudgetUnchecked,
        Self::ReportRepeated,
        Self::CallKeyShared,
        Self::ChildWorldMissing,
        Self::ChildWorldRecovered,
        Self::ChildWorldUntold,
        Self::PhaseLowered,
    ];

    /// Those that the simulation of a cluster finds.
    pub const ALL: [Self; 35] = [
        Self::FenceDropped,
        Self::TurnSplit,
        Self::PublishApart,
        Self::DedupeSkipped,
        Self::AckWithoutToken,
        Self::CursorEarly,
        Self::EpochReset,
        Self::TimerEarly,
        Self::BaselineRegressed,
        Self::SegmentUnindexed,
        Self::HeadLeftBehind,
        Self::TimeForgotten,
        Self::ForkRepeats,
        Self::UniverseCrossed,
        Self::DirectAhead,
        Self::AnswerUnasked,
        Self::EndAssumed,
        Self::NameExpired,
        Self::SweepUnwalked,
        Self::OrphansKept,
        Self::HoldSkipped,
        Self::ClaimsStolen,
        Self::RepliesMixed,
        Self::IdleKept,
        Self::HeldConsumed,
        Self::SkipTakesTwo,
        Self::SandboxLeaks,
        Self::ProbationKept,
        Self::ChargeRepeated,
        Self::ReplyUnpublished,
        Self::IndexStale,
        Self::ActivityStale,
        Self::NameTwice,
        Self::LabelUnjournaled,
        Self::SharedNameForgotten,
    ];
}

/// Whether this bug is planted in this process.
#[cfg(not(feature = "mutants"))]
pub const fn planted(_: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub use selector::{plant, planted};

#[cfg(feature = "mutants")]
mod selector {
    use super::Mutant;
    use std::sync::atomic::{AtomicU8, Ordering};

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    pub fn planted(mutant: Mutant) -> bool {
        PLANTED.load(Ordering::Relaxed) == mutant as u8
    }

    /// Plants one bug in this process in place of the one before, or none.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.store(mutant.map_or(0, |mutant| mutant as u8), Ordering::Relaxed);
    }
}
