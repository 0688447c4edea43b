//! Tasks in one thread, in an order that a seed decides, and time that jumps to the next sleeper.

use crate::{Spawn, Task};
use mundi_store::{Clock, testing::Rng};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// The executor, its clock, and the door through which tasks are spawned. Clones are the same one.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    rng: Mutex<Rng>,
}

#[derive(Default)]
struct State {
    now_ns: u64,
    next: u64,
    /// `None` while a task is being polled.
    tasks: BTreeMap<u64, (u64, Option<Task>)>,
    ready: BTreeSet<u64>,
    /// Nodes that are suspended, with their tasks that could continue.
    paused: BTreeMap<u64, BTreeSet<u64>>,
    sleepers: BTreeMap<(u64, u64), Waker>,
    polls: u64,
}

/// Tasks that crash together.
#[derive(Clone)]
pub struct Node {
    executor: Executor,
    number: u64,
}

impl Executor {
    pub fn new(seed: u64) -> Self {
        let state = State { now_ns: 1_000_000_000, ..State::default() };
        Self(Arc::new(Shared { state: Mutex::new(state), rng: Mutex::new(Rng::new(seed)) }))
    }

    pub fn node(&self) -> Node {
        let mut state = self.0.state.lock();
        state.next += 1;
        Node { executor: self.clone(), number: state.next }
    }

    /// How often a task was polled so far.
    pub fn polls(&self) -> u64 {
        self.0.state.lock().polls
    }

    /// Runs until the future is done, letting time pass when nothing else can happen.
    ///
    /// # Panics
    ///
    /// When everything waits for something that never comes.
    pub fn block_on<V: Send + 'static>(&self, future: impl Future<Output = V> + Send + 'static) -> V {
        let result = Arc::new(Mutex::new(None));
        let (slot, node) = (result.clone(), self.node());
        node.spawn(Box::pin(async move {
            let value = future.await;
            *slot.lock() = Some(value);
        }));
        loop {
            if let Some(value) = result.lock().take() {
                return value;
            }
            assert!(self.step(), "everything waits, and nothing will come");
        }
    }

    /// Polls one task, or lets time pass if none can continue. `false` when everything waits for what never comes.
    pub fn step(&self) -> bool {
        self.poll_one() || self.pass_time()
    }

    /// Runs everything for a stretch of time.
    pub fn run_for(&self, duration: Duration) {
        let end_ns = self.now_ns().saturating_add(nanos(duration));
        loop {
            while self.poll_one() {}
            let next_ns = self.0.state.lock().sleepers.keys().next().map(|(at_ns, _)| *at_ns);
            match next_ns {
                Some(at_ns) if at_ns <= end_ns => {
                    self.pass_time();
                }
                _ => break,
            }
        }
        self.0.state.lock().now_ns = end_ns;
    }

    /// Polls one task that can continue, chosen by the seed.
    pub fn poll_one(&self) -> bool {
        let mut state = self.0.state.lock();
        if state.ready.is_empty() {
            return false;
        }
        let choice = self.0.rng.lock().below(state.ready.len() as u64);
        let choice = usize::try_from(choice).unwrap_or(0);
        let Some(id) = state.ready.iter().nth(choice).copied() else { return false };
        state.ready.remove(&id);
        let Some(mut task) = state.tasks.get_mut(&id).and_then(|(_, task)| task.take()) else { return true };
        state.polls += 1;
        drop(state); // the task spawns, sleeps and wakes
        let waker = Waker::from(Arc::new(Ready { executor: self.clone(), id }));
        let done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = self.0.state.lock();
        let left = match state.tasks.get_mut(&id) {
            Some(slot) if !done => {
                slot.1 = Some(task);
                None
            }
            // Its node crashed meanwhile, or it is over.
            _ => {
                state.tasks.remove(&id);
                Some(task)
            }
        };
        drop(state);
        drop(left);
        true
    }

    /// Time jumps to the next sleeper, and to all that wake with it.
    fn pass_time(&self) -> bool {
        let mut state = self.0.state.lock();
        let Some(&(at_ns, _)) = state.sleepers.keys().next() else { return false };
        state.now_ns = state.now_ns.max(at_ns);
        let later = state.sleepers.split_off(&(at_ns + 1, 0));
        let due = std::mem::replace(&mut state.sleepers, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
        true
    }
}

impl State {
    fn make_ready(&mut self, id: u64) {
        let Some((node, _)) = self.tasks.get(&id) else { return };
        match self.paused.get_mut(node) {
            Some(held) => held.insert(id),
            None => self.ready.insert(id),
        };
    }
}

