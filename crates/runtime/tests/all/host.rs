//! One world in memory: turns, snapshots, fail-over, and a crash at every await.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_engine::Engine;
use mundi_kernel::{
    Registry,
    program::{Event, Failure, Program, View},
};
use mundi_model::{
    Code, Coded, Hash, WorkerId, WorldId,
    record::{Input, Payload, ReplyOutcome},
};
use mundi_runtime::{
    RuntimeError,
    testing::{Rig, Script, TestPlane, call, cell, control, script_event, taken},
    world::{CycleBudget, Progress, WorldHost},
};
use mundi_store::{
    Fence,
    keyspace::{QueueShard, Shard, effect_pending, reply},
    protocol::ReleaseLease,
    testing::{Trouble, engine_contents, world_id},
};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

fn worker(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

fn budget() -> CycleBudget {
    CycleBudget::default()
}

/// Runs a test against a fresh rig with one world.
fn with_world<V: Send + 'static, F: Future<Output = V> + Send + 'static>(test: impl FnOnce(Rig, WorldId) -> F) -> V {
    let rig = Rig::new(1);
    let (executor, world) = (rig.executor.clone(), world_id(1));
    let creating = rig.clone();
    executor.block_on(async move { creating.create(world).await.unwrap() });
    executor.block_on(test(rig, world))
}

async fn host(rig: &Rig, world: WorldId, n: u64) -> WorldHost<TestPlane> {
    let fence = rig.acquire(world, worker(n)).await.unwrap();
    WorldHost::restore(rig.plane.clone(), fence).await.unwrap()
}

#[test]
fn a_turn_takes_everything_that_waits_in_one_transaction() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        rig.send(world, (0..100).map(|n| script_event(&format!("put k{n} v"))).collect()).await.unwrap();
        let before = rig.plane.engine.counts().commits;
        let progress = host.turn(&budget()).await.unwrap();
        assert!(matches!(progress, Progress::Moved { items: 100, more: false, .. }), "{progress:?}");
        let commits = rig.plane.engine.counts().commits - before;
        assert_eq!(commits, 2, "one to read and one to write, not one per event");
        assert_eq!(taken(&mut host).await.unwrap(), 100);
        assert_eq!(host.turn(&budget()).await.unwrap(), Progress::Idle);
    });
}

/// A program that counts its steps.
struct Counting(Arc<AtomicUsize>);

impl Program for Counting {
    fn handle(&self, host: &mut dyn mundi_kernel::program::Host, event: &Event<'_>) -> Result<(), Failure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Script.handle(host, event)
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        Script.query(view, name, params)
    }
}

/// A turn of n large events took some n²/2 steps: it began again for each payload that was not in memory.
#[test]
fn payloads_in_the_content_store_make_no_step_of_a_turn_run_twice() {
    with_world(|rig, world| async move {
        let steps = Arc::new(AtomicUsize::new(0));
        let mut registry = Registry::new();
        registry.register_native("script", 1, Counting(steps.clone()));
        let fence = rig.acquire(world, worker(1)).await.unwrap();
        let plane = TestPlane { registry: Arc::new(registry), ..rig.plane.clone() };
        let mut host = WorldHost::restore(plane, fence).await.unwrap();

        let event = |n: usize, bytes: usize| script_event(&format!("put k{n} {}", "v".repeat(bytes)));
        rig.send(world, (0..40).map(|n| event(n, 20_000)).collect()).await.unwrap();
        let progress = host.turn(&budget()).await.unwrap();
        assert!(matches!(progress, Progress::Moved { items: 40, more: false, .. }), "{progress:?}");
        assert_eq!(steps.swap(0, Ordering::SeqCst), 40);

        // What is read before a turn is bounded: the rest waits for the next one.
        for n in 0..40 {
            rig.send(world, vec![event(n, 1_000_000)]).await.unwrap();
        }
        let cycled = host.cycle(&CycleBudget { wall_ms_max: u64::MAX, ..budget() }, |_| {}).await.unwrap();
        assert_eq!((cycled.items, cycled.more), (40, false));
        assert!(cycled.turns >= 3, "{cycled:?}");
        assert_eq!(steps.swap(0, Ordering::SeqCst), 40);
    });
}

