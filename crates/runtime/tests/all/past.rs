//! Questions about the past begin at checkpoints that earlier questions left, and get the same answers as without them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_model::{Height, WorkerId, WorldId, limits::CHECKPOINT_RECORDS};
use mundi_runtime::{
    calls::Calls,
    control::{At, Ops, StepQuestion},
    testing::{Rig, TestPlane},
};
use mundi_store::testing::world_id;

const STEPS: u64 = 400;

fn ops(rig: &Rig) -> Ops<TestPlane> {
    Ops::new(rig.plane.clone(), rig.universe, Calls::default())
}

/// A world with cells, open effects and timers, and how many records it has.
async fn told(rig: &Rig, world: WorldId) -> u64 {
    rig.create(world).await.unwrap();
    let mut host = rig.host(world, WorkerId::new(1).unwrap()).await.unwrap();
    for n in 0..STEPS {
        let (key, small) = (n % 60, n % 7);
        let script = format!("put c{key:02} {n}\nadd sum\nput x{small} {n}\nreply {n}");
        let more = match n % 50 {
            0 => format!("{script}\nemit e{n}"),
            1 => format!("{script}\nlater t{n} 3600000"),
            2 => format!("fill big{n} 20000"),
            _ => script,
        };
        rig.tell(&mut host, &[&more]).await.unwrap();
    }
    rig.journal(world).await.unwrap().len() as u64
}

async fn step(ops: &Ops<TestPlane>, world: WorldId, height: u64) -> String {
    let question = StepQuestion { changes_max: 100, prefix: "", cells_max: 1_000 };
    format!("{:?}", ops.world_step(world, Height::new(height), question).await.unwrap())
}

#[test]
fn an_answer_from_a_checkpoint_is_the_answer_from_the_snapshot() {
    Rig::run(|rig| async move {
        let world = world_id(1);
        let records = told(&rig, world).await;
        assert!(records > 4 * CHECKPOINT_RECORDS, "{records} records are too few to leave checkpoints");
        let with = ops(&rig);
        // Far ahead, far back, in between; then neighbours of what was asked.
        let far = (0..40).map(|n| n * 7_919 % records);
        let near = (0..10).flat_map(|n| [records - 1 - n, 3 * CHECKPOINT_RECORDS + n]);
        for height in far.chain(near) {
            let fresh = step(&ops(&rig), world, height).await;
            assert_eq!(step(&with, world, height).await, fresh, "at height {height}");
        }
    });
}

#[test]
fn a_second_question_reads_only_the_records_since_the_checkpoint() {
    Rig::run(|rig| async move {
        let world = world_id(1);
        let records = told(&rig, world).await;
        let ops = ops(&rig);
        let at = At { world, height: Some(Height::new(records)) };
        let mut read = Vec::new();
        for _ in 0..2 {
            let before = rig.plane.engine.counts().items;
            ops.world_cell(at, "sum").await.unwrap();
            read.push(rig.plane.engine.counts().items - before);
        }
        assert!(read[0] >= STEPS && read[1] <= CHECKPOINT_RECORDS, "records came in this many entries: {read:?}");
    });
}

#[test]
fn what_came_after_a_checkpoint_is_seen() {
    Rig::run(|rig| async move {
        let world = world_id(1);
        told(&rig, world).await;
        let ops = ops(&rig);
        let now = At { world, height: None };
        assert_eq!(ops.world_cell(now, "late").await.unwrap(), None);
        let mut host = rig.host(world, WorkerId::new(1).unwrap()).await.unwrap();
        rig.tell(&mut host, &["put late yes"]).await.unwrap();
        assert_eq!(ops.world_cell(now, "late").await.unwrap(), Some(b"yes".to_vec()));
    });
}
