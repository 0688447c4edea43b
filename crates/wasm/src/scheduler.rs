//! Which steps run now: the processors are shared by universe, then by world, whatever each of them does.
//!
//! A step runs in slices of [`SLICE`]. One that ends within its first slice is *short*, which almost all are; a step that goes
//! on is *long*. At the end of every slice a long step gives up its slot if another step is due, and goes on where it was when
//! its turn comes again: the instance waits, so the outcome is the same as without the pause.
//!
//! - Slots: at most `slots` steps run at the same moment, and at most `long_slots` of them are long. So one slot at least is
//!   always for short steps, and the threads that serve requests compete with no more than `slots` others.
//! - Universes take turns by the time that they have used, divided by their weight. A universe that was idle begins at the
//!   time of the others: it can neither save up time nor owe any.
//! - Within a universe its worlds take turns, however many steps and queries each of them brings. Of the places where steps of a
//!   universe wait, half are kept from those that were long lately: a world whose steps are short finds one beside any number of loops.
//! - Long steps that have begun hold an instance, with its memory, also while they wait. So their number is bounded, over all
//!   universes and for each; a program that was long lately waits before it begins. A step that turns out long where there is no
//!   room for one more is given up and run again later; nothing of it is on record.
//!
//! Native programs do not run here: they are a part of the process, and are trusted with its threads.

use mundi_model::{
    UniverseId, WorldId,
    limits::{STEPS_LONG_MAX, STEPS_LONG_OF_UNIVERSE_MAX, STEPS_WAITING_LONG_MAX, STEPS_WAITING_MAX},
};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    thread::Thread,
    time::{Duration, Instant},
};

/// How long a step runs before it lets others go first. A request waits for a few of them at worst.
pub(crate) const SLICE: Duration = Duration::from_millis(10);

/// So many steps run at the same moment at most, however many processors there are.
pub(crate) const SLOTS_MAX: usize = 96;

/// Ticks without a running step after which the ticker sleeps until there is one.
const IDLE_TICKS_MAX: u32 = 20;

/// Whose step it is, and how large a share of the processors that universe has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tenant {
    pub(crate) universe: UniverseId,
    pub(crate) weight: u32,
}

/// Why a step does not run now. It may at another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Crowded {
    #[error(
        "{STEPS_WAITING_MAX} steps and queries of this universe, or {STEPS_WAITING_LONG_MAX} long ones, wait for a processor already"
    )]
    Waiting,
    #[error(
        "this universe has {STEPS_LONG_OF_UNIVERSE_MAX} long steps under way, or the process {STEPS_LONG_MAX}: it is run again"
    )]
    Long,
}

pub(crate) struct Scheduler {
    slots: usize,
    long_slots: usize,
    state: Mutex<State>,
    ticker: Mutex<Option<Thread>>,
    ticker_sleeps: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Steps that run at this moment, and how many of them are long.
    running: usize,
    running_long: usize,
    /// Long steps that have begun and are not over.
    long: usize,
    /// The used time of the universe that was last given a slot or a slice, when it was given: where a universe begins that
    /// was idle (start-time fair queueing).
    now: u64,
    universes: BTreeMap<UniverseId, Share>,
}

/// What one universe has used, and what of it waits.
#[derive(Default)]
struct Share {
    /// Nanoseconds, divided by the weight.
    used: u64,
    running: usize,
    long: usize,
    waiting: usize,
    /// Of these, long ones that have not begun.
    waiting_long: usize,
    /// Worlds with something that waits, in the order of their turns.
    turns: VecDeque<WorldId>,
    worlds: BTreeMap<WorldId, VecDeque<Waiter>>,
}

/// A step that waits for a slot.
struct Waiter {
    grant: Arc<Grant>,
    /// It is long, or is expected to be.
    is_long: bool,
    /// It holds an instance already.
    has_begun: bool,
}

#[derive(Default)]
struct Grant {
    given: Mutex<bool>,
    changed: Condvar,
}

impl Grant {
    fn give(&self) {
        *self.given.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut given = self.given.lock();
        while !*given {
            self.changed.wait(&mut given);
        }
    }
}

impl Scheduler {
    /// One with so many slots; 0 stands for the number of processors.
    pub(crate) fn new(slots: usize) -> Arc<Self> {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let slots = if slots == 0 { processors() } else { slots }.min(SLOTS_MAX);
        let long_slots = slots.saturating_sub(1).max(1);
        Arc::new(Self {
            slots,
            long_slots,
            state: Mutex::default(),
            ticker: Mutex::default(),
            ticker_sleeps: AtomicBool::new(false),
        })
    }

