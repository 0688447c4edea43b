//! How large a commit group is allowed to become, and who answers it: every adaptive decision of group commit, with its reasons.
//!
//! A group is one write and one sync, so larger groups are cheaper for everyone, and a group that waits for commits that do not come is
//! slower for everyone in it. A plain policy takes whatever waits when the sequencer is free. This one differs
//! as follows; figures are in `docs/internals/performance-log.md`.
//!
//! | when | what | why |
//! |---|---|---|
//! | a lone client commits again and again | the group is taken at once | nobody else will come |
//! | the CPUs are not saturated | the sequencer yields its CPU, as long as that brings commits ([`Yields`]) | committers that are runnable share the group: 163,000 instead of 137,000 puts/s of 64 tasks |
//! | yielding took longer than the commits explain | it does not yield for the next 1,024 groups | on a busy machine a yield gives a whole time slice to other programs: 25,000 instead of 45,000 puts/s |
//! | this process saturates the CPUs | the group waits up to 2 ms for a third of the recent committers ([`Committers`]) | fewer syncs take fewer CPUs from those who make the next group: 46 to 41 µs of CPU per call, 256 clients |
//! | waking those who wait takes long, and the next group is there | another thread answers ([`AnswerCost`]) | threads take ten times as long to wake as tasks; the disk would be idle meanwhile |
//!
//! `Options::adaptive_groups` turns all of it off.

use rustix::time::{ClockId, clock_gettime};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::available_parallelism,
    time::{Duration, Instant},
};

/// How often the sequencer yields for one group, as long as that brings more commits.
const YIELDS_MAX: usize = 16;
/// How long a yield may take, and how much longer for each commit that it brings: several times what they need.
const YIELD_MAX: Duration = Duration::from_micros(100);
const YIELD_PER_COMMIT: Duration = Duration::from_micros(20);
/// Groups for which it then does not yield. A time slice is a few milliseconds: one in so many groups is little.
const HURRIED_GROUPS: u32 = 1_024;

/// Under CPU saturation, a group waits for no more commits than this; and for none, if a third of the committers is fewer than the minimum ...
const AWAITED_MIN: usize = 4;
const AWAITED_MAX: usize = 128;
/// ... and so long at most.
const WAIT_MAX: Duration = Duration::from_millis(2);
/// After so many groups, the estimate of concurrent committers is one less.
const DECAY_GROUPS: usize = 8;

/// How often the load is measured. Long against a group, short against what a load lasts.
const LOAD_PERIOD: Duration = Duration::from_millis(20);
/// Of all CPUs, in percent: the clients of a busy server may need some of the same ones.
const SATURATED_PERCENT: u128 = 60;

/// With so many commits the next group is worth a sync at once, while those of the last one are woken.
const NEXT_GROUP_MIN: usize = 25;
/// Answers that take less are given by the sequencer: about what it takes to wake another thread, and to get out of its way.
const QUICK_ANSWER: Duration = Duration::from_micros(25);
/// Of the estimate of an answer's cost, each group changes a part in so many.
const ANSWER_AVERAGE_GROUPS: u64 = 8;

/// The decision about a group before it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gather {
    /// It is taken as it is.
    Nothing,
    /// Lets runnable committers go first: see [`GroupPolicy::yielded`].
    Yield { times_max: usize },
    /// Waits until so many are there, and no longer than this.
    Await { commits: usize, max: Duration },
}

/// Decides about the next group, from what the last ones were like.
pub(super) struct GroupPolicy {
    is_adaptive: bool,
    /// How many commits the last group had.
    last: usize,
    yields: Yields,
    load: CpuLoad,
    committers: Committers,
}

impl GroupPolicy {
    pub(super) fn new(is_adaptive: bool) -> Self {
        let (yields, load, committers) = (Yields::default(), CpuLoad::default(), Committers::default());
        Self { is_adaptive, last: 0, yields, load, committers }
    }

    /// So many commits are under way, from where they queue to their answer.
    pub(super) fn see_committers(&mut self, count: usize) {
        self.committers.see(count);
    }

