//! Scale: a thousand worlds on one real worker, its ready queue and its runners.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_model::{WorkerId, WorldId, record::ReplyOutcome};
use mundi_runtime::{
    Spawn,
    calls::Calls,
    metrics::Metrics,
    testing::{Rig, call},
    worker::{WorkerConfig, WorldWorker},
    world::CycleBudget,
};
use mundi_store::testing::world_id;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const WORLDS: u64 = 1_000;
const ROUNDS: u64 = 4;
/// Callers of world 0; all others have one.
const HOT_CALLERS: u64 = 50;

/// How long each answer took, by world. Time is counted in operations of the engine, so the result repeats exactly.
type Waits = Arc<Mutex<BTreeMap<WorldId, Vec<u64>>>>;

/// Calls a world again and again, each time as soon as it has the answer to the last call.
async fn caller(rig: Rig, calls: Calls, world: WorldId, waits: Waits) {
    for _ in 0..ROUNDS {
        let sent = rig.plane.engine.operations();
        let place = rig.enqueue(world, vec![call("add n\nreply done")]).await.unwrap()[0].seq.into();
        let an_hour = Duration::from_secs(3_600);
        let outcome = calls.reply(&rig.plane, rig.universe, (world, place), false, an_hour).await.unwrap();
        assert!(matches!(outcome, ReplyOutcome::Ok(_)), "{outcome:?}");
        waits.lock().entry(world).or_default().push(rig.plane.engine.operations() - sent);
    }
}

/// One world is fifty times as busy as the others, and no world waits much longer than another.
#[test]
fn a_thousand_active_worlds_starve_none() {
    let (rig, waits) = (Rig::new(1), Waits::default());
    let creating = rig.clone();
    rig.executor.block_on(async move {
        for n in 0..WORLDS {
            creating.create(world_id(n)).await.unwrap();
        }
    });
    let (node, calls) = (rig.executor.node(), Calls::default());
    let mut config = WorkerConfig::new(rig.universe, WorkerId::new(1).unwrap());
    config.runners = 4;
    config.cycle = CycleBudget { items_max: 8, ..CycleBudget::default() };
    let worker = WorldWorker::start(rig.on(&node), config, calls.clone(), Arc::new(Metrics::default()));
    rig.plane.engine.revive();
    for world in (0..WORLDS).chain((1..HOT_CALLERS).map(|_| 0)) {
        node.spawn(Box::pin(caller(rig.clone(), calls.clone(), world_id(world), waits.clone())));
    }
    let answers = usize::try_from((WORLDS + HOT_CALLERS - 1) * ROUNDS).unwrap();
    while waits.lock().values().map(Vec::len).sum::<usize>() < answers {
        assert!(rig.executor.step(), "everything waits, and answers are missing");
    }
    assert_eq!(u64::try_from(worker.worlds().len()).unwrap(), WORLDS, "it holds all of them at a time");

    let mean = |waits: &[u64]| waits.iter().sum::<u64>() / waits.len() as u64;
    let by_world: Vec<u64> = waits.lock().values().map(|waits| mean(waits)).collect();
    assert_eq!(by_world.len() as u64, WORLDS);
    let (of_all, worst) = (mean(&by_world), *by_world.iter().max().unwrap());
    println!("an answer takes {of_all} operations of the engine, those of the worst world {worst}");
    assert!(worst <= 3 * of_all, "one world waits {worst} operations, the mean is {of_all}");
}