    /// A slot, if the step can begin at once.
    pub(crate) fn try_enter(self: &Arc<Self>, tenant: Tenant, world: WorldId, is_long: bool) -> Option<Slot> {
        let mut state = self.state.lock();
        if is_long || state.running >= self.slots || state.next(self).is_some() {
            return None;
        }
        let share = state.share(tenant.universe);
        share.running += 1;
        let used = share.used;
        state.now = state.now.max(used);
        state.running += 1;
        drop(state);
        Some(self.slot(tenant, world, false))
    }

    /// A slot, as soon as it is this step's turn. The thread waits.
    pub(crate) fn enter(self: &Arc<Self>, tenant: Tenant, world: WorldId, is_long: bool) -> Result<Slot, Crowded> {
        let mut state = self.state.lock();
        let share = state.share(tenant.universe);
        if share.waiting >= STEPS_WAITING_MAX || is_long && share.waiting_long >= STEPS_WAITING_LONG_MAX {
            return Err(Crowded::Waiting);
        }
        let grant = share.wait(world, is_long, false);
        state.dispatch(self);
        drop(state);
        grant.wait();
        Ok(self.slot(tenant, world, is_long))
    }

    fn slot(self: &Arc<Self>, tenant: Tenant, world: WorldId, is_long: bool) -> Slot {
        if self.ticker_sleeps.swap(false, Ordering::SeqCst)
            && let Some(ticker) = &*self.ticker.lock()
        {
            ticker.unpark();
        }
        Slot { scheduler: self.clone(), tenant, world, is_long, has_outlasted: false, since: now() }
    }

    /// Calls `tick` once per slice while steps run. Returns when `tick` says that nobody is left to tick for.
    pub(crate) fn keep_ticking(&self, mut tick: impl FnMut() -> bool) {
        *self.ticker.lock() = Some(std::thread::current());
        let mut idle = 0;
        loop {
            #[expect(
                clippy::disallowed_methods,
                reason = "slices are about the machine's own time, never about an outcome"
            )]
            std::thread::sleep(SLICE);
            if !tick() {
                return;
            }
            idle = if self.state.lock().running == 0 { idle + 1 } else { 0 };
            if idle > IDLE_TICKS_MAX {
                self.ticker_sleeps.store(true, Ordering::SeqCst);
                // A step that began before the line above was seen does not wake the ticker: look once more.
                if self.state.lock().running == 0 {
                    std::thread::park_timeout(Duration::from_secs(1)); // to notice that all engines are gone
                }
                self.ticker_sleeps.store(false, Ordering::SeqCst);
                idle = 0;
            }
        }
    }
}

impl State {
    /// The share of a universe that brings a step. One that was idle begins where the others are.
    fn share(&mut self, universe: UniverseId) -> &mut Share {
        let now = self.now;
        let share = self.universes.entry(universe).or_default();
        if share.running == 0 && share.waiting == 0 {
            share.used = share.used.max(now);
        }
        share
    }

    /// The universe that is due, with the place of its world among the turns.
    fn next(&self, scheduler: &Scheduler) -> Option<(UniverseId, usize)> {
        if self.running >= scheduler.slots {
            return None;
        }
        let due = self.universes.iter().filter_map(|(universe, share)| {
            let place = share.turns.iter().position(|world| self.may_run(scheduler, share, world))?;
            Some((share.used, *universe, place))
        });
        due.min_by_key(|(used, universe, _)| (*used, *universe)).map(|(_, universe, place)| (universe, place))
    }

    fn may_run(&self, scheduler: &Scheduler, share: &Share, world: &WorldId) -> bool {
        let Some(waiter) = share.worlds.get(world).and_then(VecDeque::front) else { return false };
        let has_room = waiter.has_begun || self.long < STEPS_LONG_MAX && share.long < STEPS_LONG_OF_UNIVERSE_MAX;
        !waiter.is_long || self.running_long < scheduler.long_slots && has_room
    }

    /// Gives the free slots to those who are due.
    fn dispatch(&mut self, scheduler: &Scheduler) {
        while let Some((universe, place)) = self.next(scheduler) {
            let Some(share) = self.universes.get_mut(&universe) else { return };
            let Some(waiter) = share.take(place) else { return };
            share.running += 1;
            let begins_long = waiter.is_long && !waiter.has_begun;
            share.long += usize::from(begins_long);
            self.now = self.now.max(share.used);
            self.long += usize::from(begins_long);
            self.running += 1;
            self.running_long += usize::from(waiter.is_long);
            waiter.grant.give();
        }
    }
}

