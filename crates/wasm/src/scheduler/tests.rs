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

/// As if the thread had used no processor before the slot: whatever it does now is beyond the first slice.
fn enter(scheduler: &Arc<Scheduler>, tenant: Tenant, world: WorldId) -> Slot {
    let mut slot = scheduler.try_enter(tenant, world, false).unwrap();
    while thread_time() < SLICE {
        std::hint::spin_loop();
    }
    slot.cpu_since = Duration::ZERO;
    slot
}

#[test]
fn a_step_that_hardly_ran_is_not_long() {
    let scheduler = Scheduler::new(1);
    let mut slot = scheduler.try_enter(tenant(1), world(1), false).unwrap();
    age(&mut slot, 1_000);
    assert_eq!((slot.slice_is_over(), slot.has_outlasted(), slot.is_long), (Ok(true), false, false));
    slot.cpu_since = Duration::ZERO;
    while thread_time() < SLICE {
        std::hint::spin_loop();
    }
    assert_eq!((slot.slice_is_over(), slot.has_outlasted(), slot.is_long), (Ok(true), true, true));
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
    let mut long = enter(&scheduler, tenant(1), world(1));
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
    let enter_as = |number| enter(&scheduler, tenant(1), world(number));
    let mut slots: Vec<_> = (0..=u8::try_from(STEPS_LONG_OF_UNIVERSE_MAX).unwrap()).map(enter_as).collect();
    let mut last = slots.pop().unwrap();
    assert!(slots.iter_mut().all(|slot| slot.slice_is_over() == Ok(true)));
    assert_eq!(last.slice_is_over(), Err(Crowded::Long));
    let other = &mut enter(&scheduler, tenant(2), world(1));
    assert_eq!(other.slice_is_over(), Ok(true), "another universe has room");
    drop(slots.pop());
    assert_eq!(last.slice_is_over(), Ok(true));
}

#[test]
fn who_was_idle_begins_where_the_others_are() {
    let scheduler = Scheduler::new(2);
    let mut busy = enter(&scheduler, tenant(1), world(1));
    for _ in 0..3 {
        age(&mut busy, 1_000);
        assert_eq!(busy.slice_is_over(), Ok(true));
    }
    let newcomer = scheduler.try_enter(tenant(2), world(2), false).unwrap();
    let used = |tenant: Tenant| scheduler.state.lock().universes[&tenant.universe].used;
    assert!(used(tenant(2)) >= 3_000_000_000, "it has no hour of others to catch up with");
    drop((busy, newcomer));
    let mut returning = enter(&scheduler, tenant(2), world(2));
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
    let mut long = enter(&scheduler, tenant(1), world(0));
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
