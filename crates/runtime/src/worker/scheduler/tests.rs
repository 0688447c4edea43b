//! The order in which worlds get turns, and the fate of items that wait.

use super::*;
use crate::delivery::local::{Acknowledgement, Awaits, Taken};
use futures_util::FutureExt;
use mundi_model::{
    Epoch, InboxSeq, UniverseId,
    record::{InboxItem, Input, Origin, Payload},
};
use mundi_store::testing::world_id;
use std::{pin::pin, sync::Arc};

const ITEMS_MAX: usize = 4;

fn fence(world: WorldId, epoch: u64) -> Fence {
    Fence { universe: UniverseId::from_bytes([1; 16]), world, epoch: Epoch::new(epoch).unwrap() }
}

fn resident(scheduler: &mut Scheduler<u8>, world: WorldId, bytes: usize, now_ns: u64) {
    scheduler.wake(world, now_ns);
    while scheduler.next().is_some_and(|job| job.world != world) {}
    scheduler.leased(fence(world, 1), now_ns);
    scheduler.put_back(world, 0, bytes, After::Settled, now_ns).unwrap();
}

#[test]
fn a_hot_world_waits_for_all_others() {
    let mut scheduler = Scheduler::<u8>::default();
    let worlds: Vec<_> = (0..4).map(world_id).collect();
    worlds.iter().for_each(|world| assert!(scheduler.wake(*world, 0)));
    assert!(!scheduler.wake(worlds[0], 0), "once in the queue is enough");
    let mut order = Vec::new();
    for _ in 0..8 {
        let job = scheduler.next().unwrap();
        order.push(job.world);
        scheduler.put_back(job.world, 0, 1, After::More, 0).unwrap();
    }
    assert_eq!(order[..4], worlds);
    assert_eq!(order[4..], worlds);
}

#[test]
fn the_best_priority_goes_first_and_the_last_one_is_never_forgotten() {
    let mut scheduler = Scheduler::<u8>::default();
    (0..3).for_each(|n| assert!(scheduler.hint(world_id(n), 128, 0)));
    (3..5).for_each(|n| assert!(scheduler.hint(world_id(n), 1, 0)));
    assert!(!scheduler.hint(world_id(0), 1, 0), "it waits already");
    let mut picked = Vec::new();
    for _ in 0..32 {
        let job = scheduler.next().unwrap();
        picked.push(job.world);
        scheduler.put_back(job.world, 0, 1, After::More, 0).unwrap();
    }
    assert_eq!(picked[..4], [3, 4, 3, 4].map(world_id));
    let normal = picked.iter().filter(|world| **world == world_id(1) || **world == world_id(2)).count();
    assert_eq!(normal, 3, "one pick in eight, and the one that rose went with the others");
    assert!(picked.contains(&world_id(0)));
}

#[test]
fn what_arrives_during_a_cycle_leads_to_another_one() {
    let mut scheduler = Scheduler::<u8>::default();
    scheduler.wake(world_id(1), 0);
    let job = scheduler.next().unwrap();
    scheduler.wake(job.world, 0);
    assert!(scheduler.next().is_none(), "a world has one runner only");
    scheduler.put_back(job.world, 0, 1, After::Settled, 0).unwrap();
    assert_eq!(scheduler.next().unwrap().world, job.world);
}

#[test]
fn a_lost_lease_takes_the_memory_with_it() {
    let (mut scheduler, world) = (Scheduler::<u8>::default(), world_id(1));
    resident(&mut scheduler, world, 1, 0);
    assert!(!scheduler.lose(fence(world, 2)), "another epoch is another lease");
    assert!(scheduler.lose(fence(world, 1)) && scheduler.is_empty());
    scheduler.wake(world, 0);
    scheduler.next().unwrap();
    scheduler.leased(fence(world, 3), 0);
    assert!(scheduler.lose(fence(world, 3)));
    assert_eq!(scheduler.put_back(world, 7, 1, After::Settled, 0), Err(7));
    assert!(scheduler.is_empty());
}

/// Once it was forgotten: its hint had been seen, and so nobody looked again before the next one came.
#[test]
fn a_world_that_waits_or_runs_when_its_lease_is_lost_is_looked_at_again() {
    let (mut scheduler, world) = (Scheduler::<u8>::default(), world_id(1));
    resident(&mut scheduler, world, 1, 0);
    assert!(scheduler.wake(world, 1), "something arrived");
    assert!(scheduler.lose(fence(world, 1)) && scheduler.next().is_none());
    assert!(scheduler.next_later_ns().is_some() && scheduler.wake_later(2));
    assert!(scheduler.next().unwrap().is_doubtful, "perhaps someone else has it");
    scheduler.leased(fence(world, 2), 2);
    assert!(scheduler.lose(fence(world, 2)));
    assert_eq!(scheduler.put_back(world, 7, 1, After::More, 3), Err(7));
    assert!(scheduler.wake_later(3) && !scheduler.insist(world, 3), "it waits already");
    assert!(!scheduler.next().unwrap().is_doubtful, "someone asked for it");
}

