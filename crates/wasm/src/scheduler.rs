//! The scheduler of steps: processors are shared fairly by universe, then by world.
//!
//! A step runs in slices of [`SLICE`]. One that ends within its first slice is *short*, which almost all are; a step that goes
//! on is *long*. The first slice is processor time of the step's own thread: a short step on a busy machine stays short. At the end of every slice a long step gives up its slot if another step is due, and continues where it was when
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
//!   room for one more is given up and run again later; nothing of it is journaled.
//!
//! Native programs do not run here: they are a part of the process, and are trusted with its threads.

mod slot;

pub(crate) use slot::Slot;

use mundi_model::{
    UniverseId, WorldId,
    limits::{STEPS_LONG_MAX, STEPS_LONG_OF_UNIVERSE_MAX, STEPS_WAITING_LONG_MAX, STEPS_WAITING_MAX},
};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::Thread,
    time::{Duration, Instant},
};

/// How long a step runs before it lets others go first. A request waits for a few of them at worst.
pub(crate) const SLICE: Duration = Duration::from_millis(10);

/// So many steps run at the same moment at most, however many processors there are.
pub(crate) const SLOTS_MAX: usize = 96;

/// Ticks without a running step after which the ticker sleeps until there is one.
const IDLE_TICKS_MAX: u32 = 20;

/// The owner of a step, and the share of the processors that its universe has.
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
    /// Of one universe.
    waiting_max: usize,
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

/// The processor time of one universe, and its waiting steps.
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
            waiting_max: STEPS_WAITING_MAX,
            state: Mutex::default(),
            ticker: Mutex::default(),
            ticker_sleeps: AtomicBool::new(false),
        })
    }

    /// One for work that is not interrupted, beside the steps of so many slots: it leaves one processor free, if there is another one.
    pub(crate) fn of_whole_work(slots: usize, waiting_max: usize) -> Arc<Self> {
        let Self { long_slots: slots, .. } = *Self::new(slots);
        Arc::new(Self {
            slots,
            long_slots: slots,
            waiting_max,
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
        if share.waiting >= self.waiting_max || is_long && share.waiting_long >= STEPS_WAITING_LONG_MAX {
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
        let (since, cpu_since) = (now(), thread_time());
        Slot { scheduler: self.clone(), tenant, world, is_long, has_outlasted: false, since, cpu_since }
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

/// The processor time of this thread.
#[expect(
    clippy::disallowed_methods,
    reason = "a share of the processors is about the machine's own time, never about an outcome"
)]
fn thread_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a share of the processors is about the machine's own time, never about an outcome"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
