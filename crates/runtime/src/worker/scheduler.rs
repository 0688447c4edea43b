//! Which worlds a worker knows, and whose turn it is. Pure: no clock, no engine, no task.
//!
//! A world stands at most once in the queue of its priority and goes back to its end after each cycle, so a hot world waits
//! for all others of its kind: round robin. The best priority goes first, but not always: so that no world waits forever,
//! one pick in a few is for the priority that is served last.

use crate::delivery::local::{Direct, Sender, Wait};
use mundi_model::{Code, WorldId, limits::DIRECT_ITEMS_MAX, record::InboxItem};
use mundi_store::{Fence, keyspace::ready::PRIORITY_NORMAL, protocol::ExportPolicy};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
};

/// One pick in this many is for the priority that is served last.
const LAST_SERVED_EVERY: u64 = 8;

/// The worlds of a worker; `H` is a world in memory.
pub(crate) struct Table<H> {
    slots: BTreeMap<WorldId, Slot<H>>,
    /// By priority, smaller first; none is empty.
    queues: BTreeMap<u8, VecDeque<WorldId>>,
    picks: u64,
    /// Worlds that could not be had, and when to try again.
    later: BTreeMap<WorldId, Later>,
    /// Worlds whose attempts failed in a row for a reason of their own, and for which.
    failed: BTreeMap<WorldId, (u32, Code)>,
    /// Worlds that rest, and have a hint still.
    unsettled: BTreeSet<WorldId>,
    /// Worlds that were handed items when none waited for them, each once for a round, in order. Of some, all were taken since.
    handed: VecDeque<(u64, WorldId)>,
    round: u64,
    /// Of all worlds in memory.
    bytes: usize,
    /// How many leases it has.
    held: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Later {
    at_ns: u64,
    failures: u32,
}

struct Slot<H> {
    host: Option<H>,
    fence: Option<Fence>,
    /// There was room for it when it was last looked for; it has a lease, or is about to.
    is_admitted: bool,
    state: State,
    priority: u8,
    /// It is to be given back as soon as it is not running.
    release: bool,
    /// It could not be had before, or not be kept, and nobody asked for it since: perhaps it has nothing to do any more.
    is_doubtful: bool,
    wish: Wish,
    /// Items for its next cycles. Dropped, they go through the inbox.
    direct: Vec<Direct>,
    /// In which round the first of them came, or of those that waited before them.
    handed_in: u64,
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
    /// There was nothing to do; its hint stays, because it did something a moment ago.
    Resting,
    /// There was nothing to do, and it has no hint any more.
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

/// What a lane is to do.
pub(crate) struct Job<H> {
    pub(crate) world: WorldId,
    /// `None` for a world that is not in memory.
    pub(crate) host: Option<H>,
    pub(crate) release: bool,
    /// Whether it has something to do is to be asked first.
    pub(crate) is_doubtful: bool,
    /// Why the last attempt failed, if the reason lies in the world.
    pub(crate) failed: Option<Code>,
    pub(crate) wish: Wish,
    /// When it last did something.
    pub(crate) active_at_ns: u64,
}

/// What came of handing an item to a world.
pub(crate) struct Handed {
    pub(crate) wait: Wait,
    /// The world waits for a lane now.
    pub(crate) woken: bool,
    /// Nothing waited for any world: somebody must end rounds from now on.
    pub(crate) is_first: bool,
}

/// What an operator wants of a world's next cycle, whatever the policies say.
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

impl<H> Slot<H> {
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

impl<H> Default for Table<H> {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            queues: BTreeMap::new(),
            picks: 0,
            later: BTreeMap::new(),
            failed: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            handed: VecDeque::new(),
            round: 1,
            bytes: 0,
            held: 0,
        }
    }
}

impl<H> Table<H> {
    /// A hint: the world has something to do. Says whether anything changed.
    pub(crate) fn wake(&mut self, world: WorldId, now_ns: u64) -> bool {
        if self.later.get(&world).is_some_and(|later| later.at_ns > now_ns) {
            return false;
        }
        let slot = self.slots.entry(world).or_insert(Slot {
            host: None,
            fence: None,
            is_admitted: false,
            state: State::Idle,
            priority: PRIORITY_NORMAL,
            release: false,
            is_doubtful: false,
            wish: Wish::default(),
            direct: Vec::new(),
            handed_in: 0,
            used_at_ns: now_ns,
            active_at_ns: 0,
            renewed_at_ns: now_ns,
            bytes: 0,
        });
        slot.wake(world, &mut self.queues)
    }