    /// Decides whether a group is taken now, when so many commits wait already.
    pub(super) fn gather(&mut self, waiting: usize) -> Gather {
        if !self.is_adaptive || self.last <= 1 && waiting == 1 {
            return Gather::Nothing;
        }
        if self.load.is_saturated() {
            return Gather::Await { commits: self.committers.awaited(), max: WAIT_MAX };
        }
        if self.yields.for_a_group() { Gather::Yield { times_max: YIELDS_MAX } } else { Gather::Nothing }
    }

    /// The sequencer yielded. Says whether it may once more.
    pub(super) fn yielded(&mut self, took: Duration, brought: usize) -> bool {
        self.yields.learn(took, brought)
    }

    /// A group of so many was taken, after a wait for more that did not come or not.
    pub(super) fn taken(&mut self, count: usize, in_vain: bool) {
        self.last = count;
        self.committers.decay(in_vain);
    }

    /// Whether so many make a group that need not wait, and that is worth a sync while the last one is answered.
    pub(super) fn is_next_group(&mut self, waiting: usize) -> bool {
        self.is_adaptive
            && waiting >= NEXT_GROUP_MIN
            && (waiting >= self.committers.awaited() || !self.load.is_saturated())
    }
}

/// How many transactions commit at a time, as far as that was seen lately.
///
/// A group waits for a third of them at most: the others keep the CPUs busy meanwhile. Of a few, it waits for none.
#[derive(Default)]
struct Committers {
    /// Their number, times [`DECAY_GROUPS`].
    seen: usize,
}

impl Committers {
    fn see(&mut self, count: usize) {
        self.seen = self.seen.max(count * DECAY_GROUPS);
    }

    fn awaited(&self) -> usize {
        let third = self.seen / DECAY_GROUPS / 3;
        if third < AWAITED_MIN { 0 } else { third.min(AWAITED_MAX) }
    }

    /// The estimate decays, faster after a wait that timed out.
    fn decay(&mut self, in_vain: bool) {
        let step = if in_vain { self.seen.div_ceil(4) } else { 1 };
        self.seen = self.seen.saturating_sub(step);
    }
}

/// Whether it pays to yield.
#[derive(Default)]
struct Yields {
    /// For so many groups it does not.
    hurried_groups: u32,
}

impl Yields {
    fn for_a_group(&mut self) -> bool {
        let pays = self.hurried_groups == 0;
        self.hurried_groups = self.hurried_groups.saturating_sub(1);
        pays
    }

    fn learn(&mut self, took: Duration, brought: usize) -> bool {
        let brought = u32::try_from(brought).unwrap_or(u32::MAX);
        if took > YIELD_MAX.saturating_add(YIELD_PER_COMMIT.saturating_mul(brought)) {
            self.hurried_groups = HURRIED_GROUPS;
            return false;
        }
        brought > 0
    }
}

/// Whether this process saturates the CPUs.
struct CpuLoad {
    processors: u128,
    last: Option<(Instant, Duration)>,
    is_saturated: bool,
}

impl Default for CpuLoad {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self { processors: processors as u128, last: None, is_saturated: false }
    }
}

impl CpuLoad {
    #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; it decides how large a group is")]
    fn is_saturated(&mut self) -> bool {
        let now = Instant::now();
        if self.last.is_none_or(|(since, _)| now.duration_since(since) >= LOAD_PERIOD) {
            let used = clock_gettime(ClockId::ProcessCPUTime);
            let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
            self.learn(now, Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0)));
        }
        self.is_saturated
    }

    /// The process has used so much CPU time until now.
    fn learn(&mut self, now: Instant, used: Duration) {
        if let Some((since, used_then)) = self.last.replace((now, used)) {
            let available = now.duration_since(since).as_nanos() * self.processors;
            self.is_saturated = used.saturating_sub(used_then).as_nanos() * 100 >= available * SATURATED_PERCENT;
        }
    }
}

/// How long an answer takes, as the last ones did. A task is put into a queue; a thread is woken by the kernel, which takes ten times as long.
#[derive(Default)]
pub(super) struct AnswerCost {
    each_ns: AtomicU64,
}