impl Share {
    fn wait(&mut self, world: WorldId, is_long: bool, has_begun: bool) -> Arc<Grant> {
        let grant = Arc::<Grant>::default();
        let queue = self.worlds.entry(world).or_default();
        if queue.is_empty() {
            self.turns.push_back(world);
        }
        let waiter = Waiter { grant: grant.clone(), is_long, has_begun };
        // What has begun holds an instance: it goes before what has not.
        if has_begun {
            queue.push_front(waiter);
        } else {
            queue.push_back(waiter);
        }
        self.waiting += 1;
        self.waiting_long += usize::from(is_long && !has_begun);
        grant
    }

    /// Takes the first waiter of the world at this place; a world with more of them goes to the end.
    fn take(&mut self, place: usize) -> Option<Waiter> {
        let world = self.turns.remove(place)?;
        let queue = self.worlds.get_mut(&world)?;
        let waiter = queue.pop_front();
        if queue.is_empty() {
            self.worlds.remove(&world);
        } else {
            self.turns.push_back(world);
        }
        self.waiting -= usize::from(waiter.is_some());
        self.waiting_long -= usize::from(waiter.as_ref().is_some_and(|waiter| waiter.is_long && !waiter.has_begun));
        waiter
    }
}

/// The right to run, until it is dropped.
pub(crate) struct Slot {
    scheduler: Arc<Scheduler>,
    tenant: Tenant,
    world: WorldId,
    /// It counts as long.
    is_long: bool,
    /// It has used up its first slice, whatever it was taken for.
    has_outlasted: bool,
    since: Instant,
}

impl Slot {
    /// A slice is over: says whether the step may go on at once. If not, [`pause`](Self::pause) comes next.
    pub(crate) fn slice_is_over(&mut self) -> Result<bool, Crowded> {
        self.has_outlasted = true;
        let scheduler = self.scheduler.clone();
        let mut state = scheduler.state.lock();
        self.charge(&mut state);
        if !self.is_long {
            self.become_long(&mut state)?;
        }
        let mine = state.universes.get(&self.tenant.universe).map_or(0, |share| share.used);
        // This one's slot may be what the next step waits for.
        state.running -= 1;
        state.running_long -= 1;
        let next = state.next(&scheduler);
        let is_due =
            next.and_then(|(universe, _)| state.universes.get(&universe)).is_some_and(|share| share.used <= mine);
        let goes_on = !is_due && state.running_long < scheduler.long_slots;
        if goes_on {
            state.now = state.now.max(mine);
        }
        state.running += 1;
        state.running_long += 1;
        Ok(goes_on)
    }

    /// Lets others run, and waits for the next turn.
    pub(crate) fn pause(&mut self) {
        let scheduler = self.scheduler.clone();
        let mut state = scheduler.state.lock();
        state.running -= 1;
        state.running_long -= 1;
        let Some(share) = state.universes.get_mut(&self.tenant.universe) else { return };
        share.running -= 1;
        let grant = share.wait(self.world, true, true);
        state.dispatch(&scheduler);
        drop(state);
        grant.wait();
        self.since = now();
    }

    pub(crate) fn has_outlasted(&self) -> bool {
        self.has_outlasted
    }

    fn become_long(&mut self, state: &mut State) -> Result<(), Crowded> {
        let long = state.long;
        let Some(share) = state.universes.get_mut(&self.tenant.universe) else { return Ok(()) };
        if long >= STEPS_LONG_MAX || share.long >= STEPS_LONG_OF_UNIVERSE_MAX {
            return Err(Crowded::Long);
        }
        share.long += 1;
        state.long += 1;
        state.running_long += 1;
        self.is_long = true;
        Ok(())
    }