    /// As [`Self::wake`], for a hint that stands under a priority. It counts from the next time on that the world waits.
    pub(crate) fn hint(&mut self, world: WorldId, priority: u8, now_ns: u64) -> bool {
        if let Some(slot) = self.slots.get_mut(&world) {
            slot.priority = priority;
            return self.wake(world, now_ns);
        }
        let woken = self.wake(world, now_ns);
        if let Some(slot) = self.slots.get_mut(&world).filter(|slot| slot.priority != priority) {
            let before = std::mem::replace(&mut slot.priority, priority);
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
        if let Some(slot) = self.slots.get_mut(&world) {
            slot.is_doubtful = false;
        }
        self.wake(world, now_ns)
    }

    /// As [`Self::insist`], and the next cycle does what is wished.
    pub(crate) fn keep_up(&mut self, world: WorldId, wish: Wish, now_ns: u64) -> bool {
        let woken = self.insist(world, now_ns);
        if let Some(slot) = self.slots.get_mut(&world) {
            slot.wish |= wish;
        }
        woken
    }

    /// A world that is in memory, stays, and does not run.
    pub(crate) fn at_rest(&self, world: WorldId) -> Option<&H> {
        self.slots.get(&world).filter(|slot| !slot.release)?.host.as_ref()
    }

    /// Hands an item to a world, if that can be: it is held, it stays, and there is room.
    pub(crate) fn hand(&mut self, world: WorldId, item: &Arc<InboxItem>, from: Sender) -> Option<Handed> {
        self.slots.get(&world)?.fence?;
        self.put_before(world, item, from)
    }

    /// As [`Self::hand`], also for a world that is not held: it is woken, and gets the item if it can be had.
    pub(crate) fn hand_or_open(
        &mut self,
        world: WorldId,
        item: &Arc<InboxItem>,
        from: Sender,
        now_ns: u64,
    ) -> Option<Handed> {
        let is_new = !self.slots.contains_key(&world) && self.wake(world, now_ns);
        let handed = self.put_before(world, item, from)?;
        Some(Handed { woken: handed.woken || is_new, ..handed })
    }

    fn put_before(&mut self, world: WorldId, item: &Arc<InboxItem>, from: Sender) -> Option<Handed> {
        let slot = self.slots.get_mut(&world)?;
        if slot.release || slot.direct.len() >= DIRECT_ITEMS_MAX {
            return None;
        }
        let is_first = self.handed.is_empty();
        if slot.direct.is_empty() && mem::replace(&mut slot.handed_in, self.round) != self.round {
            self.handed.push_back((self.round, world));
        }
        let (direct, wait) = Direct::new(item.clone(), from);
        slot.direct.push(direct);
        Some(Handed { wait, woken: slot.wake(world, &mut self.queues), is_first })
    }

    /// Ends a round, and gives back what was handed to worlds and has waited for more than `rounds` of them. Says whether
    /// anything may wait still.
    pub(crate) fn end_round(&mut self, rounds: u64) -> bool {
        self.round += 1;
        while let Some((handed_in, world)) = self.handed.front().copied() {
            let waiting = |slot: &&mut Slot<H>| !slot.direct.is_empty() && slot.handed_in == handed_in;
            let waiting = self.slots.get_mut(&world).filter(waiting);
            if waiting.is_some() && self.round - handed_in <= rounds {
                return true;
            }
            waiting.into_iter().for_each(|slot| slot.direct.clear());
            self.handed.pop_front();
        }
        false
    }

    /// Gives back all that was handed to worlds and not yet taken.
    pub(crate) fn refuse_direct(&mut self) {
        self.slots.values_mut().for_each(|slot| slot.direct.clear());
    }

    /// The world is to be given back.
    pub(crate) fn release(&mut self, world: WorldId, now_ns: u64) {
        if let Some(slot) = self.slots.get_mut(&world) {
            slot.release = true;
            slot.direct.clear();
            self.wake_slot(world, now_ns);
        }
    }

    fn wake_slot(&mut self, world: WorldId, now_ns: u64) {
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
            let Some(world) = world else { continue };
            let Some(slot) = self.slots.get_mut(&world) else { continue };
            slot.state = State::Running { again: false, lost: false };
            let (host, wish) = (slot.host.take(), mem::take(&mut slot.wish));
            let Slot { release, is_doubtful, active_at_ns, .. } = *slot;
            let failed = self.failed.get(&world).map(|(_, code)| *code);
            return Some(Job { world, host, release, is_doubtful, failed, wish, active_at_ns });
        }
    }

