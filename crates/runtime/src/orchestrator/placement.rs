//! Where worlds should run: rendezvous hashing over living workers, with capacity, pins and priorities. Pure.
//!
//! Two orchestrators that see the same decide the same, so one that runs by accident does no harm.

use mundi_model::{WorkerId, WorldId};
use mundi_store::keyspace::{assignment::Assignment, ready::PRIORITY_NORMAL, worker::WorkerRecord};
use std::collections::BTreeMap;

/// What an orchestrator sees.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    pub workers: BTreeMap<WorkerId, WorkerRecord>,
    pub assignments: BTreeMap<WorldId, Assignment>,
    /// Worlds that have something to do and no assignment.
    pub unplaced: Vec<WorldId>,
}

impl Sight {
    /// When the first of those that live is gone, if nothing more is heard of it.
    pub(super) fn next_expiry_ns(&self, now_ns: u64) -> Option<u64> {
        self.workers.values().map(|record| record.expires_at_ns).filter(|expires_at_ns| *expires_at_ns > now_ns).min()
    }
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub world: WorldId,
    pub from: Option<Assignment>,
    pub to: Assignment,
}

/// Decides. Worlds without a living worker come first, by priority; then at most `rebalances_max` worlds move to where
/// they belong since workers came.
pub fn plan(sight: &Sight, now_ns: u64, rebalances_max: usize) -> Vec<Move> {
    let mut room = Room::of(sight, now_ns);
    let mut moves = Vec::new();
    for (world, from) in homeless(sight, &room) {
        let reason = if from.is_some() { "its worker is gone" } else { "it has something to do" };
        let Some(worker) = room.best(world) else { continue };
        room.take(worker);
        moves.push(moved(world, from.cloned(), worker, reason));
    }
    for (world, from) in settled(sight, &room) {
        if moves.iter().filter(|moved| moved.to.reason.as_deref() == Some(REBALANCE)).count() >= rebalances_max {
            break;
        }
        let Some(current) = from.desired else { continue };
        let Some(ideal) = room.ideal(world).filter(|ideal| *ideal != current && room.has_room(*ideal)) else {
            continue;
        };
        room.leave(current);
        room.take(ideal);
        moves.push(moved(world, Some(from.clone()), ideal, REBALANCE));
    }
    moves
}

const REBALANCE: &str = "rebalance";

fn moved(world: WorldId, from: Option<Assignment>, worker: WorkerId, reason: &str) -> Move {
    let priority = from.as_ref().map_or(PRIORITY_NORMAL, |from| from.priority);
    let to = Assignment { desired: Some(worker), pinned: false, priority, reason: Some(reason.to_owned()) };
    Move { world, from, to }
}

/// Worlds that no living worker is to run, the most urgent first. A pin is the operator's word, also to a worker that
/// is gone; an assignment to nobody lets every worker.
fn homeless<'s>(sight: &'s Sight, room: &Room) -> Vec<(WorldId, Option<&'s Assignment>)> {
    let orphan = |(_, from): &(&WorldId, &Assignment)| {
        !from.pinned && from.desired.is_some_and(|worker| !room.0.contains_key(&worker))
    };
    let orphans = sight.assignments.iter().filter(orphan).map(|(world, from)| (*world, Some(from)));
    let unplaced = sight.unplaced.iter().filter(|world| !sight.assignments.contains_key(*world));
    let mut all: Vec<_> = orphans.chain(unplaced.map(|world| (*world, None))).collect();
    all.sort_by_key(|(world, from)| (from.map_or(PRIORITY_NORMAL, |from| from.priority), *world));
    all
}

fn settled<'s>(sight: &'s Sight, room: &Room) -> Vec<(WorldId, &'s Assignment)> {
    let at_home = |(_, from): &(&WorldId, &Assignment)| {
        !from.pinned && from.desired.is_some_and(|worker| room.0.contains_key(&worker))
    };
    sight.assignments.iter().filter(at_home).map(|(world, from)| (*world, from)).collect()
}

/// Living workers, and how many more worlds each takes.
struct Room(BTreeMap<WorkerId, i64>);

impl Room {
    fn of(sight: &Sight, now_ns: u64) -> Self {
        let lives = |record: &WorkerRecord| !record.draining && record.expires_at_ns > now_ns;
        let living = sight.workers.iter().filter(|(_, record)| lives(record));
        let mut room = Self(living.map(|(worker, record)| (*worker, i64::from(record.worlds_max))).collect());
        sight.assignments.values().filter_map(|from| from.desired).for_each(|worker| room.take(worker));
        room
    }

    fn take(&mut self, worker: WorkerId) {
        self.0.entry(worker).and_modify(|left| *left -= 1);
    }

    fn leave(&mut self, worker: WorkerId) {
        self.0.entry(worker).and_modify(|left| *left += 1);
    }

    fn has_room(&self, worker: WorkerId) -> bool {
        self.0.get(&worker).is_some_and(|left| *left > 0)
    }

