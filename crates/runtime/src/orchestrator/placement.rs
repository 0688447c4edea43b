//! Where worlds should run: rendezvous hashing over live workers, with capacity, pins and priorities. Pure.
//!
//! Two orchestrators that see the same decide the same, so one that runs by accident does no harm.

use mundi_model::{WorkerId, WorldId};
use mundi_store::{keyspace::assignment::Assignment, protocol::Placement};
use std::collections::BTreeMap;

/// The view of an orchestrator.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// Worlds that no living worker is to run.
    pub homeless: Vec<Placement>,
    /// Worlds of living workers, in the order of their ids: some of them, after workers came or went.
    pub settled: Vec<Placement>,
    /// Living workers, and how many more worlds each takes. Worlds that rest take no room.
    pub room: BTreeMap<WorkerId, u32>,
}

/// The decision of an orchestrator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub moves: Vec<Move>,
    /// Worlds of workers that are gone which have no work, or for which there is no room: any worker may take them.
    pub forgotten: Vec<Placement>,
    /// Worlds that have work, and wait.
    pub without_room: Vec<WorldId>,
}

/// Another place for a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub world: WorldId,
    pub from: Option<Assignment>,
    pub to: Assignment,
}

/// Decides. Worlds without a living worker come first, by priority; then at most `rebalances_max` worlds move to where
/// they belong since workers came.
pub fn plan(sight: &Sight, rebalances_max: usize) -> Decision {
    let mut room = Room(sight.room.clone());
    let mut decision = Decision::default();
    for placement in homeless(sight) {
        let Placement { world, assignment: from, is_ready, .. } = placement;
        let best = if *is_ready { room.best(*world) } else { None };
        match best {
            Some(worker) => {
                let reason = if from.is_some() { "its worker is gone" } else { "it has something to do" };
                room.take(worker);
                decision.moves.push(moved(placement, worker, reason));
            }
            None => {
                decision.forgotten.extend(from.is_some().then(|| placement.clone()));
                decision.without_room.extend(is_ready.then_some(*world));
            }
        }
    }
    let mut rebalanced = 0;
    for placement in &sight.settled {
        let Some(current) = placement.assignment.as_ref().filter(|from| !from.pinned).and_then(|from| from.desired)
        else {
            continue;
        };
        if rebalanced >= rebalances_max {
            break;
        }
        let Some(ideal) = room.ideal(placement.world).filter(|ideal| *ideal != current && room.has_room(*ideal)) else {
            continue;
        };
        room.take(ideal);
        rebalanced += 1;
        decision.moves.push(moved(placement, ideal, "rebalance"));
    }
    decision
}

fn moved(placement: &Placement, worker: WorkerId, reason: &str) -> Move {
    let Placement { world, assignment: from, priority, .. } = placement;
    let reason = Some(reason.to_owned());
    let to = Assignment { desired: Some(worker), pinned: false, priority: *priority, reason };
    Move { world: *world, from: from.clone(), to }
}

/// By priority. A pin holds also if its worker is gone.
fn homeless(sight: &Sight) -> Vec<&Placement> {
    let is_pinned = |placement: &&Placement| placement.assignment.as_ref().is_some_and(|from| from.pinned);
    let mut all: Vec<_> = sight.homeless.iter().filter(|placement| !is_pinned(placement)).collect();
    all.sort_by_key(|placement| (placement.priority, placement.world));
    all
}

/// Living workers, and how many more worlds each takes.
struct Room(BTreeMap<WorkerId, u32>);

