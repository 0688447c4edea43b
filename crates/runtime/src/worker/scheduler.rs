//! Which worlds a worker knows, and whose turn it is. Pure: no clock, no engine, no task.
//!
//! A world stands at most once in the queue of its priority and goes back to its end after each cycle, so a hot world waits
//! for all others of its kind: round robin. The best priority goes first, but not always: so that no world waits forever,
//! one pick in a few is for the priority that is served last.

mod items;
#[cfg(test)]
mod tests;

pub(crate) use items::{Activation, Offered};

use crate::delivery::local::LocalItem;
use mundi_model::{Code, WorldId};
use mundi_store::{Fence, keyspace::ready::PRIORITY_NORMAL, protocol::ExportPolicy};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
};

/// One pick in this many is for the priority that is served last.
const LAST_SERVED_EVERY: u64 = 8;

/// The worlds of a worker; `H` is a world in memory.
pub(crate) struct Scheduler<H> {
    entries: BTreeMap<WorldId, WorldEntry<H>>,
    /// By priority, smaller first; none is empty.
    queues: BTreeMap<u8, VecDeque<WorldId>>,
    picks: u64,
    /// Worlds that could not be had, and when to try again.
    later: BTreeMap<WorldId, Later>,
    /// Worlds whose attempts failed in a row for a reason of their own, and for which.
    failed: BTreeMap<WorldId, (u32, Code)>,
    /// Worlds that are to be released, or of which a snapshot or an export is wished.
    upkeep: BTreeSet<WorldId>,
    /// Worlds that rest, and have a hint still.
    unsettled: BTreeSet<WorldId>,
    /// Worlds that got an item when none waited for them, each once for a round, in order. Of some, all were taken since.
    rounds: VecDeque<(u64, WorldId)>,
    round: u64,
    /// Of all worlds in memory.
    bytes: usize,
    /// How many leases it has.
    held: usize,
    /// It takes no more worlds: its worker drains.
    is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Later {
    at_ns: u64,
    failures: u32,
}

/// The state of one world.
struct WorldEntry<H> {
    host: Option<H>,
    fence: Option<Fence>,
    /// There was room for it when it was last looked for; it has a lease, or is about to.
    is_admitted: bool,
    state: State,
    priority: u8,
    /// It is to be released as soon as it is not running.
    release: bool,
    /// It could not be had before, or not be kept, and nobody asked for it since: perhaps it has no work any more.
    is_doubtful: bool,
    wish: Wish,
    /// Items for its next cycles. Dropped, they go through the inbox.
    items: Vec<LocalItem>,
    /// In which round the first of them came, or of those that waited before them.
    first_round: u64,
    used_at_ns: u64,
    /// When it last did something.
    active_at_ns: u64,
    renewed_at_ns: u64,
    bytes: usize,
}

/// How a world comes back from a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// It has more to do.
    More,
    /// It did something, and will probably do more soon: its hint stays.
    Active,
    /// There was no work; its hint stays, because it did something a moment ago.
    Resting,
    /// There was no work, and it has no hint any more.
    Settled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Queued,
    /// Something arrived meanwhile, or the lease was lost.
    Running {
        again: bool,
        lost: bool,
    },
}

/// The work of a runner.
pub(crate) struct Job<H> {
    pub(crate) world: WorldId,
    /// `None` for a world that is not in memory.
    pub(crate) host: Option<H>,
    pub(crate) release: bool,
    /// Whether it has work is to be asked first.
    pub(crate) is_doubtful: bool,
    /// Why the last attempt failed, if the reason lies in the world.
    pub(crate) failed: Option<Code>,
    pub(crate) wish: Wish,
    /// It runs no step: it is released, or does what is wished.
    pub(crate) is_upkeep: bool,
    /// When it last did something.
    pub(crate) active_at_ns: u64,
}

/// An operator's request for a world's next cycle, whatever the policies say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wish {
    pub snapshot: bool,
    /// By these bounds.
    pub export: Option<ExportPolicy>,
}

impl std::ops::BitOrAssign for Wish {
    fn bitor_assign(&mut self, other: Self) {
        self.snapshot |= other.snapshot;
        self.export = other.export.or(self.export);
    }
}

impl<H> WorldEntry<H> {
    /// Puts the world into the queue of its priority, unless it is there or runs. Says whether it did.
    fn wake(&mut self, world: WorldId, queues: &mut BTreeMap<u8, VecDeque<WorldId>>) -> bool {
        match &mut self.state {
            State::Idle => {
                self.state = State::Queued;
                queues.entry(self.priority).or_default().push_back(world);
                true
            }
            State::Queued => false,
            State::Running { again, .. } => {
                *again = true;
                false
            }
        }
    }
}