    /// Where the world belongs, if there were room everywhere.
    fn ideal(&self, world: WorldId) -> Option<WorkerId> {
        self.0.keys().copied().max_by_key(|worker| score(world, *worker))
    }

    /// The best of those with room.
    fn best(&self, world: WorldId) -> Option<WorkerId> {
        self.0.keys().copied().filter(|worker| self.has_room(*worker)).max_by_key(|worker| score(world, *worker))
    }
}

/// How well a world and a worker go together. XXH3 is fixed by its specification, so all versions agree.
fn score(world: WorldId, worker: WorkerId) -> (u64, WorkerId) {
    let name = [&world.as_bytes()[..], &worker.get().to_be_bytes()].concat();
    (xxhash_rust::xxh3::xxh3_64(&name), worker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_store::testing::world_id;

    fn id(n: u64) -> WorkerId {
        WorkerId::new(n).unwrap()
    }

    fn record(worlds_max: u32) -> WorkerRecord {
        WorkerRecord {
            started_at_ns: 0,
            expires_at_ns: 100,
            worlds_max,
            draining: false,
            schema_version: 1,
            address: None,
        }
    }

    fn sight(workers: u64, worlds_max: u32, unplaced: u64) -> Sight {
        Sight {
            workers: (1..=workers).map(|n| (id(n), record(worlds_max))).collect(),
            assignments: BTreeMap::new(),
            unplaced: (0..unplaced).map(world_id).collect(),
        }
    }

    fn follow(sight: &mut Sight, moves: &[Move]) {
        sight.unplaced.clear();
        sight.assignments.extend(moves.iter().map(|moved| (moved.world, moved.to.clone())));
    }

    #[test]
    fn worlds_spread_over_workers_and_stay_there() {
        let mut sight = sight(4, 1_000, 400);
        let moves = plan(&sight, 0, 10);
        assert_eq!(moves, plan(&sight, 0, 10), "two orchestrators decide the same");
        follow(&mut sight, &moves);
        for n in 1..=4 {
            let load = sight.assignments.values().filter(|to| to.desired == Some(id(n))).count();
            assert!((60..140).contains(&load), "{load}");
        }
        assert_eq!(plan(&sight, 0, 10), []);
    }

    #[test]
    fn a_dead_or_draining_worker_loses_only_its_own_worlds() {
        for drain in [false, true] {
            let mut sight = sight(4, 1_000, 400);
            let moves = plan(&sight, 0, 0);
            follow(&mut sight, &moves);
            let gone = sight.workers.get_mut(&id(2)).unwrap();
            (gone.draining, gone.expires_at_ns) = if drain { (true, 100) } else { (false, 1) };
            let of_gone = sight.assignments.values().filter(|to| to.desired == Some(id(2))).count();
            let moves = plan(&sight, 50, 0);
            assert_eq!(moves.len(), of_gone);
            assert!(moves.iter().all(|moved| moved.from.as_ref().unwrap().desired == Some(id(2))));
            assert!(moves.iter().all(|moved| moved.to.desired != Some(id(2))));
        }
    }

    #[test]
    fn a_new_worker_gets_its_share_a_few_worlds_at_a_time() {
        let mut sight = sight(3, 1_000, 300);
        let moves = plan(&sight, 0, 0);
        follow(&mut sight, &moves);
        sight.workers.insert(id(9), record(1_000));
        let mut rounds = 0;
        loop {
            let moves = plan(&sight, 0, 10);
            assert!(moves.len() <= 10 && moves.iter().all(|moved| moved.to.desired == Some(id(9))));
            if moves.is_empty() {
                break;
            }
            follow(&mut sight, &moves);
            rounds += 1;
        }
        assert!((5..=10).contains(&rounds), "{rounds}");
    }

    #[test]
    fn a_pin_stays_and_capacity_is_respected() {
        let mut sight = sight(2, 3, 10);
        let pin = Assignment { desired: Some(id(7)), pinned: true, priority: 0, reason: None };
        sight.assignments.insert(world_id(99), pin);
        let moves = plan(&sight, 0, 10);
        assert_eq!(moves.len(), 6, "six places for ten worlds, and the pinned one is left alone");
        follow(&mut sight, &moves);
        assert_eq!(sight.assignments[&world_id(99)].desired, Some(id(7)));
    }

    #[test]
    fn urgent_worlds_are_placed_first() {
        let mut sight = sight(1, 1, 0);
        for (n, priority) in [(1, 200), (2, 5), (3, 100)] {
            let lost = Assignment { desired: Some(id(8)), pinned: false, priority, reason: None };
            sight.assignments.insert(world_id(n), lost);
        }
        let moves = plan(&sight, 0, 0);
        assert_eq!(moves.iter().map(|moved| moved.world).collect::<Vec<_>>(), [world_id(2)]);
        assert_eq!(moves[0].to.priority, 5);
    }
}
