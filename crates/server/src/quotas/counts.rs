//! The number and size of a universe's objects, estimated by one process of a fleet.
//!
//! All keys of the universe are counted now and then. What this process adds for a request is reserved at once, before it is made, so
//! requests of one process never pass the bound together, whatever is counted meanwhile: what was made while a count was in progress counts
//! twice until the next one, and never not at all. What programs add by themselves, what other processes add and what is
//! deleted is seen with the next count.

use super::{Quota, QuotaExceeded, Scope};
use mundi_store::{
    StoreError,
    reachability::Usage,
    values::{Quotas, TokenUsage},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// A count is as old as this before another one is made, at least.
const COUNT_EVERY_NS: u64 = 5_000_000_000;

/// Counting takes no more than a twentieth of the time.
const COUNT_SHARE: u64 = 20;

/// The amounts by which an object counts against a universe's quotas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) worlds: u64,
    pub(crate) bytes: u64,
    pub(crate) blobs: u64,
    pub(crate) programs: u64,
}

impl Amounts {
    pub(crate) const WORLD: Self = Self { worlds: 1, bytes: 0, blobs: 0, programs: 0 };

    pub(crate) fn blob(bytes: u64) -> Self {
        Self { bytes, blobs: 1, ..Self::default() }
    }

    pub(crate) fn bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    fn zip(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            worlds: each(self.worlds, other.worlds),
            bytes: each(self.bytes, other.bytes),
            blobs: each(self.blobs, other.blobs),
            programs: each(self.programs, other.programs),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    pub(crate) fn of(&self, quota: Quota) -> Option<u64> {
        match quota {
            Quota::Worlds => Some(self.worlds),
            Quota::StoredBytes => Some(self.bytes),
            Quota::Blobs => Some(self.blobs),
            Quota::Programs => Some(self.programs),
            _ => None,
        }
    }

    /// Built-in programs that are added to every universe count against nobody.
    fn of_usage(usage: &Usage, built_in: u64) -> Self {
        Self {
            worlds: usage.worlds,
            bytes: usage.stored_bytes(),
            blobs: usage.objects(),
            programs: usage.kept_programs.saturating_sub(built_in),
        }
    }

    /// The first quota that this and so much more were beyond; what nothing is added to is not looked at.
    pub(crate) fn beyond(&self, more: Self, quotas: &Quotas) -> Option<(Quota, u64)> {
        Quota::ALL.iter().find_map(|quota| {
            let (limit, current, added) = (quota.of(quotas)?, self.of(*quota)?, more.of(*quota)?);
            (added > 0 && current.saturating_add(added) > limit).then_some((*quota, limit))
        })
    }
}

impl From<Amounts> for TokenUsage {
    fn from(amounts: Amounts) -> Self {
        let Amounts { worlds, bytes, blobs, programs } = amounts;
        Self { worlds, bytes, blobs, programs }
    }
}

impl From<TokenUsage> for Amounts {
    fn from(usage: TokenUsage) -> Self {
        let TokenUsage { worlds, bytes, blobs, programs } = usage;
        Self { worlds, bytes, blobs, programs }
    }
}

/// Whether something that a universe holds is limited.
pub(crate) fn is_limited(quotas: &Quotas) -> bool {
    let Quotas { worlds_max, stored_bytes_max, blobs_max, programs_max, .. } = quotas;
    [worlds_max, stored_bytes_max, blobs_max, programs_max].into_iter().any(Option::is_some)
}

/// The counts of one universe.
#[derive(Default)]
pub(crate) struct Counts {
    state: Mutex<State>,
    /// Held by the one who counts.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    counted: Option<Counted>,
    /// Amounts that are about to be created, or were created and are not yet reported.
    reserved: Amounts,
    /// Amounts created since the last count began.
    made: Amounts,
    /// Amounts created since the count that is in progress began.
    made_meanwhile: Amounts,
}

#[derive(Clone, Copy)]
struct Counted {
    amounts: Amounts,
    at_ns: u64,
    took_ns: u64,
}

impl State {
    fn known(&self) -> Amounts {
        let counted = self.counted.map(|counted| counted.amounts).unwrap_or_default();
        counted.plus(self.made).plus(self.reserved)
    }
}

impl Counted {
    fn is_old(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.at_ns) >= COUNT_EVERY_NS.max(self.took_ns.saturating_mul(COUNT_SHARE))
    }
}