/// The resume stands behind more bytes than one turn reads: a world that left it out would wait for ever.
#[test]
fn a_paused_world_finds_its_resume_behind_large_payloads() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        rig.send(world, vec![control("pause")]).await.unwrap();
        host.turn(&budget()).await.unwrap();
        for n in 0..20 {
            let event = script_event(&format!("put k{n} {}", "v".repeat(1_000_000)));
            rig.send(world, vec![event]).await.unwrap();
        }
        assert_eq!(host.turn(&budget()).await.unwrap(), Progress::Idle);
        rig.send(world, vec![control("resume")]).await.unwrap();
        host.cycle(&CycleBudget { wall_ms_max: u64::MAX, ..budget() }, drop).await.unwrap();
        assert_eq!((host.is_paused(), taken(&mut host).await.unwrap()), (false, 20));
    });
}

/// The four budgets of a cycle (R-WORKER-2): each ends a turn, or the cycle, although items are left.
#[test]
fn each_budget_of_a_cycle_is_kept() {
    let cycled = |script: &'static str, budget: CycleBudget| {
        with_world(move |rig, world| async move {
            let mut host = host(&rig, world, 1).await;
            let events = (0..4).map(|n| script_event(&script.replace('?', &n.to_string()))).collect();
            rig.send(world, events).await.unwrap();
            let cycled = host.cycle(&budget, |_| {}).await.unwrap();
            (cycled.turns, cycled.items, cycled.more)
        })
    };
    let one = CycleBudget { items_max: 1, ..budget() };
    assert_eq!(cycled("add n", budget()), (1, 4, false));
    assert_eq!(cycled("add n", one), (4, 4, false));
    assert_eq!(cycled("add n", CycleBudget { steps_max: 1, ..budget() }), (4, 4, false));
    assert_eq!(cycled("emit e?", budget()), (1, 4, false));
    assert_eq!(cycled("emit e?", CycleBudget { effects_max: 2, ..budget() }), (2, 4, false));
    assert_eq!(cycled("timer t? 5", CycleBudget { effects_max: 1, ..budget() }), (4, 4, false));
    assert_eq!(cycled("add n", CycleBudget { wall_ms_max: 0, ..one }), (1, 1, true));
}

/// Worker A loses its lease; worker B ends where A would have.
#[test]
fn another_worker_continues_byte_for_byte() {
    with_world(|rig, world| async move {
        let mut a = host(&rig, world, 1).await;
        rig.send(world, vec![script_event("put a 1"), script_event("add n\nemit e1")]).await.unwrap();
        a.turn(&budget()).await.unwrap();
        a.snapshot().await.unwrap().unwrap();
        rig.send(world, vec![script_event("add n\ntimer t 5")]).await.unwrap();
        a.turn(&budget()).await.unwrap();
        rig.plane.clock.sleep(Duration::from_secs(21)).await;
        let mut b = host(&rig, world, 2).await;
        assert_eq!((a.head(), a.chain()), (b.head(), b.chain()));
        for key in ["a", "n", "trail", "taken"] {
            assert_eq!(cell(&mut a, key).await.unwrap(), cell(&mut b, key).await.unwrap());
        }
        rig.send(world, vec![script_event("add n")]).await.unwrap();
        let fenced = a.turn(&budget()).await.unwrap_err();
        assert!(fenced.is_fenced(), "{fenced}");
        assert!(matches!(b.turn(&budget()).await.unwrap(), Progress::Moved { items: 1, .. }));
        assert_eq!(taken(&mut b).await.unwrap(), 4);
    });
}

/// Once a released lease began again at epoch 1, and old tokens lived again.
#[test]
fn a_released_fence_is_dead_for_good() {
    with_world(|rig, world| async move {
        let mut old = host(&rig, world, 1).await;
        rig.plane.run_release(old.fence()).await;
        rig.send(world, vec![script_event("add n")]).await.unwrap();
        assert_eq!(old.turn(&budget()).await.unwrap_err().code(), Code::LeaseFenced);
        let new = host(&rig, world, 1).await;
        assert!(new.fence().epoch > old.fence().epoch);
        assert_eq!(old.snapshot().await.unwrap(), None);
        assert_eq!(old.turn(&budget()).await.unwrap_err().code(), Code::LeaseFenced);
    });
}

trait Release {
    async fn run_release(&self, fence: Fence);
}