impl<H> Default for Scheduler<H> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            queues: BTreeMap::new(),
            picks: 0,
            later: BTreeMap::new(),
            failed: BTreeMap::new(),
            upkeep: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            rounds: VecDeque::new(),
            round: 1,
            bytes: 0,
            held: 0,
            is_closed: false,
        }
    }
}

impl<H> Scheduler<H> {
    /// A hint: the world has work. Says whether anything changed.
    pub(crate) fn wake(&mut self, world: WorldId, now_ns: u64) -> bool {
        if self.later.get(&world).is_some_and(|later| later.at_ns > now_ns) {
            return false;
        }
        if self.is_closed && !self.entries.contains_key(&world) {
            return false;
        }
        let entry = self.entries.entry(world).or_insert(WorldEntry {
            host: None,
            fence: None,
            is_admitted: false,
            state: State::Idle,
            priority: PRIORITY_NORMAL,
            release: false,
            is_doubtful: false,
            wish: Wish::default(),
            items: Vec::new(),
            first_round: 0,
            used_at_ns: now_ns,
            active_at_ns: 0,
            renewed_at_ns: now_ns,
            bytes: 0,
        });
        entry.wake(world, &mut self.queues)
    }

    /// As [`Self::wake`], for a hint that stands under a priority. It counts from the next time on that the world waits.
    pub(crate) fn hint(&mut self, world: WorldId, priority: u8, now_ns: u64) -> bool {
        if let Some(entry) = self.entries.get_mut(&world) {
            entry.priority = priority;
            return self.wake(world, now_ns);
        }
        let woken = self.wake(world, now_ns);
        if let Some(entry) = self.entries.get_mut(&world).filter(|entry| entry.priority != priority) {
            let before = std::mem::replace(&mut entry.priority, priority);
            self.unqueue(before, world);
            self.queues.entry(priority).or_default().push_back(world);
        }
        woken
    }

    /// As [`Self::wake`], also for a world that could not be had a moment ago.
    pub(crate) fn insist(&mut self, world: WorldId, now_ns: u64) -> bool {
        if let Some(later) = self.later.get_mut(&world) {
            later.at_ns = now_ns;
        }
        if let Some(entry) = self.entries.get_mut(&world) {
            entry.is_doubtful = false;
        }
        self.wake(world, now_ns)
    }

    /// As [`Self::insist`], and the next cycle does what is wished.
    pub(crate) fn keep_up(&mut self, world: WorldId, wish: Wish, now_ns: u64) -> bool {
        let woken = self.insist(world, now_ns);
        if let Some(entry) = self.entries.get_mut(&world) {
            entry.wish |= wish;
            self.upkeep.insert(world);
        }
        woken
    }

    /// A world that is in memory, stays, and does not run.
    pub(crate) fn at_rest(&self, world: WorldId) -> Option<&H> {
        self.entries.get(&world).filter(|entry| !entry.release)?.host.as_ref()
    }

    /// The world is to be released.
    pub(crate) fn release(&mut self, world: WorldId, now_ns: u64) {
        if let Some(entry) = self.entries.get_mut(&world) {
            entry.release = true;
            entry.items.clear();
            self.upkeep.insert(world);
            self.wake_entry(world, now_ns);
        }
    }

    fn wake_entry(&mut self, world: WorldId, now_ns: u64) {
        let later = self.later.remove(&world);
        self.wake(world, now_ns);
        self.later.extend(later.map(|later| (world, later)));
    }

    /// The world that has waited longest.
    pub(crate) fn next(&mut self) -> Option<Job<H>> {
        loop {
            self.picks += 1;
            let last = self.picks.is_multiple_of(LAST_SERVED_EVERY);
            let mut queue = if last { self.queues.last_entry()? } else { self.queues.first_entry()? };
            let world = queue.get_mut().pop_front();
            if queue.get().is_empty() {
                queue.remove();
            }
            if let Some(job) = world.and_then(|world| self.take(world)) {
                return Some(job);
            }
        }
    }

    /// A world that waits and can be served without a step: it is released, or it is in memory and something is wished of it.
    pub(crate) fn next_upkeep(&mut self) -> Option<Job<H>> {
        let can_do = |entry: &WorldEntry<H>| entry.state == State::Queued && (entry.release || entry.host.is_some());
        let world = *self.upkeep.iter().find(|world| self.entries.get(*world).is_some_and(can_do))?;
        self.queues.retain(|_, queue| {
            queue.retain(|queued| *queued != world);
            !queue.is_empty()
        });
        self.take(world).map(|job| Job { is_upkeep: true, ..job })
    }