impl Counts {
    /// The amounts that the universe holds, counted again if the last count is old. The old count is returned only while another one is in progress.
    pub(crate) async fn current<F>(
        &self,
        now_ns: impl Fn() -> u64,
        built_in: u64,
        count: impl FnOnce() -> F,
    ) -> Result<Amounts, StoreError>
    where
        F: Future<Output = Result<Usage, StoreError>>,
    {
        let known = self.known(now_ns());
        let _turn = match known {
            Some((amounts, false)) => return Ok(amounts),
            Some((amounts, true)) => match self.counting.try_lock() {
                Ok(turn) => turn,
                Err(_) => return Ok(amounts),
            },
            None => self.counting.lock().await,
        };
        if let Some((amounts, false)) = self.known(now_ns()) {
            return Ok(amounts);
        }
        self.state.lock().made_meanwhile = Amounts::default();
        let begun_ns = now_ns();
        let amounts = Amounts::of_usage(&count().await?, built_in);
        let mut state = self.state.lock();
        let at_ns = now_ns();
        state.counted = Some(Counted { amounts, at_ns, took_ns: at_ns.saturating_sub(begun_ns) });
        state.made = state.made_meanwhile;
        Ok(state.known())
    }

    /// The amounts that are known without a poll, and whether they are old.
    pub(crate) fn known(&self, now_ns: u64) -> Option<(Amounts, bool)> {
        let state = self.state.lock();
        state.counted.map(|counted| (state.known(), counted.is_old(now_ns)))
    }

    /// Adds what is about to be made, unless that is too much. Says when it is worth to come again.
    pub(crate) fn add(self: &Arc<Self>, more: Amounts, quotas: &Quotas) -> Result<Reservation, QuotaExceeded> {
        let mut reservation = Reservation { counts: self.clone(), amounts: Amounts::default() };
        reservation.grow(more, quotas)?;
        Ok(reservation)
    }
}

/// Amounts that are about to be created. A reservation that is dropped before it is kept counts as not created.
pub(crate) struct Reservation {
    counts: Arc<Counts>,
    amounts: Amounts,
}

impl Reservation {
    /// It takes more than it was thought to.
    pub(crate) fn grow(&mut self, more: Amounts, quotas: &Quotas) -> Result<(), QuotaExceeded> {
        let mut state = self.counts.state.lock();
        let current = state.known();
        if let Some((quota, limit)) = current.beyond(more, quotas) {
            let current = current.of(quota).unwrap_or_default();
            let retry_after = Duration::from_nanos(COUNT_EVERY_NS);
            return Err(QuotaExceeded { scope: Scope::Universe, quota, limit, current, retry_after });
        }
        state.reserved = state.reserved.plus(more);
        self.amounts = self.amounts.plus(more);
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.amounts.bytes
    }

