//! Slots for work that takes long: little of it is done at a time in a process, and universes share the slots.
//!
//! A universe has at most a part of the slots, so that its work leaves room for that of others, however long it takes. A free slot
//! goes to the universe with the fewest of them; among those with equally many, to the one that got its last slot first.

use mundi_model::UniverseId;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tokio::{sync::oneshot, time::Instant};

/// How much of a kind of work is done at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// In the process.
    pub(super) at_once: usize,
    pub(super) of_universe: usize,
    pub(super) waiting_of_universe: usize,
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum Crowded {
    #[error("{} of this universe wait already: try again later", .0.waiting_of_universe)]
    Waiting(Bounds),
    #[error(
        "others took all the time: at most {} of a universe and {} of a process are done at a time; try again later",
        .0.of_universe,
        .0.at_once
    )]
    Late(Bounds),
}

pub(super) struct FairSlots {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: usize,
    /// Slots given so far.
    given: u64,
    /// Of universes with work that is done or waits.
    lines: BTreeMap<UniverseId, Line>,
}

/// The work of one universe.
#[derive(Default)]
struct Line {
    running: usize,
    /// The time at which the key got its last slot.
    last: u64,
    waiting: VecDeque<oneshot::Sender<FairSlot>>,
}

impl FairSlots {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, state: Mutex::default() })
    }

    /// A slot, when it is this universe's turn. One that is waited for no more goes to others.
    pub(super) async fn enter(self: &Arc<Self>, universe: UniverseId, until: Instant) -> Result<FairSlot, Crowded> {
        let turn = {
            let state = &mut *self.state.lock();
            // One that comes stands behind all that wait: it would else be served before them whenever it comes again.
            let last = state.given;
            let line = state.lines.entry(universe).or_insert_with(|| Line { last, ..Line::default() });
            line.waiting.retain(|waiter| !waiter.is_closed());
            if line.waiting.len() >= self.bounds.waiting_of_universe {
                return Err(Crowded::Waiting(self.bounds));
            }
            let (waiter, turn) = oneshot::channel();
            line.waiting.push_back(waiter);
            turn
        };
        self.give();
        match tokio::time::timeout_at(until, turn).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(Crowded::Late(self.bounds)),
        }
    }

    /// Gives the free slots to the universes whose turn it is.
    fn give(self: &Arc<Self>) {
        loop {
            let Some((universe, waiter)) = self.state.lock().next(self.bounds) else { return };
            // One that went away meanwhile drops its slot, which gives it to the next one.
            let _slot = waiter.send(FairSlot { slots: self.clone(), universe });
        }
    }
}

impl State {
    /// Takes the waiter whose turn it is, if there is room.
    fn next(&mut self, bounds: Bounds) -> Option<(UniverseId, oneshot::Sender<FairSlot>)> {
        for line in self.lines.values_mut() {
            line.waiting.retain(|waiter| !waiter.is_closed());
        }
        self.lines.retain(|_, line| line.running > 0 || !line.waiting.is_empty());
        if self.running >= bounds.at_once {
            return None;
        }
        let waits = |line: &Line| !line.waiting.is_empty() && line.running < bounds.of_universe;
        let lines = self.lines.iter_mut().filter(|(_, line)| waits(line));
        let (universe, line) = lines.min_by_key(|(universe, line)| (line.running, line.last, **universe))?;
        let waiter = line.waiting.pop_front()?;
        self.given += 1;
        self.running += 1;
        (line.running, line.last) = (line.running + 1, self.given);
        Some((*universe, waiter))
    }
}

/// The right to go on, until it is dropped.
pub(super) struct FairSlot {
    slots: Arc<FairSlots>,
    universe: UniverseId,
}