    fn charge(&mut self, state: &mut State) {
        let until = now();
        let spent = until.saturating_duration_since(self.since).as_nanos() / u128::from(self.tenant.weight.max(1));
        self.since = until;
        if let Some(share) = state.universes.get_mut(&self.tenant.universe) {
            share.used = share.used.saturating_add(u64::try_from(spent).unwrap_or(u64::MAX));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let scheduler = self.scheduler.clone();
        let mut state = scheduler.state.lock();
        self.charge(&mut state);
        state.running -= 1;
        state.running_long -= usize::from(self.is_long);
        state.long -= usize::from(self.is_long);
        let now = state.now;
        if let Some(share) = state.universes.get_mut(&self.tenant.universe) {
            share.running -= 1;
            share.long -= usize::from(self.is_long);
            // One that is not ahead of the others has nothing to be remembered for.
            if share.running == 0 && share.waiting == 0 && share.used <= now {
                state.universes.remove(&self.tenant.universe);
            }
        }
        state.dispatch(&scheduler);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a share of the processors is about the machine's own time, never about an outcome"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    fn tenant(number: u8) -> Tenant {
        weighing(number, 1)
    }

    fn weighing(number: u8, weight: u32) -> Tenant {
        Tenant { universe: UniverseId::from_bytes([number; UniverseId::LEN]), weight }
    }

    fn world(number: u8) -> WorldId {
        WorldId::from_bytes([number; WorldId::LEN])
    }

    /// Makes a slot look as if it had run for so long.
    fn age(slot: &mut Slot, ms: u64) {
        slot.since = slot.since.checked_sub(Duration::from_millis(ms)).unwrap();
    }

    /// Threads that wait for a slot, and say which of them runs. Each holds its slot until it is told to let go.
    struct Crowd {
        scheduler: Arc<Scheduler>,
        runs: (mpsc::Sender<&'static str>, mpsc::Receiver<&'static str>),
        letting_go: BTreeMap<&'static str, mpsc::Sender<()>>,
    }

    impl Crowd {
        fn new(scheduler: &Arc<Scheduler>) -> Self {
            Self { scheduler: scheduler.clone(), runs: mpsc::channel(), letting_go: BTreeMap::new() }
        }

        fn waiting(&self) -> usize {
            self.scheduler.state.lock().universes.values().map(|share| share.waiting).sum()
        }

        /// Returns when the thread waits.
        fn enter(&mut self, name: &'static str, tenant: Tenant, world: WorldId, is_long: bool) {
            let (scheduler, runs, before) = (self.scheduler.clone(), self.runs.0.clone(), self.waiting());
            let (let_go, told) = mpsc::channel();
            self.letting_go.insert(name, let_go);
            thread::spawn(move || {
                let slot = scheduler.enter(tenant, world, is_long).unwrap();
                runs.send(name).unwrap();
                let _or_the_test_is_over = told.recv();
                drop(slot);
            });
            while self.waiting() == before {
                thread::yield_now();
            }
        }

        /// The next one that runs.
        fn next(&self) -> &'static str {
            self.runs.1.recv().unwrap()
        }

        fn let_go(&mut self, name: &'static str) {
            self.letting_go.remove(name).unwrap().send(()).unwrap();
        }
    }

    #[test]
    fn a_slot_is_there_at_once_until_all_are_taken() {
        let scheduler = Scheduler::new(2);
        let first = scheduler.try_enter(tenant(1), world(1), false).unwrap();
        let _second = scheduler.try_enter(tenant(1), world(2), false).unwrap();
        assert!(scheduler.try_enter(tenant(2), world(3), false).is_none());
        drop(first);
        assert!(scheduler.try_enter(tenant(2), world(3), false).is_some());
    }

    #[test]
    fn the_universe_that_has_used_less_goes_first_by_its_weight() {
        let scheduler = Scheduler::new(1);
        let mut crowd = Crowd::new(&scheduler);
        let running = scheduler.try_enter(tenant(9), world(9), false).unwrap();
        for (name, of, used_ms) in [("light", weighing(1, 1), 40), ("heavy", weighing(2, 4), 80)] {
            let mut state = scheduler.state.lock();
            state.share(of.universe).used = used_ms * 1_000_000 / u64::from(of.weight);
            drop(state);
            crowd.enter(name, of, world(1), false);
        }
        drop(running);
        assert_eq!(crowd.next(), "heavy", "80 ms at a weight of four are less than 40 at one");
        crowd.let_go("heavy");
        assert_eq!(crowd.next(), "light");
    }

    #[test]
    fn worlds_of_a_universe_take_turns_however_much_one_of_them_brings() {
        let scheduler = Scheduler::new(1);
        let mut crowd = Crowd::new(&scheduler);
        let running = scheduler.try_enter(tenant(9), world(9), false).unwrap();
        for name in ["a1", "a2", "a3"] {
            crowd.enter(name, tenant(1), world(1), false);
        }
        crowd.enter("b1", tenant(1), world(2), false);
        drop(running);
        for name in ["a1", "b1", "a2", "a3"] {
            assert_eq!(crowd.next(), name);
            crowd.let_go(name);
        }
    }