#[test]
fn the_least_recently_used_goes_first_and_the_busy_stay() {
    let mut scheduler = Scheduler::<u8>::default();
    (1..=4).for_each(|n| resident(&mut scheduler, world_id(n), 10, n));
    scheduler.wake(world_id(1), 5);
    assert_eq!(scheduler.release_surplus(5, 100, 25, 4), 2, "two of four are too many, and one of them is busy");
    assert_eq!(scheduler.release_surplus(102, 100, 1_000, 4), 0, "released already");
    let order: Vec<_> = std::iter::from_fn(|| scheduler.next()).map(|job| (job.world, job.release)).collect();
    assert_eq!(order, [(world_id(1), false), (world_id(2), true), (world_id(3), true)]);
}

#[test]
fn worlds_that_rest_make_room_and_those_that_do_not_refuse_others() {
    let mut scheduler = Scheduler::<u8>::default();
    (1..=2).for_each(|n| resident(&mut scheduler, world_id(n), 1, n));
    scheduler.wake(world_id(3), 5);
    assert_eq!(scheduler.next().unwrap().world, world_id(3));
    assert!(scheduler.admit(world_id(3), 2), "both others rest");
    scheduler.leased(fence(world_id(3), 1), 5);
    scheduler.put_back(world_id(3), 0, 1, After::Active, 5).unwrap();
    assert_eq!((scheduler.residents(), scheduler.busy()), (3, 1));
    assert_eq!(scheduler.release_surplus(5, 100, 1_000, 2), 1, "the one that rests longest goes");
    scheduler.wake(world_id(2), 6);
    scheduler.wake(world_id(4), 6);
    let order: Vec<_> = std::iter::from_fn(|| scheduler.next()).map(|job| (job.world, job.release)).collect();
    assert_eq!(order, [(world_id(1), true), (world_id(2), false), (world_id(4), false)]);
    scheduler.forget(world_id(1), None);
    assert!(!scheduler.admit(world_id(4), 2), "two are busy");
    assert!(scheduler.admit(world_id(4), 3));
    scheduler.forget(world_id(4), Some(100));
    assert_eq!((scheduler.residents(), scheduler.busy()), (2, 2));
}

#[test]
fn a_world_that_could_not_be_had_is_tried_later_unless_someone_insists() {
    let (mut scheduler, world) = (Scheduler::<u8>::default(), world_id(1));
    scheduler.wake(world, 0);
    scheduler.next().unwrap();
    scheduler.forget(world, Some(100));
    assert_eq!(
        (scheduler.wake(world, 99), scheduler.next_later_ns(), scheduler.failures(world)),
        (false, Some(100), 1)
    );
    assert!(scheduler.wake_later(100));
    scheduler.next().unwrap();
    scheduler.forget(world, Some(300));
    assert_eq!(scheduler.failures(world), 2);
    assert!(scheduler.insist(world, 101));
    scheduler.next().unwrap();
    scheduler.put_back(world, 0, 1, After::Settled, 0).unwrap();
    assert_eq!(scheduler.failures(world), 0);
}

fn offer(scheduler: &mut Scheduler<u8>, world: WorldId) -> Acknowledgement {
    let input = Input::Event { schema: "add".to_owned(), value: Payload::Inline(vec![]), key: None };
    let origin = Origin::new(0);
    let item = Arc::new(InboxItem { input, origin });
    scheduler.offer(world, &item, Awaits::Record, Activation::ResidentOnly).unwrap().acknowledgement
}

fn is_given_back(wait: Acknowledgement) -> bool {
    matches!(wait.taken().now_or_never(), Some(Ok(None)))
}

#[test]
fn what_waits_for_too_many_rounds_is_given_back() {
    let (mut scheduler, busy, free) = (Scheduler::<u8>::default(), world_id(0), world_id(1));
    [busy, free].iter().for_each(|world| resident(&mut scheduler, *world, 1, 0));
    scheduler.wake(busy, 0);
    scheduler.next().unwrap();
    assert!(!scheduler.end_round(2));
    let (early, taken) = (offer(&mut scheduler, busy), offer(&mut scheduler, free));
    assert_eq!(scheduler.next().unwrap().world, free);
    let direct = scheduler.take_items(free, ITEMS_MAX);
    assert_eq!(direct.len(), 1);
    assert!(scheduler.end_round(2));
    let late = offer(&mut scheduler, busy);
    let again = offer(&mut scheduler, free);
    assert!(scheduler.end_round(2));
    assert!(scheduler.end_round(2), "the other one has not waited as long");
    assert!(is_given_back(early) && is_given_back(late), "who comes later waits with the first");
    assert!(!scheduler.end_round(2) && is_given_back(again));
    scheduler.put_back(busy, 0, 1, After::Active, 0).unwrap();
    assert!(scheduler.take_items(busy, ITEMS_MAX).is_empty(), "they went another way");
    let (seq, mut taken) = (InboxSeq::direct(1, 0), pin!(taken.taken()));
    assert!((&mut taken).now_or_never().is_none(), "a turn has it, and its sender waits on");
    direct.into_iter().for_each(|direct| direct.ticket.taken(Taken { seq, reply: None }));
    assert_eq!(taken.now_or_never().unwrap().unwrap().map(|taken| taken.seq), Some(seq));
}