impl Release for TestPlane {
    async fn run_release(&self, fence: Fence) {
        use mundi_runtime::Plane;
        self.run(&ReleaseLease { fence, active_at_ns: None }).await.unwrap();
    }
}

/// Once intents were published after the commit, in another transaction.
#[test]
fn an_intent_is_published_by_the_commit_that_journals_it() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        rig.send(world, vec![script_event("emit one\nemit two")]).await.unwrap();
        host.turn(&budget()).await.unwrap();
        let mut pending = 0;
        for shard in Shard::all() {
            let mut tx = rig.plane.engine.begin().await.unwrap();
            let span = effect_pending::from(rig.universe, QueueShard::new("http", shard), None);
            let read = mundi_engine::RangeRead::new(span.start.as_bytes().to_vec(), span.end.as_bytes().to_vec(), 10);
            pending += mundi_engine::Transaction::range(&mut tx, read).await.unwrap().items.len();
        }
        assert_eq!(pending, 2);
    });
}

#[test]
fn a_bad_item_is_rejected_and_its_sender_learns_why() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        let lost = Payload::Blob(Hash::of(b"never stored"), 9);
        let bad = vec![
            Input::Event { schema: "unheard of".into(), value: Payload::Inline(vec![0xf6]), key: None },
            Input::Event { schema: "script".into(), value: lost, key: None },
            control("nonsense"),
            script_event("reply fine"),
        ];
        let places = rig.send(world, bad).await.unwrap();
        let progress = host.turn(&budget()).await.unwrap();
        assert!(matches!(progress, Progress::Moved { items: 4, .. }), "{progress:?}");
        let mut codes = Vec::new();
        for place in places {
            let mut tx = rig.plane.engine.begin().await.unwrap();
            let stored = reply::read(&mut tx, rig.universe, world, place.seq).await.unwrap().unwrap();
            codes.push(match stored.outcome {
                ReplyOutcome::Ok(_) => "ok".to_owned(),
                ReplyOutcome::Failed(code, ..) => code,
            });
        }
        assert_eq!(codes, ["EVENT_INVALID", "OBJECT_MISSING", "CONTROL_INVALID", "ok"]);
        assert_eq!(taken(&mut host).await.unwrap(), 1);
    });
}

#[test]
fn a_paused_world_finds_its_resume_behind_everything_that_waits() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        let few = CycleBudget { items_max: 5, ..budget() };
        rig.send(world, vec![control("pause")]).await.unwrap();
        host.turn(&few).await.unwrap();
        assert!(host.is_paused());
        rig.send(world, (0..23).map(|_| script_event("add n")).collect()).await.unwrap();
        assert_eq!(host.turn(&few).await.unwrap(), Progress::Idle);
        rig.send(world, vec![control("resume")]).await.unwrap();
        let cycled = host.cycle(&CycleBudget { wall_ms_max: 1_000, ..few }, |_| {}).await.unwrap();
        assert!(!host.is_paused() && !cycled.more, "{cycled:?}");
        while host.turn(&few).await.unwrap() != Progress::Idle {}
        assert_eq!(taken(&mut host).await.unwrap(), 23);
    });
}

/// Found by the simulator: a command that was taken ahead hid those behind it, and the world slept forever.
#[test]
fn a_paused_world_finds_its_resume_behind_commands_that_it_has_taken() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        let few = CycleBudget { items_max: 2, ..budget() };
        rig.send(world, vec![control("pause")]).await.unwrap();
        host.turn(&few).await.unwrap();
        rig.send(world, vec![script_event("add n"), control("pause"), control("pause")]).await.unwrap();
        while host.turn(&few).await.unwrap() != Progress::Idle {}
        rig.send(world, vec![script_event("add n"), control("resume")]).await.unwrap();
        while host.turn(&few).await.unwrap() != Progress::Idle {}
        assert!(!host.is_paused());
        assert_eq!(taken(&mut host).await.unwrap(), 2);

        // What waits behind a command that was taken ahead is not passed over with it.
        let one = CycleBudget { items_max: 1, ..budget() };
        let wait =
            [control("pause"), script_event("add n"), control("resume"), control("pause"), script_event("add n")];
        rig.send(world, wait.to_vec()).await.unwrap();
        while host.turn(&one).await.unwrap() != Progress::Idle {}
        rig.send(world, vec![control("resume")]).await.unwrap();
        while host.turn(&one).await.unwrap() != Progress::Idle {}
        assert_eq!((host.is_paused(), taken(&mut host).await.unwrap()), (false, 4));
    });
}