    /// Hands a world to a runner.
    fn take(&mut self, world: WorldId) -> Option<Job<H>> {
        let entry = self.entries.get_mut(&world)?;
        entry.state = State::Running { again: false, lost: false };
        let (host, wish) = (entry.host.take(), mem::take(&mut entry.wish));
        let WorldEntry { release, is_doubtful, active_at_ns, .. } = *entry;
        let failed = self.failed.get(&world).map(|(_, code)| *code);
        self.upkeep.remove(&world);
        Some(Job { world, host, release, is_doubtful, failed, wish, is_upkeep: release, active_at_ns })
    }

    /// Whether a world that a runner has may be acquired: worlds that rest make room for it.
    pub(crate) fn admit(&mut self, world: WorldId, worlds_max: usize) -> bool {
        let has_room = self.entries.len() <= worlds_max || self.busy() < worlds_max;
        if let Some(entry) = self.entries.get_mut(&world) {
            entry.is_admitted = has_room;
        }
        has_room
    }

    /// How many of its worlds have work, or had a moment ago.
    pub(crate) fn busy(&self) -> usize {
        let is_busy = |(world, entry): &(&WorldId, &WorldEntry<H>)| {
            let is_ours = entry.fence.is_some() || entry.is_admitted;
            is_ours && (entry.state != State::Idle || self.unsettled.contains(world))
        };
        self.entries.iter().filter(is_busy).count()
    }

    /// A runner has the lease of its world.
    pub(crate) fn leased(&mut self, fence: Fence, now_ns: u64) {
        if let Some(entry) = self.entries.get_mut(&fence.world) {
            self.held += usize::from(entry.fence.is_none());
            (entry.fence, entry.renewed_at_ns) = (Some(fence), now_ns);
        }
    }

    /// A cycle is over. The host comes back in `Err` if its lease was lost meanwhile.
    pub(crate) fn put_back(
        &mut self,
        world: WorldId,
        host: H,
        bytes: usize,
        after: After,
        now_ns: u64,
    ) -> Result<(), H> {
        self.later.remove(&world);
        self.failed.remove(&world);
        let Some(entry) = self.entries.get_mut(&world) else { return Err(host) };
        let State::Running { again, lost } = entry.state else { return Err(host) };
        if lost {
            self.forget(world, Some(now_ns)); // perhaps nobody else may have it, and it has more to do
            return Err(host);
        }
        entry.is_doubtful = false;
        self.bytes = self.bytes - entry.bytes + bytes;
        (entry.host, entry.bytes, entry.used_at_ns, entry.state) = (Some(host), bytes, now_ns, State::Idle);
        match after {
            After::More | After::Active => {
                entry.active_at_ns = now_ns;
                self.unsettled.insert(world);
            }
            After::Resting => {}
            After::Settled => {
                self.unsettled.remove(&world);
            }
        }
        if after == After::More || again || entry.release || !entry.items.is_empty() {
            self.wake(world, now_ns);
        }
        Ok(())
    }

    /// The world is out of memory and not ours any more; `retry_at_ns` when to try again, if at all.
    pub(crate) fn forget(&mut self, world: WorldId, retry_at_ns: Option<u64>) -> Option<Fence> {
        let entry = self.remove(world)?;
        let again = matches!(entry.state, State::Running { again: true, .. });
        let failures = self.failures(world).saturating_add(1);
        match retry_at_ns {
            Some(at_ns) => {
                self.later.insert(world, Later { at_ns, failures });
            }
            None if again => {
                self.later.insert(world, Later { at_ns: 0, failures: 0 });
            }
            None => {
                self.later.remove(&world);
                self.failed.remove(&world);
            }
        }
        entry.fence
    }

    /// An attempt failed for a reason that lies in the world. Says how many did so in a row.
    pub(crate) fn fail(&mut self, world: WorldId, code: Code) -> u32 {
        let failed = self.failed.entry(world).or_insert((0, code));
        *failed = (failed.0.saturating_add(1), code);
        failed.0
    }

    /// Nothing is known against the world any more.
    pub(crate) fn forgive(&mut self, world: WorldId) {
        self.failed.remove(&world);
    }

    /// How often in a row a world could not be had.
    pub(crate) fn failures(&self, world: WorldId) -> u32 {
        self.later.get(&world).map_or(0, |later| later.failures)
    }

    /// The lease was lost: what is in memory goes at once, or as soon as its runner is done. It is looked at once more: if it is
    /// still meant for this worker nobody else takes it, and its hint was seen already.
    pub(crate) fn lose(&mut self, fence: Fence) -> bool {
        let world = fence.world;
        let Some(entry) = self.entries.get_mut(&world) else { return false };
        if entry.fence != Some(fence) {
            return false; // acquired anew since
        }
        match &mut entry.state {
            State::Running { lost, .. } => *lost = true,
            State::Idle | State::Queued => {
                let priority = entry.priority;
                self.unqueue(priority, world);
                self.forget(world, Some(0));
            }
        }
        true
    }