impl Drop for FairSlot {
    fn drop(&mut self) {
        {
            let mut state = self.slots.state.lock();
            state.running -= 1;
            if let Some(line) = state.lines.get_mut(&self.universe) {
                line.running -= 1;
            }
        }
        self.slots.give();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use futures_util::FutureExt;
    use std::{pin::Pin, time::Duration};

    const BOUNDS: Bounds = Bounds { at_once: 8, of_universe: 2, waiting_of_universe: 64 };

    fn universe(number: u8) -> UniverseId {
        UniverseId::from_bytes([number; UniverseId::LEN])
    }

    type Entering = Pin<Box<dyn Future<Output = Result<FairSlot, Crowded>>>>;

    /// Something that has come: it waits, or has its slot already.
    fn come(slots: &Arc<FairSlots>, number: u8) -> (Entering, Option<FairSlot>) {
        let (slots, until) = (slots.clone(), Instant::now() + Duration::from_secs(3_600));
        let mut entering: Entering = Box::pin(async move { slots.enter(universe(number), until).await });
        let slot = entering.as_mut().now_or_never().map(Result::unwrap);
        (entering, slot)
    }

    #[tokio::test]
    async fn queries_of_one_universe_leave_places_to_others() {
        let slots = FairSlots::new(BOUNDS);
        let loud: Vec<_> = (0..BOUNDS.at_once).map(|_| come(&slots, 1)).collect();
        assert_eq!(loud.iter().filter(|(_, slot)| slot.is_some()).count(), BOUNDS.of_universe);
        assert!(come(&slots, 2).1.is_some());
    }

    #[tokio::test]
    async fn universes_take_turns_however_many_queries_each_has() {
        let slots = FairSlots::new(BOUNDS);
        let universes = u8::try_from(BOUNDS.at_once / BOUNDS.of_universe).unwrap();
        let all = (0..universes).flat_map(|number| std::iter::repeat_n(number, BOUNDS.of_universe));
        let mut running: VecDeque<_> = all.map(|number| come(&slots, number).1.unwrap()).collect();
        let mut loud: Vec<_> = (0..4).map(|_| come(&slots, 100).0).collect();
        let (mut quiet, none) = come(&slots, 101);
        assert!(none.is_none(), "all slots are taken");
        running.pop_front();
        let first = loud[0].as_mut().now_or_never().expect("it came first").unwrap();
        running.pop_front();
        let second = quiet.as_mut().now_or_never().expect("it has fewer than the loud one").unwrap();
        running.pop_front();
        let third = loud[1].as_mut().now_or_never().expect("it got its last slot first").unwrap();
        running.pop_front();
        assert!(loud[2].as_mut().now_or_never().is_none(), "a universe has no more than its part");
        drop((first, second, third));
        assert!(loud[2].as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_went_away_while_it_waited_takes_no_slot() {
        let slots = FairSlots::new(BOUNDS);
        let mut running: Vec<_> = (0..BOUNDS.of_universe).map(|_| come(&slots, 1).1.unwrap()).collect();
        let [(gone, _), (given, _), (mut next, _)] = [come(&slots, 1), come(&slots, 1), come(&slots, 1)];
        drop(gone);
        running.pop();
        drop(given); // it went away with the slot that it had been given
        let slot = next.as_mut().now_or_never().unwrap().unwrap();
        assert_eq!(slots.state.lock().running, BOUNDS.of_universe);
        drop((running, slot));
        assert_eq!(slots.state.lock().running, 0);
        assert!(slots.state.lock().lines.is_empty(), "nothing is remembered of who is gone");
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_waits_no_longer_than_its_time() {
        let slots = FairSlots::new(BOUNDS);
        let _running: Vec<_> = (0..BOUNDS.of_universe).map(|_| come(&slots, 1).1.unwrap()).collect();
        let _waiting: Vec<_> = (0..BOUNDS.waiting_of_universe).map(|_| come(&slots, 1)).collect();
        let now = Instant::now();
        assert!(matches!(
            slots.enter(universe(1), now + Duration::from_secs(3_600)).await.err(),
            Some(Crowded::Waiting(_))
        ));
        let _others: Vec<_> = (0..BOUNDS.of_universe).map(|_| come(&slots, 2).1.unwrap()).collect();
        assert!(matches!(slots.enter(universe(2), now).await.err(), Some(Crowded::Late(_))));
    }
}