#[test]
fn a_cycle_gets_what_one_turn_takes_and_the_rest_waits_for_the_next() {
    let (mut scheduler, world) = (Scheduler::<u8>::default(), world_id(0));
    resident(&mut scheduler, world, 1, 0);
    let _waits: Vec<_> = (0..ITEMS_MAX + 1).map(|_| offer(&mut scheduler, world)).collect();
    assert!(scheduler.next().is_some());
    assert_eq!(scheduler.take_items(world, ITEMS_MAX).len(), ITEMS_MAX);
    scheduler.put_back(world, 0, 1, After::Active, 0).unwrap();
    assert!(scheduler.next().is_some());
    assert_eq!(scheduler.take_items(world, ITEMS_MAX).len(), 1);
    scheduler.put_back(world, 0, 1, After::Active, 0).unwrap();
    assert!(scheduler.next().is_none());
}

#[test]
fn an_item_for_a_world_that_is_not_held_waits_until_it_is_open_or_goes_back() {
    let (mut scheduler, world) = (Scheduler::<u8>::default(), world_id(0));
    let item = Arc::new(InboxItem {
        input: Input::Event { schema: "add".to_owned(), value: Payload::Inline(vec![]), key: None },
        origin: Origin::new(0),
    });
    assert!(scheduler.offer(world, &item, Awaits::Record, Activation::ResidentOnly).is_none(), "it is not held");
    let first = scheduler.offer(world, &item, Awaits::Record, Activation::AtOnce { now_ns: 0 }).unwrap();
    assert!(first.woken && first.is_first);
    assert!(scheduler.next().is_some_and(|job| job.host.is_none()));
    let second = scheduler.offer(world, &item, Awaits::Record, Activation::AtOnce { now_ns: 0 }).unwrap();
    assert!(!second.woken, "a runner has it");
    scheduler.leased(fence(world, 1), 0);
    assert_eq!(scheduler.take_items(world, ITEMS_MAX).len(), 2);
    scheduler.put_back(world, 0, 1, After::Active, 0).unwrap();
    scheduler.lose(fence(world, 1));
    assert!(scheduler.wake_later(0) && scheduler.next().is_some());
    let third = scheduler.offer(world, &item, Awaits::Record, Activation::AtOnce { now_ns: 0 }).unwrap();
    scheduler.forget(world, Some(100));
    assert!(is_given_back(third.acknowledgement), "it could not be had");
    assert!(
        scheduler.offer(world, &item, Awaits::Record, Activation::AtOnce { now_ns: 99 }).is_none(),
        "it is tried for later"
    );
    assert!(scheduler.offer(world, &item, Awaits::Record, Activation::AtOnce { now_ns: 100 }).is_some());
}

#[test]
fn a_world_that_is_gone_leaves_nothing_behind() {
    let mut scheduler = Scheduler::<u8>::default();
    assert!(scheduler.wake(world_id(0), 0));
    scheduler.next().unwrap();
    scheduler.forget(world_id(0), Some(5));
    assert_eq!(scheduler.fail(world_id(0), Code::BlobCorrupt), 1);
    assert!(scheduler.wake(world_id(0), 5));
    assert_eq!(scheduler.next().unwrap().failed, Some(Code::BlobCorrupt), "it is tried again");
    scheduler.forget(world_id(0), None);
    assert!(scheduler.failed.is_empty() && scheduler.later.is_empty() && scheduler.is_empty());
}

#[test]
fn a_scheduler_that_is_closed_takes_no_world_and_releases_those_that_it_has() {
    let mut scheduler = Scheduler::<u8>::default();
    resident(&mut scheduler, world_id(0), 1, 0);
    scheduler.close(0);
    assert!(!scheduler.wake(world_id(1), 0) && !scheduler.hint(world_id(1), 1, 0) && !scheduler.insist(world_id(1), 0));
    let job = scheduler.next().unwrap();
    assert!(job.world == world_id(0) && job.release);
    scheduler.forget(world_id(0), None);
    assert!(scheduler.next().is_none() && scheduler.is_empty());
}