    /// What was handed to a world that is about to take a turn, no more than that takes: senders lose patience with what waits, also
    /// while the world is restored, not with what a turn is about to take.
    pub(crate) fn take_direct(&mut self, world: WorldId, items_max: usize) -> Vec<Direct> {
        let Some(slot) = self.slots.get_mut(&world) else { return Vec::new() };
        let later = slot.direct.split_off(items_max.max(1).min(slot.direct.len()));
        mem::replace(&mut slot.direct, later)
    }

    /// Whether a world that a lane runs may be acquired: worlds that rest make room for it.
    pub(crate) fn admit(&mut self, world: WorldId, worlds_max: usize) -> bool {
        let has_room = self.slots.len() <= worlds_max || self.busy() < worlds_max;
        if let Some(slot) = self.slots.get_mut(&world) {
            slot.is_admitted = has_room;
        }
        has_room
    }

    /// How many of its worlds have something to do, or had a moment ago.
    pub(crate) fn busy(&self) -> usize {
        let is_busy = |(world, slot): &(&WorldId, &Slot<H>)| {
            let is_ours = slot.fence.is_some() || slot.is_admitted;
            is_ours && (slot.state != State::Idle || self.unsettled.contains(world))
        };
        self.slots.iter().filter(is_busy).count()
    }

    /// A lane has the lease of a world that it runs.
    pub(crate) fn leased(&mut self, fence: Fence, now_ns: u64) {
        if let Some(slot) = self.slots.get_mut(&fence.world) {
            self.held += usize::from(slot.fence.is_none());
            (slot.fence, slot.renewed_at_ns) = (Some(fence), now_ns);
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
        let Some(slot) = self.slots.get_mut(&world) else { return Err(host) };
        let State::Running { again, lost } = slot.state else { return Err(host) };
        if lost {
            self.forget(world, Some(now_ns)); // perhaps nobody else may have it, and it has more to do
            return Err(host);
        }
        slot.is_doubtful = false;
        self.bytes = self.bytes - slot.bytes + bytes;
        (slot.host, slot.bytes, slot.used_at_ns, slot.state) = (Some(host), bytes, now_ns, State::Idle);
        match after {
            After::More | After::Active => {
                slot.active_at_ns = now_ns;
                self.unsettled.insert(world);
            }
            After::Resting => {}
            After::Settled => {
                self.unsettled.remove(&world);
            }
        }
        if after == After::More || again || slot.release || !slot.direct.is_empty() {
            self.wake(world, now_ns);
        }
        Ok(())
    }

    /// The world is out of memory and not ours any more; `retry_at_ns` when to try again, if at all.
    pub(crate) fn forget(&mut self, world: WorldId, retry_at_ns: Option<u64>) -> Option<Fence> {
        let slot = self.remove(world)?;
        let again = matches!(slot.state, State::Running { again: true, .. });
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
            }
        }
        slot.fence
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