impl AnswerCost {
    /// Gives so many answers, and measures it.
    #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; it decides who answers")]
    pub(super) fn measure(&self, count: usize, answer: impl FnOnce()) {
        let begun = Instant::now();
        answer();
        let took_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX) / count.max(1) as u64;
        let before = self.each_ns.load(Ordering::Relaxed);
        let after = before - before / ANSWER_AVERAGE_GROUPS + took_ns / ANSWER_AVERAGE_GROUPS;
        self.each_ns.store(after, Ordering::Relaxed);
    }

    /// Whether so many answers are better given by another thread.
    pub(super) fn is_high(&self, count: usize) -> bool {
        let ns = self.each_ns.load(Ordering::Relaxed).saturating_mul(count as u64);
        Duration::from_nanos(ns) > QUICK_ANSWER
    }
}

#[cfg(test)]
impl GroupPolicy {
    /// One that takes the CPUs for saturated, after a group of two.
    #[expect(clippy::disallowed_methods, reason = "the load is never measured again")]
    pub(super) fn saturated() -> Self {
        let later = Instant::now() + Duration::from_secs(3_600);
        let load = CpuLoad { last: Some((later, Duration::ZERO)), is_saturated: true, ..CpuLoad::default() };
        Self { last: 2, load, ..Self::new(true) }
    }

    /// The estimate of committers.
    pub(super) fn seen(&self) -> usize {
        self.committers.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequencer_yields_as_long_as_that_brings_commits() {
        let mut yields = Yields::default();
        assert!(yields.for_a_group() && yields.learn(YIELD_MAX, 1));
        assert!(!yields.learn(YIELD_MAX, 0) && yields.for_a_group());
        let many = YIELD_PER_COMMIT * 500;
        assert!(yields.learn(many, 500), "they had much to do");
        assert!(yields.for_a_group());
    }

    #[test]
    fn groups_are_taken_as_they_are_for_a_while_where_other_programs_take_the_time_slice() {
        let slice = Duration::from_millis(3);
        for brought in [0, 2] {
            let mut yields = Yields::default();
            assert!(yields.for_a_group() && !yields.learn(slice, brought));
            assert!((0..HURRIED_GROUPS).all(|_| !yields.for_a_group()));
            assert!(yields.for_a_group(), "then it tries again");
        }
    }

    #[test]
    fn groups_wait_for_a_third_of_the_committers() {
        let mut committers = Committers::default();
        committers.see(3 * AWAITED_MIN - 1);
        assert_eq!(committers.awaited(), 0, "these are few");
        committers.see(32);
        committers.see(1);
        assert_eq!(committers.awaited(), 10);
        (0..5 * DECAY_GROUPS).for_each(|_| committers.decay(false));
        assert_eq!(committers.awaited(), 9);
        committers.decay(true);
        assert_eq!(committers.awaited(), 6, "they do not come any more");
        committers.see(1_000);
        assert_eq!(committers.awaited(), AWAITED_MAX);
        (0..20).for_each(|_| committers.decay(true));
        assert_eq!(committers.awaited(), 0);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only differences count")]
    fn a_process_saturates_the_cpus_when_it_used_most_of_what_all_had() {
        let (begun, ms) = (Instant::now(), Duration::from_millis);
        let mut load = CpuLoad { processors: 4, last: None, is_saturated: false };
        load.learn(begun, ms(1_000));
        assert!(!load.is_saturated, "nothing is known yet");
        load.learn(begun + ms(20), ms(1_048));
        assert!(load.is_saturated);
        load.learn(begun + ms(40), ms(1_095));
        assert!(!load.is_saturated, "47 of 80 ms");
    }

    #[test]
    fn a_lone_client_and_a_plain_policy_wait_for_nobody() {
        let mut lone = GroupPolicy::saturated();
        lone.see_committers(300);
        assert_ne!(lone.gather(1), Gather::Nothing);
        lone.taken(1, false);
        assert_eq!(lone.gather(1), Gather::Nothing);
        let mut plain = GroupPolicy { is_adaptive: false, ..GroupPolicy::saturated() };
        plain.see_committers(300);
        assert_eq!((plain.gather(9), plain.is_next_group(99)), (Gather::Nothing, false));
    }
}