/// Found by the simulator: a page that already held a command was taken for the whole inbox, and the world was suspended.
#[test]
fn a_resume_with_more_than_a_page_behind_it_leaves_nothing_waiting() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        let few = CycleBudget { items_max: 2, wall_ms_max: 1_000, ..budget() };
        rig.send(world, vec![control("pause")]).await.unwrap();
        host.turn(&few).await.unwrap();
        let mut wait = vec![control("resume")];
        wait.extend((0..5).map(|_| script_event("add n")));
        rig.send(world, wait).await.unwrap();
        let cycled = host.cycle(&few, drop).await.unwrap();
        assert_eq!((cycled.items, cycled.more), (6, false));
        assert_eq!(taken(&mut host).await.unwrap(), 5);
    });
}

/// A command that was found beyond the first page was taken for the last one.
#[test]
fn a_resume_behind_another_command_and_pages_of_events_is_found_in_the_same_cycle() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        let few = CycleBudget { items_max: 2, wall_ms_max: 1_000, ..budget() };
        rig.send(world, vec![control("pause")]).await.unwrap();
        host.turn(&few).await.unwrap();
        let events = |count| (0..count).map(|_| script_event("add n"));
        let mut wait: Vec<_> = events(5).collect();
        wait.push(control("pause"));
        wait.extend(events(5));
        wait.push(control("resume"));
        wait.extend(events(3));
        rig.send(world, wait).await.unwrap();
        let cycled = host.cycle(&few, drop).await.unwrap();
        assert_eq!((host.is_paused(), cycled.more), (false, false));
        assert_eq!(taken(&mut host).await.unwrap(), 13);
    });
}

/// Commands that a paused world could not take were never looked at again, and it could not be resumed.
#[test]
fn a_paused_world_with_more_commands_than_it_takes_ahead_is_resumed() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        let page = CycleBudget { items_max: 100, wall_ms_max: 10_000, ..budget() };
        rig.send(world, vec![control("pause"), script_event("add n")]).await.unwrap();
        host.cycle(&page, drop).await.unwrap();
        for _ in 0..11 {
            rig.send(world, vec![control("pause"); 100]).await.unwrap();
        }
        let cycled = host.cycle(&page, drop).await.unwrap();
        assert_eq!((cycled.items, cycled.more), (0, false), "the list is full, and the world rests");
        rig.send(world, vec![control("resume")]).await.unwrap();
        host.cycle(&page, drop).await.unwrap();
        assert_eq!(taken(&mut host).await.unwrap(), 1, "it was resumed");
        assert!(host.is_paused(), "by the commands for which there was no room");
        rig.send(world, vec![control("resume"), script_event("add n")]).await.unwrap();
        host.cycle(&page, drop).await.unwrap();
        assert_eq!((host.is_paused(), taken(&mut host).await.unwrap()), (false, 2));
    });
}

#[test]
fn a_large_payload_is_fetched_when_the_kernel_asks_for_it() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        let script = format!("put big {}", "x".repeat(40_000));
        rig.send(world, vec![script_event(&script), script_event("fill large 9000")]).await.unwrap();
        host.turn(&budget()).await.unwrap();
        host.snapshot().await.unwrap().unwrap();
        let mut again = WorldHost::restore(rig.plane.clone(), host.fence()).await.unwrap();
        assert_eq!(cell(&mut again, "big").await.unwrap().len(), 40_000);
        assert_eq!(cell(&mut again, "large").await.unwrap().len(), 9_000);
    });
}

#[test]
fn a_lost_cell_is_an_error_and_not_a_rejection() {
    with_world(|rig, world| async move {
        let mut host = host(&rig, world, 1).await;
        rig.send(world, vec![script_event("put a 1")]).await.unwrap();
        host.turn(&budget()).await.unwrap();
        let note = host.snapshot().await.unwrap().unwrap();
        let bytes = mundi_store::blob::Blobs::get(&rig.plane.blobs, rig.universe, note.snapshot).await.unwrap();
        let cells = mundi_kernel_snapshot(&bytes);
        let mut again = WorldHost::restore(rig.plane.clone(), host.fence()).await.unwrap();
        rig.plane.blobs.lose(rig.universe, cells);
        rig.send(world, vec![script_event("add n")]).await.unwrap();
        let error = again.turn(&budget()).await.unwrap_err();
        assert!(matches!(error, RuntimeError::ObjectLost { hash, .. } if hash == cells), "{error}");
    });
}