    /// The lease was lost: what is in memory goes at once, or as soon as its lane is done. It is looked at once more: if it is
    /// still meant for this worker nobody else takes it, and its hint was seen already.
    pub(crate) fn lose(&mut self, fence: Fence) -> bool {
        let world = fence.world;
        let Some(slot) = self.slots.get_mut(&world) else { return false };
        if slot.fence != Some(fence) {
            return false; // acquired anew since
        }
        match &mut slot.state {
            State::Running { lost, .. } => *lost = true,
            State::Idle | State::Queued => {
                let priority = slot.priority;
                self.unqueue(priority, world);
                self.forget(world, Some(0));
            }
        }
        true
    }

    fn remove(&mut self, world: WorldId) -> Option<Slot<H>> {
        let slot = self.slots.remove(&world)?;
        self.bytes -= slot.bytes;
        self.held -= usize::from(slot.fence.is_some());
        self.unsettled.remove(&world);
        Some(slot)
    }

    fn unqueue(&mut self, priority: u8, world: WorldId) {
        if let Some(queue) = self.queues.get_mut(&priority) {
            queue.retain(|queued| *queued != world);
            if queue.is_empty() {
                self.queues.remove(&priority);
            }
        }
    }

    /// Wakes what was put off until now; whether it still has something to do is in doubt.
    pub(crate) fn wake_later(&mut self, now_ns: u64) -> bool {
        let due: Vec<WorldId> =
            self.later.iter().filter(|(_, later)| later.at_ns <= now_ns).map(|(world, _)| *world).collect();
        let mut woken = false;
        for world in due {
            if !self.slots.contains_key(&world) {
                woken |= self.wake(world, now_ns);
                self.slots.entry(world).and_modify(|slot| slot.is_doubtful = true);
            }
        }
        woken
    }

    /// Wakes those that did nothing for so long that their hint should go.
    pub(crate) fn settle(&mut self, now_ns: u64, after_ns: u64) -> bool {
        let rests = |slot: &Slot<H>| slot.state == State::Idle && now_ns.saturating_sub(slot.active_at_ns) >= after_ns;
        let resting = |world: &&WorldId| self.slots.get(*world).is_some_and(rests);
        let resting: Vec<WorldId> = self.unsettled.iter().filter(resting).copied().collect();
        resting.into_iter().fold(false, |woken, world| self.insist(world, now_ns) | woken)
    }

    pub(crate) fn has_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// When the next one that was put off is due.
    pub(crate) fn next_later_ns(&self) -> Option<u64> {
        let waiting = self.later.iter().filter(|(world, _)| !self.slots.contains_key(*world));
        waiting.map(|(_, later)| later.at_ns).min()
    }

    pub(crate) fn forget_later(&mut self) {
        self.later.clear();
    }

    /// All leases, and when each was last renewed.
    pub(crate) fn fences(&self) -> Vec<(Fence, u64)> {
        self.slots.values().filter_map(|slot| Some((slot.fence?, slot.renewed_at_ns))).collect()
    }

    pub(crate) fn renewed(&mut self, fence: Fence, now_ns: u64) {
        if let Some(slot) = self.slots.get_mut(&fence.world)
            && slot.fence == Some(fence)
        {
            slot.renewed_at_ns = now_ns;
        }
    }

    /// Worlds in memory that have nothing to do, the longest idle first, with their size and when they were used.
    fn idle(&self) -> BTreeSet<(u64, WorldId, usize)> {
        let resting = |slot: &Slot<H>| slot.state == State::Idle && slot.host.is_some() && !slot.release;
        self.slots
            .iter()
            .filter(|(_, slot)| resting(slot))
            .map(|(world, slot)| (slot.used_at_ns, *world, slot.bytes))
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

    pub(crate) fn release_all(&mut self, now_ns: u64) {
        let worlds: Vec<WorldId> = self.slots.keys().copied().collect();
        worlds.into_iter().for_each(|world| self.release(world, now_ns));
    }

    pub(crate) fn holds(&self, world: WorldId) -> bool {
        self.fence(world).is_some()
    }

    pub(crate) fn fence(&self, world: WorldId) -> Option<Fence> {
        self.slots.get(&world)?.fence
    }

    /// Estimated memory of the worlds that are kept.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn worlds(&self) -> Vec<WorldId> {
        self.slots.iter().filter(|(_, slot)| slot.fence.is_some()).map(|(world, _)| *world).collect()
    }