    fn remove(&mut self, world: WorldId) -> Option<WorldEntry<H>> {
        let entry = self.entries.remove(&world)?;
        self.bytes -= entry.bytes;
        self.held -= usize::from(entry.fence.is_some());
        self.unsettled.remove(&world);
        self.upkeep.remove(&world);
        Some(entry)
    }

    fn unqueue(&mut self, priority: u8, world: WorldId) {
        if let Some(queue) = self.queues.get_mut(&priority) {
            queue.retain(|queued| *queued != world);
            if queue.is_empty() {
                self.queues.remove(&priority);
            }
        }
    }

    /// Wakes what was put off until now; whether it still has work is in doubt.
    pub(crate) fn wake_later(&mut self, now_ns: u64) -> bool {
        let due: Vec<WorldId> =
            self.later.iter().filter(|(_, later)| later.at_ns <= now_ns).map(|(world, _)| *world).collect();
        let mut woken = false;
        for world in due {
            if !self.entries.contains_key(&world) {
                woken |= self.wake(world, now_ns);
                self.entries.entry(world).and_modify(|entry| entry.is_doubtful = true);
            }
        }
        woken
    }

    /// Wakes those that did nothing for so long that their hint should go.
    pub(crate) fn settle(&mut self, now_ns: u64, after_ns: u64) -> bool {
        let rests =
            |entry: &WorldEntry<H>| entry.state == State::Idle && now_ns.saturating_sub(entry.active_at_ns) >= after_ns;
        let resting = |world: &&WorldId| self.entries.get(*world).is_some_and(rests);
        let resting: Vec<WorldId> = self.unsettled.iter().filter(resting).copied().collect();
        resting.into_iter().fold(false, |woken, world| self.insist(world, now_ns) | woken)
    }

    pub(crate) fn has_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// When the next one that was put off is due.
    pub(crate) fn next_later_ns(&self) -> Option<u64> {
        let waiting = self.later.iter().filter(|(world, _)| !self.entries.contains_key(*world));
        waiting.map(|(_, later)| later.at_ns).min()
    }

    /// All leases, and when each was last renewed.
    pub(crate) fn fences(&self) -> Vec<(Fence, u64)> {
        self.entries.values().filter_map(|entry| Some((entry.fence?, entry.renewed_at_ns))).collect()
    }

    pub(crate) fn renewed(&mut self, fence: Fence, now_ns: u64) {
        if let Some(entry) = self.entries.get_mut(&fence.world)
            && entry.fence == Some(fence)
        {
            entry.renewed_at_ns = now_ns;
        }
    }

    /// Worlds in memory that have no work, the longest idle first, with their size and when they were used.
    fn idle(&self) -> BTreeSet<(u64, WorldId, usize)> {
        let resting = |entry: &WorldEntry<H>| entry.state == State::Idle && entry.host.is_some() && !entry.release;
        self.entries
            .iter()
            .filter(|(_, entry)| resting(entry))
            .map(|(world, entry)| (entry.used_at_ns, *world, entry.bytes))
            .collect()
    }

    /// Gives back what was idle for too long, and the least recently used of what is too much.
    pub(crate) fn release_surplus(&mut self, now_ns: u64, idle_ns: u64, bytes_max: usize, worlds_max: usize) -> usize {
        let (mut bytes, mut held) = (self.bytes, self.held);
        let mut released = 0;
        for (used_at_ns, world, size) in self.idle() {
            if now_ns.saturating_sub(used_at_ns) < idle_ns && bytes <= bytes_max && held <= worlds_max {
                break;
            }
            (bytes, held) = (bytes.saturating_sub(size), held.saturating_sub(1));
            self.release(world, now_ns);
            released += 1;
        }
        released
    }

    /// Releases all worlds, and takes none from now on, whoever still has a hint for one.
    pub(crate) fn close(&mut self, now_ns: u64) {
        self.is_closed = true;
        self.later.clear();
        let worlds: Vec<WorldId> = self.entries.keys().copied().collect();
        worlds.into_iter().for_each(|world| self.release(world, now_ns));
    }

    pub(crate) fn holds(&self, world: WorldId) -> bool {
        self.fence(world).is_some()
    }

    pub(crate) fn fence(&self, world: WorldId) -> Option<Fence> {
        self.entries.get(&world)?.fence
    }

    /// Estimated memory of the worlds that are kept.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn worlds(&self) -> Vec<WorldId> {
        self.entries.iter().filter(|(_, entry)| entry.fence.is_some()).map(|(world, _)| *world).collect()
    }

    pub(crate) fn residents(&self) -> usize {
        self.held
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
