//! The state that an orchestrator keeps between two passes, so that each reads only what changed. Pure.
//!
//! All of it may be lost: then everything that is stored is looked through once.

use super::Move;
use mundi_model::{WorkerId, WorldId};
use mundi_store::{
    keyspace::{Shard, ready_notify::Seen, worker::WorkerRecord},
    protocol::Placement,
};
use std::collections::{BTreeMap, BTreeSet};

/// Where a list of worlds or hints continues.
pub(super) type HintsFrom = (Shard, Option<(u8, WorldId)>);

#[derive(Default)]
pub(super) struct Memory {
    living: BTreeSet<WorkerId>,
    /// The counter of each shard when its hints were last read.
    counters: BTreeMap<Shard, Seen>,
    /// Worlds placed on a worker since its last heartbeat, which does not know of them yet; the heartbeat is told by its expiry.
    placed: BTreeMap<WorkerId, (u64, u32)>,
    /// Worlds that have work and for which there was no room.
    waiting: BTreeSet<WorldId>,
    /// The assignments that are still to be looked through since workers came or went: by worker, and after which world.
    sweep: BTreeMap<WorkerId, Option<WorldId>>,
}

impl Memory {
    /// Updates the list of live workers. If it changed, any world may have to move, and worlds of a lost worker may have hints that were not read.
    pub(super) fn meet(&mut self, workers: &BTreeMap<WorkerId, WorkerRecord>, now_ns: u64) {
        let takes = |(_, record): &(&WorkerId, &WorkerRecord)| record.takes_worlds(now_ns);
        let living: BTreeSet<WorkerId> = workers.iter().filter(takes).map(|(worker, _)| *worker).collect();
        if living != self.living {
            self.sweep = living.iter().map(|worker| (*worker, None)).collect();
            self.counters.clear();
            self.living = living;
        }
        self.placed.retain(|worker, (expires_at_ns, _)| {
            workers.get(worker).is_some_and(|record| record.expires_at_ns == *expires_at_ns)
        });
        for worker in &self.living {
            if let Some(record) = workers.get(worker) {
                self.placed.entry(*worker).or_insert((record.expires_at_ns, 0));
            }
        }
    }

    pub(super) fn lives(&self, worker: WorkerId) -> bool {
        self.living.contains(&worker)
    }

    /// How many more worlds each living worker takes.
    pub(super) fn room(&self, workers: &BTreeMap<WorkerId, WorkerRecord>) -> BTreeMap<WorkerId, u32> {
        let placed = |worker: &WorkerId| self.placed.get(worker).map_or(0, |(_, count)| *count);
        let living = workers.iter().filter(|(worker, _)| self.lives(**worker));
        living.map(|(worker, record)| (*worker, record.room().saturating_sub(placed(worker)))).collect()
    }

    pub(super) fn placed(&mut self, worker: WorkerId) {
        if let Some((_, count)) = self.placed.get_mut(&worker) {
            *count = count.saturating_add(1);
        }
    }

    /// The shards in which a world became ready since their hints were read.
    pub(super) fn changed(&mut self, counters: &[(Shard, Seen)]) -> Vec<HintsFrom> {
        let changed: Vec<_> =
            counters.iter().filter(|(shard, seen)| self.counters.get(shard) != Some(seen)).cloned().collect();
        self.counters.extend(changed.iter().cloned());
        changed.into_iter().map(|(shard, _)| (shard, None)).collect()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = WorldId> + '_ {
        self.waiting.iter().copied()
    }

    pub(super) fn wait(&mut self, worlds: Vec<WorldId>) {
        self.waiting = worlds.into_iter().collect();
    }

    /// The worker whose worlds are looked through next, and after which one.
    pub(super) fn sweeps_at(&self) -> Option<(WorkerId, Option<WorldId>)> {
        self.sweep.iter().next().map(|(worker, after)| (*worker, *after))
    }

    /// All worlds of a worker were looked through.
    pub(super) fn swept(&mut self, worker: WorkerId) {
        self.sweep.remove(&worker);
    }

    /// A page of a worker's worlds was looked through: up to the last one that moves, because more may not at a time.
    pub(super) fn examined(&mut self, settled: &[Placement], moves: &[Move], rebalances_max: usize) {
        let Some(mut at) = self.sweep.first_entry() else { return };
        let of_page: BTreeSet<WorldId> = settled.iter().map(|placement| placement.world).collect();
        let moved: Vec<WorldId> = moves.iter().map(|moved| moved.world).filter(|it| of_page.contains(it)).collect();
        let last = if moved.len() >= rebalances_max.max(1) { moved.last() } else { of_page.last() };
        if let Some(last) = last {
            at.insert(Some(*last));
        }
    }

    /// When the first of those that live is gone, if nothing more is heard of it.
    pub(super) fn next_expiry_ns(&self, workers: &BTreeMap<WorkerId, WorkerRecord>, now_ns: u64) -> Option<u64> {
        workers.values().map(|record| record.expires_at_ns).filter(|expires_at_ns| *expires_at_ns > now_ns).min()
    }
}