fn mundi_kernel_snapshot(bytes: &Bytes) -> Hash {
    mundi_kernel::snapshot::KernelSnapshot::from_bytes(bytes).unwrap().cells().unwrap()
}

/// The life of a world on a worker, from the first lease to the last.
async fn life(rig: Rig, world: WorldId, scripts: u64) -> Result<(), RuntimeError> {
    rig.create(world).await?;
    let fence = rig.acquire(world, worker(1)).await?;
    let mut host = WorldHost::restore(rig.plane.clone(), fence).await?;
    let sent = taken(&mut host).await?;
    for n in sent..scripts {
        let named = mundi_store::protocol::NewItem {
            dedupe: Some(mundi_store::keyspace::inbox_dedupe::DedupeId::idempotency_key(&n.to_string())),
            ..call(&format!("add n\nput k{n} v\nemit e{n}"))
        };
        rig.enqueue(world, vec![named]).await?;
        while host.turn(&budget()).await? != Progress::Idle {}
        if n % 2 == 1 {
            host.snapshot().await?;
        }
    }
    mundi_runtime::Plane::run(&rig.plane, &ReleaseLease { fence, active_at_ns: None }).await?;
    Ok(())
}

/// The task is dropped at every single await.
#[test]
fn a_crash_at_every_await_loses_nothing_and_repeats_nothing() {
    let (world, scripts) = (world_id(1), 4);
    let undisturbed = {
        let rig = Rig::new(1);
        rig.executor.block_on(life(rig.clone(), world, scripts)).unwrap();
        rig.executor.polls()
    };
    assert!(undisturbed > 100);
    for polls in 0..undisturbed {
        let rig = Rig::new(1);
        let node = rig.executor.node();
        let dying = rig.clone();
        mundi_runtime::Spawn::spawn(&node, Box::pin(async move { drop(life(dying, world, scripts).await) }));
        for _ in 0..polls {
            rig.executor.poll_one();
        }
        node.crash();
        let survivor = rig.clone();
        rig.executor.block_on(async move {
            life(survivor.clone(), world, scripts).await.unwrap();
            let mut host = host(&survivor, world, 1).await;
            assert_eq!(taken(&mut host).await.unwrap(), scripts, "after {polls} polls");
            let n = cell(&mut host, "n").await.unwrap();
            assert_eq!(u64::from_be_bytes(n.try_into().unwrap()), scripts, "after {polls} polls");
        });
    }
}

#[test]
fn the_same_life_leaves_the_same_bytes() {
    let run = || {
        let rig = Rig::new(1);
        rig.executor.block_on(life(rig.clone(), world_id(1), 5)).unwrap();
        let engine = rig.plane.engine.clone();
        rig.executor.block_on(async move { engine_contents(&engine).await.unwrap() })
    };
    assert_eq!(run(), run());
}

/// A commit is applied and nobody is notified, or not applied and nobody knows; at every commit of a life.
#[test]
fn a_commit_whose_answer_is_lost_is_neither_lost_nor_repeated() {
    let (world, scripts) = (world_id(1), 4);
    let operations = {
        let rig = Rig::new(1);
        rig.plane.engine.revive();
        rig.executor.block_on(life(rig.clone(), world, scripts)).unwrap();
        rig.plane.engine.operations()
    };
    assert!(operations > 50);
    for trouble in Trouble::ALL {
        for operation in 0..operations {
            let rig = Rig::new(1);
            rig.plane.engine.arm(operation, trouble);
            let _ = rig.executor.block_on(life(rig.clone(), world, scripts));
            rig.plane.engine.revive();
            let survivor = rig.clone();
            rig.executor.block_on(async move {
                life(survivor.clone(), world, scripts).await.unwrap();
                let mut host = host(&survivor, world, 1).await;
                assert_eq!(taken(&mut host).await.unwrap(), scripts, "{trouble:?} at {operation}");
            });
        }
    }
}