    #[test]
    fn long_steps_leave_a_slot_for_short_ones() {
        let scheduler = Scheduler::new(2);
        let mut long = scheduler.try_enter(tenant(1), world(1), false).unwrap();
        assert_eq!(long.slice_is_over(), Ok(true), "nobody waits");
        let mut crowd = Crowd::new(&scheduler);
        crowd.enter("long", tenant(2), world(2), true);
        let short = scheduler.try_enter(tenant(1), world(3), false);
        assert!(short.is_some(), "one that is not known to be long begins at once");
        drop(short);
        age(&mut long, 50);
        assert_eq!(long.slice_is_over(), Ok(false), "the other universe has used less");
        let pausing = thread::spawn(move || {
            long.pause();
            long
        });
        assert_eq!(crowd.next(), "long");
        crowd.let_go("long");
        assert_eq!(pausing.join().unwrap().slice_is_over(), Ok(true));
    }

    #[test]
    fn long_steps_of_a_universe_are_bounded_and_one_too_many_is_run_again_later() {
        let scheduler = Scheduler::new(STEPS_LONG_OF_UNIVERSE_MAX + 2);
        let enter = |number| scheduler.try_enter(tenant(1), world(number), false).unwrap();
        let mut slots: Vec<_> = (0..=u8::try_from(STEPS_LONG_OF_UNIVERSE_MAX).unwrap()).map(enter).collect();
        let mut last = slots.pop().unwrap();
        assert!(slots.iter_mut().all(|slot| slot.slice_is_over() == Ok(true)));
        assert_eq!(last.slice_is_over(), Err(Crowded::Long));
        let other = &mut scheduler.try_enter(tenant(2), world(1), false).unwrap();
        assert_eq!(other.slice_is_over(), Ok(true), "another universe has room");
        drop(slots.pop());
        assert_eq!(last.slice_is_over(), Ok(true));
    }

    #[test]
    fn who_was_idle_begins_where_the_others_are() {
        let scheduler = Scheduler::new(2);
        let mut busy = scheduler.try_enter(tenant(1), world(1), false).unwrap();
        for _ in 0..3 {
            age(&mut busy, 1_000);
            assert_eq!(busy.slice_is_over(), Ok(true));
        }
        let newcomer = scheduler.try_enter(tenant(2), world(2), false).unwrap();
        let used = |tenant: Tenant| scheduler.state.lock().universes[&tenant.universe].used;
        assert!(used(tenant(2)) >= 3_000_000_000, "it has no hour of others to catch up with");
        drop((busy, newcomer));
        let mut returning = scheduler.try_enter(tenant(2), world(2), false).unwrap();
        age(&mut returning, 1);
        assert_eq!(returning.slice_is_over(), Ok(true));
    }

    #[test]
    fn what_waits_is_bounded_for_each_universe() {
        let scheduler = Scheduler::new(1);
        let mut crowd = Crowd::new(&scheduler);
        let running = scheduler.try_enter(tenant(9), world(9), false).unwrap();
        for _ in 0..STEPS_WAITING_MAX {
            crowd.enter("one of many", tenant(1), world(1), false);
        }
        assert_eq!(scheduler.enter(tenant(1), world(2), false).err(), Some(Crowded::Waiting));
        crowd.letting_go.clear();
        drop(running);
        for _ in 0..STEPS_WAITING_MAX {
            crowd.next();
        }
    }

    #[test]
    fn loops_that_wait_keep_no_short_step_of_their_universe_from_its_turn() {
        let scheduler = Scheduler::new(2);
        let mut crowd = Crowd::new(&scheduler);
        let mut long = scheduler.try_enter(tenant(1), world(0), false).unwrap();
        assert_eq!(long.slice_is_over(), Ok(true));
        for number in 1..=u8::try_from(STEPS_WAITING_LONG_MAX).unwrap() {
            crowd.enter("one of many", tenant(1), world(number), true);
        }
        assert_eq!(scheduler.enter(tenant(1), world(99), true).err(), Some(Crowded::Waiting), "one loop too many");
        let short = scheduler.try_enter(tenant(1), world(100), false).expect("a slot that no loop may have");
        let names = ["first", "second", "third"];
        for (name, number) in names.into_iter().zip(101..) {
            crowd.enter(name, tenant(1), world(number), false);
        }
        drop(short);
        for name in names {
            assert_eq!(crowd.next(), name, "before all loops that wait");
            crowd.let_go(name);
        }
        crowd.letting_go.clear();
        drop(long);
        for _ in 0..STEPS_WAITING_LONG_MAX {
            crowd.next();
        }
    }
}
