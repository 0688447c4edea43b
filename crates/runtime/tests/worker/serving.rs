//! Worlds run when something arrives, none starves the others, and callers get their replies.

use crate::{SECOND, hints, rig_with, send, start, start_with, taken_of};
use mundi_engine::Engine;
use mundi_model::record::{InboxItem, Origin, ReplyOutcome};
use mundi_runtime::{
    calls::Calls,
    metrics::{Metric, Timing},
    testing::{call, script_event},
    world::CycleBudget,
};
use mundi_store::{Clock, protocol::NewItem, testing::world_id};

#[test]
fn worlds_run_when_something_arrives_and_settle_when_nothing_is_left() {
    let rig = rig_with(1, 20);
    let running = start(&rig, 1);
    (0..20).for_each(|world| send(&rig, world, 3));
    rig.executor.run_for(SECOND);
    for world in 0..20 {
        assert_eq!(taken_of(&rig, world), 3);
    }
    assert_eq!(hints(&rig), 0);
    assert_eq!(running.worker.worlds().len(), 20);
}

#[test]
fn a_hot_world_does_not_starve_the_others() {
    let rig = rig_with(2, 11);
    send(&rig, 0, 1_000);
    (1..11).for_each(|world| send(&rig, world, 1));
    let running = start_with(&rig, 1, |config| {
        config.runners = 1;
        config.cycle = CycleBudget { items_max: 10, wall_ms_max: 0, ..CycleBudget::default() };
    });
    while running.worker.metrics().get(Metric::Turns) < 30 {
        assert!(rig.executor.poll_one());
    }
    running.worker.stop();
    rig.executor.run_for(SECOND);
    (1..11).for_each(|world| assert_eq!(taken_of(&rig, world), 1, "world {world} waited too long"));
    assert!(taken_of(&rig, 0) < 500);
}

#[test]
fn a_caller_gets_the_reply_of_the_turn_and_may_come_back_for_it() {
    let rig = rig_with(3, 1);
    let running = start(&rig, 1);
    let (asking, calls, world) = (rig.clone(), running.calls.clone(), world_id(0));
    let answer = rig.executor.block_on(async move {
        let place = asking.enqueue(world, vec![call("reply hello")]).await.unwrap()[0].seq.into();
        let first = calls.reply(&asking.plane, asking.universe, (world, place), false, SECOND).await.unwrap();
        let again =
            Calls::default().reply(&asking.plane, asking.universe, (world, place), false, SECOND).await.unwrap();
        assert_eq!(first, again);
        let silent = asking.enqueue(world, vec![call("add n")]).await.unwrap()[0].seq.into();
        let timeout = calls.reply(&asking.plane, asking.universe, (world, silent), false, SECOND).await.unwrap_err();
        assert_eq!(mundi_model::Coded::code(&timeout), mundi_model::Code::CallTimeout);
        first
    });
    assert!(matches!(answer, ReplyOutcome::Ok(_)));
}

#[test]
fn a_world_that_is_behind_says_by_how_much_until_it_has_caught_up() {
    let rig = rig_with(17, 1);
    let running = start_with(&rig, 1, |config| {
        config.cycle = CycleBudget { items_max: 1, wall_ms_max: 0, ..CycleBudget::default() };
    });
    let origin = |enqueued_at_ns| Origin::new(enqueued_at_ns);
    rig.executor.run_for(SECOND);
    let sent_ns = rig.executor.now_ns() - 9;
    let item =
        move |_| NewItem { item: InboxItem { input: script_event("add n"), origin: origin(sent_ns) }, dedupe: None };
    let (sending, worker) = (rig.clone(), running.worker.clone());
    rig.executor.block_on(async move {
        sending.enqueue(world_id(0), (0..50).map(item).collect()).await.unwrap();
        let mut polls = 0;
        while worker.inbox_age_ns(world_id(0)) != 9 {
            polls += 1;
            assert!(polls < 1_000_000, "it never fell behind");
            sending.plane.engine.begin().await.unwrap(); // lets the others go on
        }
    });
    rig.executor.run_for(SECOND);
    assert_eq!((running.worker.inbox_age_ns(world_id(0)), taken_of(&rig, 0)), (0, 50));
    let times = running.worker.metrics().times(Timing::InboxToJournal);
    assert_eq!((times.count(), times.counts[0]), (50, 50), "each item is timed once");
}
