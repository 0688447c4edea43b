//! Leases and assignments.

use crate::{Store, everything, family_of, journal::turn, live, live_with_items, on_the_heap, survives};
use bytes::Bytes;
use mundi_model::{Height, UniverseId, WorkerId, WorldId, cbor};
use mundi_store::{
    Clock, Fence, StoreError,
    keyspace::{
        Family,
        assignment::Assignment,
        lease::{self, Lease, Probation},
    },
    protocol::{
        AcquireLease, Acquired, AssignWorld, EndProbation, ForgetAssignment, Opening, Over, Pass, PlaceWorld, Purpose,
        ReleaseLease, RenewLeases, SettleWorld, TakeOverLease, TakenOver, WithdrawLeaseRequest,
    },
    testing::{engine_contents, world_id},
};

/// The epoch may rise by two: the header of the protocol says so.
#[test]
fn acquire_lease() {
    let setup = async |store: &Store| {
        store.create(world_id(1), None).await.unwrap();
        world_id(1)
    };
    let act = async |store: &Store, world: &WorldId| store.acquire(*world, 1).await.map(drop);
    survives(on_the_heap, setup, act, |key| family_of(key) != Some(Family::Lease as u8));
}

async fn open_after_a_crash(store: &Store, world: WorldId, life_ns: u64) -> Result<Acquired, StoreError> {
    let (universe, worker) = (store.universe, WorkerId::new(1).unwrap());
    let opening = Some(Opening { life_ns, pass: Pass::Alone });
    Ok(store.run(&AcquireLease { universe, world, worker, now_ns: 1, ttl_ns: 9, opening }).await?.output)
}

async fn probation(store: &Store, fence: Fence) -> Result<Option<Probation>, StoreError> {
    let found = engine_contents(&store.engine).await?;
    Ok(cbor::decode::<Lease>(&found[lease::key(fence.universe, fence.world).as_bytes()]).unwrap().probation)
}

/// The holder after one that never released the world counts that one end and no other, however often its own commit is repeated.
#[test]
fn acquire_a_lease_that_was_never_released() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        assert_eq!(open_after_a_crash(store, fence.world, 1).await.unwrap().deaths, Some(0));
        fence.world
    };
    let act = async |store: &Store, world: &WorldId| {
        let Acquired { fence, deaths, .. } = open_after_a_crash(store, *world, 2).await?;
        assert_eq!(deaths, Some(1));
        assert_eq!(probation(store, fence).await?, Some(Probation { deaths: 1, life_ns: 2 }));
        Ok(())
    };
    survives(on_the_heap, setup, act, |key| family_of(key) != Some(Family::Lease as u8));
}

/// A turn, or a cycle without one: either way it is over for good, and a turn that crashes before its commit leaves it as it was.
#[test]
fn end_a_probation() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        open_after_a_crash(store, fence.world, 1).await.unwrap();
        open_after_a_crash(store, fence.world, 2).await.unwrap().fence
    };
    for by_turn in [false, true] {
        let act = async |store: &Store, fence: &Fence| {
            if by_turn {
                let turn = turn(store, *fence).await?.unwrap();
                if turn.records.start().height == Height::new(1) {
                    store.run(&turn).await?;
                }
            } else {
                store.run(&EndProbation { fence: *fence }).await?;
            }
            assert_eq!(probation(store, *fence).await?, None);
            Ok(())
        };
        survives(on_the_heap, setup, act, everything);
    }
}

#[test]
fn renew_leases() {
    let act = async |store: &Store, fence: &Fence| {
        let worker = WorkerId::new(1).unwrap();
        let renewed = store.run(&RenewLeases { worker, fences: vec![*fence], now_ns: 50, ttl_ns: 99 }).await?;
        assert_eq!(renewed.output.renewed, [*fence]);
        Ok(())
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn release_lease() {
    let act = async |store: &Store, fence: &Fence| {
        store.run(&ReleaseLease { fence: *fence, active_at_ns: None }).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn assign_world() {
    let act = async |store: &Store, fence: &Fence| {
        let assignment = Assignment { desired: WorkerId::new(2), pinned: true, priority: 1, reason: None };
        let (universe, world) = (fence.universe, fence.world);
        store.run(&AssignWorld { universe, world, assignment }).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn settle_world() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        store.drain(fence, 100).await.unwrap();
        fence
    };
    let act = async |store: &Store, fence: &Fence| store.run(&SettleWorld { fence: *fence }).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn take_a_lease_over_to_delete_its_world() {
    let setup = async |store: &Store| {
        store.create(world_id(1), None).await.unwrap();
        world_id(1)
    };
    let act = async |store: &Store, world: &WorldId| {
        let (universe, by) = (store.universe, WorkerId::new(1).unwrap());
        let purpose = Purpose::Delete;
        let take = TakeOverLease { universe, world: *world, by, now_ns: 5, ttl_ns: 9, request_ttl_ns: 9, purpose };
        store.run(&take).await.map(drop)
    };
    survives(on_the_heap, setup, act, |key| family_of(key) != Some(Family::Lease as u8));
}

#[test]
fn forget_that_a_world_is_assigned() {
    let seen = || Assignment { desired: WorkerId::new(2), pinned: false, priority: 1, reason: None };
    let setup = async |store: &Store| {
        let Fence { universe, world, .. } = live(store).await;
        let place = PlaceWorld { universe, world, over: Over::Seen(None), to: seen(), mail: Vec::new() };
        store.run(&place).await.unwrap();
        (universe, world)
    };
    let act = async |store: &Store, (universe, world): &(UniverseId, WorldId)| {
        let (universe, world) = (*universe, *world);
        store.run(&ForgetAssignment { universe, world, seen: seen() }).await.map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn ask_for_a_lease_and_withdraw_the_request() {
    let act = async |store: &Store, fence: &Fence| {
        let Fence { universe, world, .. } = *fence;
        let (by, purpose, now_ns) = (WorkerId::new(9).unwrap(), Purpose::Upkeep, store.clock.now_ns());
        let ask = TakeOverLease { universe, world, by, now_ns, ttl_ns: 9, request_ttl_ns: 9, purpose };
        let asked = store.run(&ask).await?.output;
        assert!(matches!(asked, TakenOver::Requested(_)), "its holder has it: {asked:?}");
        store.run(&WithdrawLeaseRequest { universe, world, by }).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn place_a_world_and_tell_its_worker() {
    let act = async |store: &Store, fence: &Fence| {
        let to = Assignment { desired: WorkerId::new(2), pinned: false, priority: 1, reason: None };
        let mail = vec![(WorkerId::new(2).unwrap(), Bytes::from_static(b"frame"))];
        let place = PlaceWorld { universe: fence.universe, world: fence.world, over: Over::Seen(None), to, mail };
        store.run(&place).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}
