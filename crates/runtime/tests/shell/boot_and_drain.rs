//! From the boot guard to the drain, and the shell of a world worker.

use crate::{Obedient, SECOND, config, dead_letters, id, send, start};
use mundi_engine::{Engine, Transaction};
use mundi_model::{Code, Coded};
use mundi_runtime::{
    calls::Calls,
    metrics::Metrics,
    shell::{Command, Policy, Report, Shell, ShellConfig, WorkerCommands, send_commands},
    testing::{Rig, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    Clock,
    keyspace::schema_version::{self, SchemaVersion},
    protocol::SchemaGuarded,
    testing::world_id,
};
use std::sync::Arc;

#[test]
fn the_guard_takes_matches_raises_or_refuses_a_marker() {
    let rig = Rig::new(1);
    let boot = |change: fn(&mut ShellConfig)| {
        let (plane, mut config) = (rig.plane.clone(), ShellConfig::new(rig.universe, id(1)));
        change(&mut config);
        let handler = Obedient { plane: plane.clone(), done: Arc::default() };
        let booted = async move { Shell::boot(plane, config, handler, Arc::default()).await.map(|(_, how)| how) };
        rig.executor.block_on(booted).map_err(|error| error.code())
    };
    assert_eq!(boot(|_| {}), Err(Code::SchemaMissing));
    assert_eq!(boot(|config| config.bootstrap = true), Ok(SchemaGuarded::Bootstrapped));
    assert_eq!(boot(|_| {}), Ok(SchemaGuarded::Matches));
    const NEXT: SchemaVersion = SchemaVersion { minor: SchemaVersion::CURRENT.minor + 1, ..SchemaVersion::CURRENT };
    assert_eq!(boot(|config| config.schema = NEXT), Err(Code::SchemaMismatch), "without leave nothing is raised");
    let raised = boot(|config| (config.schema, config.bootstrap) = (NEXT, true));
    assert_eq!(raised, Ok(SchemaGuarded::Raised));
    assert_eq!(boot(|config| config.bootstrap = true), Err(Code::SchemaMismatch), "what is newer is refused");
    assert_eq!(boot(|config| config.schema = SchemaVersion { major: 9, minor: 9 }), Err(Code::SchemaMismatch));
    let spoiling = rig.clone();
    rig.executor.block_on(async move {
        let mut tx = spoiling.plane.engine.begin().await.unwrap();
        tx.put(schema_version::key(spoiling.universe).as_bytes(), "nonsense".to_owned()).unwrap();
        tx.commit().await.unwrap();
    });
    assert_eq!(boot(|config| config.bootstrap = true), Err(Code::SchemaMismatch));
}

#[test]
fn a_timer_fires_at_its_time_and_the_shell_sleeps_until_then() {
    let rig = Rig::new(1);
    let (_stop, done, _) = start(&rig, Report::new());
    let now_ns = rig.executor.now_ns();
    send(&rig, &[(now_ns + 7_000_000_000, "later"), (0, "now")]);
    rig.executor.run_for(SECOND);
    let polls = rig.executor.polls();
    rig.executor.run_for(SECOND * 5);
    assert_eq!((done.lock().clone(), rig.executor.polls()), (vec!["now".to_owned()], polls), "nothing polls");
    rig.executor.run_for(SECOND * 2);
    assert_eq!(*done.lock(), ["now", "later"]);
}

#[test]
fn a_drain_finishes_what_is_due_and_a_crash_repeats_it() {
    let rig = Rig::new(1);
    let (stop, done, _) = start(&rig, Report::new());
    send(&rig, &[(0, "a"), (0, "b"), (u64::MAX, "never")]);
    stop.request_drain();
    rig.executor.block_on(async move { stop.join().await });
    assert_eq!(*done.lock(), ["a", "b"]);
    let node = rig.executor.node();
    let crashing = Rig { plane: rig.on(&node), ..rig.clone() };
    let (_stop, first, _) = start(&crashing, Report::new());
    send(&rig, &[(0, "slow")]);
    rig.executor.run_for(SECOND / 2);
    node.crash();
    let (_stop, second, _) = start(&rig, Report::new());
    rig.executor.run_for(SECOND * 10);
    assert!(first.lock().len() == 1 && !second.lock().is_empty() && dead_letters(&rig).is_empty());
    assert_eq!(Policy::default().retry_budget_max, 4);
}

#[test]
fn commands_reach_a_world_worker_through_its_mailbox() {
    let rig = Rig::new(1);
    let creating = rig.clone();
    rig.executor.block_on(async move {
        creating.create(world_id(1)).await.unwrap();
        creating.send(world_id(1), vec![script_event("add n")]).await.unwrap();
    });
    let worker_config = WorkerConfig::new(rig.universe, id(1));
    let worker = WorldWorker::start(rig.plane.clone(), worker_config, Calls::default(), Arc::new(Metrics::default()));
    let handler = WorkerCommands { plane: rig.plane.clone(), worker: worker.clone() };
    let (plane, config) = (rig.plane.clone(), config(&rig));
    let shell =
        rig.executor.block_on(async move { Shell::boot(plane, config, handler, Arc::default()).await.unwrap().0 });
    let _stop = shell.start();
    rig.executor.run_for(SECOND);
    assert_eq!(worker.worlds(), [world_id(1)]);
    let commanding = rig.clone();
    rig.executor.block_on(async move {
        send_commands(&commanding.plane, commanding.universe, id(1), &[Command::Revoke(world_id(1))]).await.unwrap();
    });
    rig.executor.run_for(SECOND);
    assert_eq!(worker.worlds(), []);
    let commanding = rig.clone();
    rig.executor.block_on(async move {
        send_commands(&commanding.plane, commanding.universe, id(1), &[Command::Drain]).await.unwrap();
    });
    rig.executor.run_for(SECOND);
    worker.wake(world_id(1));
    rig.executor.run_for(SECOND);
    assert_eq!(worker.worlds(), [], "a drained worker takes nothing");
}
