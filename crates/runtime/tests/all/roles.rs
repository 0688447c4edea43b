//! Roles in their shell: how they begin, and how and why they end.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, EngineError, Transaction};
use mundi_model::{Code, WorkerId};
use mundi_runtime::{
    RuntimeError,
    calls::Calls,
    metrics::Metrics,
    shell::{Ended, Failed, Role, Shell, ShellConfig, Stop},
    testing::{Rig, TestPlane, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    keyspace::schema_version::{self, SchemaVersion},
    testing::world_id,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

fn config(rig: &Rig) -> ShellConfig {
    ShellConfig { bootstrap: true, ..ShellConfig::new(rig.universe, id(1)) }
}

fn joined(rig: &Rig, stop: &Stop) -> Ended {
    let stop = stop.clone();
    rig.executor.block_on(async move { stop.join().await })
}

/// Fails, or panics, when it begins.
enum Broken {
    Fails,
    Panics,
}

impl Role<TestPlane> for Broken {
    const NAME: &'static str = "broken";

    async fn run(shell: &Shell<TestPlane, Self>) -> Result<(), RuntimeError> {
        match shell.role() {
            Self::Fails => Err(EngineError::Closed.into()),
            Self::Panics => panic!("a role that panics"),
        }
    }
}

#[test]
fn a_role_that_fails_says_why_it_ended() {
    let rig = Rig::new(1);
    let ended = joined(&rig, &Shell::launch(rig.plane.clone(), config(&rig), Broken::Fails));
    let Ended::Stopped(Failed { code, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(code, Code::TransactionClosed);
}

/// The drain of a process waits for each of its roles.
#[test]
fn nobody_waits_for_a_role_that_panicked() {
    let rig = Rig::new(1);
    let stop = Shell::launch(rig.plane.clone(), config(&rig), Broken::Panics);
    assert!(catch_unwind(AssertUnwindSafe(|| rig.executor.run_for(SECOND))).is_err());
    joined(&rig, &stop);
}

/// A universe with a world that has work, and a worker in its shell.
fn begun(version: SchemaVersion) -> (Rig, WorldWorker<TestPlane>, Stop) {
    let rig = Rig::new(1);
    let setting = rig.clone();
    rig.executor.block_on(async move {
        setting.create(world_id(1)).await.unwrap();
        setting.send(world_id(1), vec![script_event("add n")]).await.unwrap();
        let mut tx = setting.plane.engine.begin().await.unwrap();
        tx.put(schema_version::key(setting.universe).as_bytes(), version.to_bytes().to_vec()).unwrap();
        tx.commit().await.unwrap();
    });
    let (metrics, first_cycles) = (Arc::new(Metrics::default()), Arc::default());
    let config_of_worker = WorkerConfig::new(rig.universe, id(1));
    let worker = WorldWorker::new(rig.plane.clone(), config_of_worker, Calls::default(), metrics, first_cycles);
    let stop = Shell::launch(rig.plane.clone(), config(&rig), worker.clone());
    rig.executor.run_for(SECOND);
    (rig, worker, stop)
}

#[test]
fn a_world_worker_takes_nothing_of_a_universe_of_another_version() {
    let version = SchemaVersion { major: SchemaVersion::CURRENT.major + 1, ..SchemaVersion::CURRENT };
    let (rig, worker, stop) = begun(version);
    assert_eq!(worker.worlds(), []);
    assert!(matches!(joined(&rig, &stop), Ended::Stopped(Failed { code: Code::SchemaMismatch, .. })));
}

#[test]
fn a_world_worker_drains_or_stops_as_its_shell_is_told_to() {
    let (rig, worker, stop) = begun(SchemaVersion::CURRENT);
    assert_eq!(worker.worlds(), [world_id(1)]);
    stop.request_drain();
    assert_eq!((joined(&rig, &stop), worker.worlds()), (Ended::Asked, vec![]));

    let (rig, worker, stop) = begun(SchemaVersion::CURRENT);
    stop.request_stop();
    assert_eq!((joined(&rig, &stop), worker.worlds()), (Ended::Asked, vec![world_id(1)]), "nothing was released");

    let (rig, worker, stop) = begun(SchemaVersion::CURRENT);
    worker.stop();
    assert_eq!(joined(&rig, &stop), Ended::Asked, "a command from its mailbox");
}