    pub(crate) fn residents(&self) -> usize {
        self.held
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::local::Taken;
    use futures_util::FutureExt;
    use mundi_model::{
        Epoch, InboxSeq, UniverseId,
        record::{Input, Origin, Payload},
    };
    use mundi_store::testing::world_id;
    use std::pin::pin;

    const ITEMS_MAX: usize = 4;

    fn fence(world: WorldId, epoch: u64) -> Fence {
        Fence { universe: UniverseId::from_bytes([1; 16]), world, epoch: Epoch::new(epoch).unwrap() }
    }

    fn resident(table: &mut Table<u8>, world: WorldId, bytes: usize, now_ns: u64) {
        table.wake(world, now_ns);
        while table.next().is_some_and(|job| job.world != world) {}
        table.leased(fence(world, 1), now_ns);
        table.put_back(world, 0, bytes, After::Settled, now_ns).unwrap();
    }

    #[test]
    fn a_hot_world_waits_for_all_others() {
        let mut table = Table::<u8>::default();
        let worlds: Vec<_> = (0..4).map(world_id).collect();
        worlds.iter().for_each(|world| assert!(table.wake(*world, 0)));
        assert!(!table.wake(worlds[0], 0), "once in the queue is enough");
        let mut order = Vec::new();
        for _ in 0..8 {
            let job = table.next().unwrap();
            order.push(job.world);
            table.put_back(job.world, 0, 1, After::More, 0).unwrap();
        }
        assert_eq!(order[..4], worlds);
        assert_eq!(order[4..], worlds);
    }

    #[test]
    fn the_best_priority_goes_first_and_the_last_one_is_never_forgotten() {
        let mut table = Table::<u8>::default();
        (0..3).for_each(|n| assert!(table.hint(world_id(n), 128, 0)));
        (3..5).for_each(|n| assert!(table.hint(world_id(n), 1, 0)));
        assert!(!table.hint(world_id(0), 1, 0), "it waits already");
        let mut picked = Vec::new();
        for _ in 0..32 {
            let job = table.next().unwrap();
            picked.push(job.world);
            table.put_back(job.world, 0, 1, After::More, 0).unwrap();
        }
        assert_eq!(picked[..4], [3, 4, 3, 4].map(world_id));
        let normal = picked.iter().filter(|world| **world == world_id(1) || **world == world_id(2)).count();
        assert_eq!(normal, 3, "one pick in eight, and the one that rose went with the others");
        assert!(picked.contains(&world_id(0)));
    }

    #[test]
    fn what_arrives_during_a_cycle_leads_to_another_one() {
        let mut table = Table::<u8>::default();
        table.wake(world_id(1), 0);
        let job = table.next().unwrap();
        table.wake(job.world, 0);
        assert!(table.next().is_none(), "a world runs in one lane only");
        table.put_back(job.world, 0, 1, After::Settled, 0).unwrap();
        assert_eq!(table.next().unwrap().world, job.world);
    }

    #[test]
    fn a_lost_lease_takes_the_memory_with_it() {
        let (mut table, world) = (Table::<u8>::default(), world_id(1));
        resident(&mut table, world, 1, 0);
        assert!(!table.lose(fence(world, 2)), "another epoch is another lease");
        assert!(table.lose(fence(world, 1)) && table.is_empty());
        table.wake(world, 0);
        table.next().unwrap();
        table.leased(fence(world, 3), 0);
        assert!(table.lose(fence(world, 3)));
        assert_eq!(table.put_back(world, 7, 1, After::Settled, 0), Err(7));
        assert!(table.is_empty());
    }

    /// Once it was forgotten: its hint had been seen, and so nobody looked again before the next one came.
    #[test]
    fn a_world_that_waits_or_runs_when_its_lease_is_lost_is_looked_at_again() {
        let (mut table, world) = (Table::<u8>::default(), world_id(1));
        resident(&mut table, world, 1, 0);
        assert!(table.wake(world, 1), "something arrived");
        assert!(table.lose(fence(world, 1)) && table.next().is_none());
        assert!(table.next_later_ns().is_some() && table.wake_later(2));
        assert!(table.next().unwrap().is_doubtful, "perhaps someone else has it");
        table.leased(fence(world, 2), 2);
        assert!(table.lose(fence(world, 2)));
        assert_eq!(table.put_back(world, 7, 1, After::More, 3), Err(7));
        assert!(table.wake_later(3) && !table.insist(world, 3), "it waits already");
        assert!(!table.next().unwrap().is_doubtful, "someone asked for it");
    }

    #[test]
    fn the_least_recently_used_goes_first_and_the_busy_stay() {
        let mut table = Table::<u8>::default();
        (1..=4).for_each(|n| resident(&mut table, world_id(n), 10, n));
        table.wake(world_id(1), 5);
        assert_eq!(table.release_surplus(5, 100, 25, 4), 2, "two of four are too many, and one of them is busy");
        assert_eq!(table.release_surplus(102, 100, 1_000, 4), 0, "released already");
        let order: Vec<_> = std::iter::from_fn(|| table.next()).map(|job| (job.world, job.release)).collect();
        assert_eq!(order, [(world_id(1), false), (world_id(2), true), (world_id(3), true)]);
    }

    #[test]
    fn worlds_that_rest_make_room_and_those_that_do_not_refuse_others() {
        let mut table = Table::<u8>::default();
        (1..=2).for_each(|n| resident(&mut table, world_id(n), 1, n));
        table.wake(world_id(3), 5);
        assert_eq!(table.next().unwrap().world, world_id(3));
        assert!(table.admit(world_id(3), 2), "both others rest");
        table.leased(fence(world_id(3), 1), 5);
        table.put_back(world_id(3), 0, 1, After::Active, 5).unwrap();
        assert_eq!((table.residents(), table.busy()), (3, 1));
        assert_eq!(table.release_surplus(5, 100, 1_000, 2), 1, "the one that rests longest goes");
        table.wake(world_id(2), 6);
        table.wake(world_id(4), 6);
        let order: Vec<_> = std::iter::from_fn(|| table.next()).map(|job| (job.world, job.release)).collect();
        assert_eq!(order, [(world_id(1), true), (world_id(2), false), (world_id(4), false)]);
        table.forget(world_id(1), None);
        assert!(!table.admit(world_id(4), 2), "two are busy");
        assert!(table.admit(world_id(4), 3));
        table.forget(world_id(4), Some(100));
        assert_eq!((table.residents(), table.busy()), (2, 2));
    }

    #[test]
    fn a_world_that_could_not_be_had_is_tried_later_unless_someone_insists() {
        let (mut table, world) = (Table::<u8>::default(), world_id(1));
        table.wake(world, 0);
        table.next().unwrap();
        table.forget(world, Some(100));
        assert_eq!((table.wake(world, 99), table.next_later_ns(), table.failures(world)), (false, Some(100), 1));
        assert!(table.wake_later(100));
        table.next().unwrap();
        table.forget(world, Some(300));
        assert_eq!(table.failures(world), 2);
        assert!(table.insist(world, 101));
        table.next().unwrap();
        table.put_back(world, 0, 1, After::Settled, 0).unwrap();
        assert_eq!(table.failures(world), 0);
    }

    fn hand(table: &mut Table<u8>, world: WorldId) -> Wait {
        let input = Input::Event { schema: "add".to_owned(), value: Payload::Inline(vec![]), key: None };
        let origin = Origin::new(0);
        table.hand(world, &Arc::new(InboxItem { input, origin }), Sender::Event).unwrap().wait
    }

    fn is_given_back(wait: Wait) -> bool {
        matches!(wait.taken().now_or_never(), Some(Ok(None)))
    }

    #[test]
    fn what_waits_for_too_many_rounds_is_given_back() {
        let (mut table, busy, free) = (Table::<u8>::default(), world_id(0), world_id(1));
        [busy, free].iter().for_each(|world| resident(&mut table, *world, 1, 0));
        table.wake(busy, 0);
        table.next().unwrap();
        assert!(!table.end_round(2));
        let (early, taken) = (hand(&mut table, busy), hand(&mut table, free));
        assert_eq!(table.next().unwrap().world, free);
        let direct = table.take_direct(free, ITEMS_MAX);
        assert_eq!(direct.len(), 1);
        assert!(table.end_round(2));
        let late = hand(&mut table, busy);
        let again = hand(&mut table, free);
        assert!(table.end_round(2));
        assert!(table.end_round(2), "the other one has not waited as long");
        assert!(is_given_back(early) && is_given_back(late), "who comes later waits with the first");
        assert!(!table.end_round(2) && is_given_back(again));
        table.put_back(busy, 0, 1, After::Active, 0).unwrap();
        assert!(table.take_direct(busy, ITEMS_MAX).is_empty(), "they went another way");
        let (seq, mut taken) = (InboxSeq::direct(1, 0), pin!(taken.taken()));
        assert!((&mut taken).now_or_never().is_none(), "a turn has it, and its sender waits on");
        direct.into_iter().for_each(|direct| direct.ticket.taken(Taken { seq, reply: None }));
        assert_eq!(taken.now_or_never().unwrap().unwrap().map(|taken| taken.seq), Some(seq));
    }

    #[test]
    fn a_cycle_gets_what_one_turn_takes_and_the_rest_waits_for_the_next() {
        let (mut table, world) = (Table::<u8>::default(), world_id(0));
        resident(&mut table, world, 1, 0);
        let _waits: Vec<_> = (0..ITEMS_MAX + 1).map(|_| hand(&mut table, world)).collect();
        assert!(table.next().is_some());
        assert_eq!(table.take_direct(world, ITEMS_MAX).len(), ITEMS_MAX);
        table.put_back(world, 0, 1, After::Active, 0).unwrap();
        assert!(table.next().is_some());
        assert_eq!(table.take_direct(world, ITEMS_MAX).len(), 1);
        table.put_back(world, 0, 1, After::Active, 0).unwrap();
        assert!(table.next().is_none());
    }

    #[test]
    fn an_item_for_a_world_that_is_not_held_waits_until_it_is_open_or_goes_back() {
        let (mut table, world) = (Table::<u8>::default(), world_id(0));
        let item = Arc::new(InboxItem {
            input: Input::Event { schema: "add".to_owned(), value: Payload::Inline(vec![]), key: None },
            origin: Origin::new(0),
        });
        assert!(table.hand(world, &item, Sender::Event).is_none(), "it is not held");
        let first = table.hand_or_open(world, &item, Sender::Event, 0).unwrap();
        assert!(first.woken && first.is_first);
        assert!(table.next().is_some_and(|job| job.host.is_none()));
        let second = table.hand_or_open(world, &item, Sender::Event, 0).unwrap();
        assert!(!second.woken, "a lane has it");
        table.leased(fence(world, 1), 0);
        assert_eq!(table.take_direct(world, ITEMS_MAX).len(), 2);
        table.put_back(world, 0, 1, After::Active, 0).unwrap();
        table.lose(fence(world, 1));
        assert!(table.wake_later(0) && table.next().is_some());
        let third = table.hand_or_open(world, &item, Sender::Event, 0).unwrap();
        table.forget(world, Some(100));
        assert!(is_given_back(third.wait), "it could not be had");
        assert!(table.hand_or_open(world, &item, Sender::Event, 99).is_none(), "it is tried for later");
        assert!(table.hand_or_open(world, &item, Sender::Event, 100).is_some());
    }
}