impl Room {
    fn take(&mut self, worker: WorkerId) {
        self.0.entry(worker).and_modify(|left| *left = left.saturating_sub(1));
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
    use mundi_store::{keyspace::ready::PRIORITY_NORMAL, testing::world_id};

    fn id(n: u64) -> WorkerId {
        WorkerId::new(n).unwrap()
    }

    fn to(worker: u64) -> Assignment {
        Assignment { desired: Some(id(worker)), pinned: false, priority: PRIORITY_NORMAL, reason: None }
    }

    fn placement(world: u64, assignment: Option<Assignment>) -> Placement {
        let priority = assignment.as_ref().map_or(PRIORITY_NORMAL, |to| to.priority);
        Placement { world: world_id(world), assignment, priority, is_ready: true }
    }

    fn room(workers: u64, worlds: u32) -> BTreeMap<WorkerId, u32> {
        (1..=workers).map(|n| (id(n), worlds)).collect()
    }

    fn unplaced(workers: u64, each: u32, worlds: u64) -> Sight {
        let homeless = (0..worlds).map(|world| placement(world, None)).collect();
        Sight { homeless, settled: Vec::new(), room: room(workers, each) }
    }

    /// Where worlds are after the moves.
    fn follow(moves: &[Move]) -> Vec<Placement> {
        let after = |moved: &Move| Placement {
            world: moved.world,
            assignment: Some(moved.to.clone()),
            priority: moved.to.priority,
            is_ready: true,
        };
        let mut placed: Vec<_> = moves.iter().map(after).collect();
        placed.sort_by_key(|placement| placement.world);
        placed
    }

    #[test]
    fn worlds_spread_over_workers_and_stay_there() {
        let sight = unplaced(4, 1_000, 400);
        let decision = plan(&sight, 10);
        assert_eq!(decision, plan(&sight, 10), "two orchestrators decide the same");
        for n in 1..=4 {
            let load = decision.moves.iter().filter(|moved| moved.to.desired == Some(id(n))).count();
            assert!((60..140).contains(&load), "{load}");
        }
        let settled = Sight { homeless: Vec::new(), settled: follow(&decision.moves), ..sight };
        assert_eq!(plan(&settled, 10), Decision::default());
    }

    #[test]
    fn worlds_of_a_worker_that_is_gone_move_if_they_have_something_to_do_and_are_forgotten_if_not() {
        let of_gone = |world| placement(world, Some(to(9)));
        let resting = Placement { is_ready: false, ..of_gone(1) };
        let sight = Sight { homeless: vec![of_gone(0), resting.clone()], settled: Vec::new(), room: room(1, 10) };
        let decision = plan(&sight, 0);
        assert_eq!(decision.moves.iter().map(|moved| moved.world).collect::<Vec<_>>(), [world_id(0)]);
        assert_eq!((decision.forgotten, decision.without_room), (vec![resting], vec![]));
    }

    /// Once such worlds stayed with a worker that was gone, for good, and nobody was told.
    #[test]
    fn worlds_for_which_there_is_no_room_wait_for_any_worker_and_are_named() {
        let sight = Sight { homeless: vec![placement(0, Some(to(9))), placement(1, None)], ..unplaced(2, 0, 0) };
        let decision = plan(&sight, 10);
        assert_eq!(decision.moves, []);
        assert_eq!(decision.forgotten, [placement(0, Some(to(9)))]);
        assert_eq!(decision.without_room, [world_id(0), world_id(1)]);
    }

    #[test]
    fn a_new_worker_gets_its_share_a_few_worlds_at_a_time() {
        let mut settled = follow(&plan(&unplaced(3, 1_000, 300), 0).moves);
        let mut room = room(3, 1_000);
        room.insert(id(9), 1_000);
        let mut rounds = 0;
        loop {
            let sight = Sight { homeless: Vec::new(), settled: settled.clone(), room: room.clone() };
            let moves = plan(&sight, 10).moves;
            assert!(moves.len() <= 10 && moves.iter().all(|moved| moved.to.desired == Some(id(9))));
            if moves.is_empty() {
                break;
            }
            for moved in follow(&moves) {
                let at = settled.iter().position(|placement| placement.world == moved.world).unwrap();
                settled[at] = moved;
            }
            rounds += 1;
        }
        assert!((5..=10).contains(&rounds), "{rounds}");
    }

    #[test]
    fn a_pin_stays_and_capacity_is_respected() {
        let mut sight = unplaced(2, 3, 10);
        sight.homeless.push(placement(99, Some(Assignment { pinned: true, ..to(7) })));
        let decision = plan(&sight, 10);
        assert_eq!(decision.moves.len(), 6, "six places for ten worlds");
        assert_eq!(decision.without_room.len(), 4, "and the pinned one is left alone");
        assert!(decision.moves.iter().all(|moved| moved.world != world_id(99)) && decision.forgotten.is_empty());
    }

    #[test]
    fn urgent_worlds_are_placed_first_and_keep_their_priority() {
        let lost = |(n, priority)| placement(n, Some(Assignment { priority, ..to(8) }));
        let homeless = [(1, 200), (2, 5), (3, 100)].map(lost).to_vec();
        let moves = plan(&Sight { homeless, ..unplaced(1, 1, 0) }, 0).moves;
        assert_eq!(moves.iter().map(|moved| (moved.world, moved.to.priority)).collect::<Vec<_>>(), [(world_id(2), 5)]);
    }
}