impl Node {
    /// Its tasks are suspended while time continues, as those of a machine that swaps or is suspended.
    pub fn pause(&self) {
        let mut guard = self.executor.0.state.lock();
        let state = &mut *guard;
        let of_node = |id: &u64| state.tasks.get(id).is_some_and(|(node, _)| *node == self.number);
        let (held, ready) = std::mem::take(&mut state.ready).into_iter().partition(of_node);
        state.ready = ready;
        state.paused.entry(self.number).or_insert(held);
    }

    /// They continue, and may find that much has changed.
    pub fn resume(&self) {
        let mut state = self.executor.0.state.lock();
        let held = state.paused.remove(&self.number).unwrap_or_default();
        held.into_iter().for_each(|id| state.make_ready(id));
    }

    /// Drops all its tasks where they stand.
    pub fn crash(&self) {
        let mut state = self.executor.0.state.lock();
        state.paused.remove(&self.number);
        let of_node = |(_, (node, _)): &(&u64, &mut (u64, Option<Task>))| *node == self.number;
        let ids: Vec<u64> = state.tasks.iter_mut().filter(of_node).map(|(id, _)| *id).collect();
        let dropped: Vec<_> = ids.iter().filter_map(|id| state.tasks.remove(id)).collect();
        drop(state); // what a task holds may take the lock when it is dropped
        drop(dropped);
    }

    /// Whether any of its tasks is left.
    pub fn is_running(&self) -> bool {
        self.executor.0.state.lock().tasks.values().any(|(node, _)| *node == self.number)
    }
}

impl Spawn for Node {
    fn spawn(&self, task: Task) {
        let mut state = self.executor.0.state.lock();
        state.next += 1;
        let id = state.next;
        state.tasks.insert(id, (self.number, Some(task)));
        state.make_ready(id);
    }
}

struct Ready {
    executor: Executor,
    id: u64,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.executor.0.state.lock().make_ready(self.id);
    }
}

impl Clock for Executor {
    fn now_ns(&self) -> u64 {
        self.0.state.lock().now_ns
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut state = self.0.state.lock();
        state.next += 1;
        let at_ns = state.now_ns.saturating_add(nanos(duration));
        Box::pin(Sleep { executor: self.clone(), place: (at_ns, state.next), woken: AtomicBool::new(false) })
    }
}

struct Sleep {
    executor: Executor,
    place: (u64, u64),
    woken: AtomicBool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.executor.0.state.lock();
        if state.now_ns >= self.place.0 && self.woken.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        // Even a sleep of no time lets the others go first.
        self.woken.store(true, Ordering::SeqCst);
        state.sleepers.insert(self.place, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.executor.0.state.lock().sleepers.remove(&self.place);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_when_nothing_else_can_happen() {
        let executor = Executor::new(1);
        let clock = executor.clone();
        let started_ns = executor.now_ns();
        executor.block_on(async move { clock.sleep(Duration::from_secs(3)).await });
        assert_eq!(executor.now_ns() - started_ns, 3_000_000_000);
    }

    #[test]
    fn a_crash_drops_the_tasks_of_one_node_where_they_stand() {
        let executor = Executor::new(1);
        let (dies, lives) = (executor.node(), executor.node());
        let done = Arc::new(Mutex::new(Vec::new()));
        for (name, node) in [("dies", &dies), ("lives", &lives)] {
            let (clock, done) = (executor.clone(), done.clone());
            node.spawn(Box::pin(async move {
                clock.sleep(Duration::from_secs(1)).await;
                done.lock().push(name);
            }));
        }
        executor.run_for(Duration::from_millis(500));
        dies.crash();
        executor.run_for(Duration::from_secs(1));
        assert_eq!(*done.lock(), ["lives"]);
        assert!(!dies.is_running());
    }

    #[test]
    fn a_paused_node_stands_still_and_then_goes_on() {
        let executor = Executor::new(1);
        let (sleepy, done) = (executor.node(), Arc::new(Mutex::new(0)));
        for pause_ms in [0, 200] {
            let (clock, done) = (executor.clone(), done.clone());
            sleepy.spawn(Box::pin(async move {
                clock.sleep(Duration::from_millis(pause_ms)).await;
                *done.lock() += 1;
            }));
        }
        sleepy.pause();
        executor.run_for(Duration::from_secs(1));
        assert_eq!(*done.lock(), 0);
        sleepy.resume();
        executor.run_for(Duration::from_secs(1));
        assert_eq!(*done.lock(), 2);
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = |seed| {
            let executor = Executor::new(seed);
            let done = Arc::new(Mutex::new(Vec::new()));
            for n in 0..20 {
                let done = done.clone();
                executor.node().spawn(Box::pin(async move { done.lock().push(n) }));
            }
            executor.run_for(Duration::ZERO);
            let order = done.lock();
            order.clone()
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
    }
}