    /// It was made: the next count finds it.
    pub(crate) fn keep(self) {
        let mut state = self.counts.state.lock();
        state.made = state.made.plus(self.amounts);
        state.made_meanwhile = state.made_meanwhile.plus(self.amounts);
        drop(state); // what was reserved is given back when this ends
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.counts.state.lock();
        state.reserved = state.reserved.minus(self.amounts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn quotas(worlds_max: u64) -> Quotas {
        Quotas { worlds_max: Some(worlds_max), ..Quotas::default() }
    }

    fn usage(worlds: u64) -> Usage {
        Usage { worlds, ..Usage::default() }
    }

    const SECOND: u64 = 1_000_000_000;

    #[tokio::test]
    async fn what_is_added_counts_at_once_and_what_was_not_made_is_given_back() {
        let counts = Arc::<Counts>::default();
        counts.current(|| 0, 0, async || Ok(usage(3))).await.unwrap();
        counts.add(Amounts::WORLD, &quotas(5)).unwrap().keep();
        let dropped = counts.add(Amounts::WORLD, &quotas(5)).unwrap();
        let refused = counts.add(Amounts::WORLD, &quotas(5)).err().unwrap();
        assert_eq!((refused.quota, refused.limit, refused.current), (Quota::Worlds, 5, 5));
        assert!(counts.add(Amounts::blob(1), &quotas(0)).is_ok(), "what is not added to is not looked at");
        drop(dropped);
        assert!(counts.add(Amounts::WORLD, &quotas(5)).is_ok());
    }

    #[tokio::test]
    async fn it_is_counted_now_and_then_and_by_one_at_a_time() {
        let (counts, looks, clock) = (Counts::default(), AtomicU64::new(0), AtomicU64::new(0));
        let look = async || {
            let count = || async {
                looks.fetch_add(1, Ordering::Relaxed);
                clock.fetch_add(SECOND, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok(usage(looks.load(Ordering::Relaxed)))
            };
            counts.current(|| clock.load(Ordering::Relaxed), 0, count).await.unwrap().worlds
        };
        assert_eq!(tokio::join!(look(), look()), (1, 1), "the second waits for the first");
        clock.fetch_add(19 * SECOND, Ordering::Relaxed);
        assert_eq!(look().await, 1, "it took a second: it is not old for twenty");
        clock.fetch_add(SECOND, Ordering::Relaxed);
        assert_eq!(tokio::join!(look(), look()), (2, 1), "nobody waits who knows an old count");
    }

    #[tokio::test]
    async fn what_is_added_while_it_is_counted_is_not_lost() {
        let counts = Arc::<Counts>::default();
        counts.current(|| 0, 0, async || Ok(usage(0))).await.unwrap();
        counts.add(Amounts::WORLD, &quotas(9)).unwrap().keep();
        let counted = counts.current(
            || COUNT_EVERY_NS,
            0,
            async || {
                counts.add(Amounts::WORLD, &quotas(9)).unwrap().keep(); // the count may have passed its place
                Ok(usage(1))
            },
        );
        assert_eq!(counted.await.unwrap().worlds, 2);
    }

    #[tokio::test]
    async fn what_is_being_made_counts_however_often_it_is_counted_meanwhile() {
        let counts = Arc::<Counts>::default();
        let count = async |at_ns| counts.current(|| at_ns, 0, async || Ok(usage(1))).await.unwrap().worlds;
        assert_eq!(count(0).await, 1);
        let (kept, dropped) = (counts.add(Amounts::WORLD, &quotas(3)), counts.add(Amounts::WORLD, &quotas(3)));
        assert_eq!(count(COUNT_EVERY_NS).await, 3, "none of the two is there yet");
        assert!(counts.add(Amounts::WORLD, &quotas(3)).is_err());
        kept.unwrap().keep();
        drop(dropped);
        assert_eq!(count(COUNT_EVERY_NS).await, 2, "one was made and the other was not");
    }

    /// The operations of requests, one after another.
    #[derive(Debug, Clone, Copy)]
    enum Op {
        Reserve,
        /// The one that was reserved longest ago is made.
        Make,
        /// And said to be, or given up before.
        End,
    }

    /// Requests of one process, and what there really is.
    #[derive(Default)]
    struct Process {
        counts: Arc<Counts>,
        reserved: Vec<Reservation>,
        made: Vec<Reservation>,
        worlds: u64,
    }

    const WORLDS_MAX: u64 = 5;

    impl Process {
        fn run(&mut self, op: Op) {
            match op {
                Op::Reserve => self.reserved.extend(self.counts.add(Amounts::WORLD, &quotas(WORLDS_MAX))),
                Op::Make if !self.reserved.is_empty() => {
                    self.made.push(self.reserved.remove(0));
                    self.worlds += 1;
                }
                Op::Make => {}
                Op::End => match self.made.pop() {
                    Some(made) => made.keep(),
                    None => drop(self.reserved.pop()),
                },
            }
        }
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        proptest::collection::vec(prop_oneof![Just(Op::Reserve), Just(Op::Make), Just(Op::End)], 0..12)
    }

    proptest! {
        /// Whatever is reserved, made, given up and counted in whatever order, what one process makes stays within the bound, and what nobody
        /// uses can be had.
        #[test]
        fn requests_of_one_process_never_pass_a_bound_together(
            rounds in proptest::collection::vec((ops(), ops(), any::<prop::sample::Index>()), 1..6),
        ) {
            let mut process = Process::default();
            for (round, (before, during, look)) in (0_u64..).zip(rounds) {
                if round > 0 {
                    before.into_iter().for_each(|op| process.run(op));
                }
                let counts = process.counts.clone();
                let count = async || {
                    let look = look.index(during.len() + 1);
                    during[..look].iter().for_each(|op| if round > 0 { process.run(*op) });
                    let seen = process.worlds;
                    during[look..].iter().for_each(|op| if round > 0 { process.run(*op) });
                    Ok(usage(seen))
                };
                counts.current(|| round * COUNT_EVERY_NS, 0, count).now_or_never().unwrap().unwrap();
                prop_assert!(process.worlds <= WORLDS_MAX, "{} worlds", process.worlds);
            }
            let Process { counts, reserved, made, worlds } = process;
            drop(reserved);
            made.into_iter().for_each(Reservation::keep);
            let known = counts.current(|| u64::MAX, 0, async || Ok(usage(worlds))).now_or_never().unwrap().unwrap();
            prop_assert_eq!(known.worlds, worlds, "what was given up or counted twice is forgotten");
        }
    }
}
