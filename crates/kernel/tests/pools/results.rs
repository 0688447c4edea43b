//! Each result of the kernel, and that a refusal changes nothing.

use crate::rig::{Pool, SHARD, client, holder, new_resource, operation, resource};
use mundi_kernel::lease_kernel::{
    command::{Command, Request},
    config::PoolConfig,
    records::{LeaseState, ResourceState},
};
use mundi_model::{
    Height,
    pool::{LeaseAuthority, LeaseId},
};
use serde_json::json;

fn state(pool: &Pool, lease: LeaseId) -> (String, u64) {
    let read = pool.query("lease", json!({ "lease_id": lease }));
    (read["lease"]["state"].as_str().unwrap_or("none").to_owned(), read["lease"]["lease_epoch"].as_u64().unwrap_or(0))
}

fn resource_state(pool: &Pool, n: u128) -> String {
    let read = pool.query("resource", json!({ "resource_id": resource(n) }));
    read["resource"]["current_state"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn a_lease_goes_from_reserved_to_active_to_released_and_its_epoch_rises_at_the_end() {
    let mut pool = Pool::of(1);
    let height = pool.world.head();
    let reserved = pool.reserve(1, 7);
    let lease = reserved.lease_id.unwrap();
    assert_eq!((lease, reserved.lsn), (LeaseId::new(SHARD, height), height), "the id is the shard and the LSN");
    assert_eq!((reserved.lease_epoch, state(&pool, lease).0.as_str()), (Some(1), "reserved"));
    assert_eq!(pool.activate(lease, 7, 1), "ok");
    assert_eq!(pool.activate(lease, 7, 1), "invalid_state");
    assert_eq!(state(&pool, lease), ("active".into(), 1));
    assert_eq!(pool.release(lease, 7, 1), "ok");
    assert_eq!(state(&pool, lease), ("released".into(), 2));
    assert_eq!(resource_state(&pool, 1), "available");
    let read = pool.query("lease", json!({ "lease_id": lease }));
    let states: Vec<_> = read["lease"]["history"].as_array().unwrap().iter().map(|it| it["state"].clone()).collect();
    assert_eq!(states, ["reserved", "active", "released"]);
    assert_eq!(read["applied_lsn"], pool.world.head().get() - 1);
}

#[test]
fn checks_of_a_holder_come_in_their_order() {
    let mut pool = Pool::of(1);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    let unknown = LeaseId::new(SHARD, Height::new(1_000_000));
    assert_eq!(pool.activate(unknown, 8, 9), "lease_not_found");
    assert_eq!(pool.activate(lease, 8, 9), "holder_mismatch");
    assert_eq!(pool.activate(lease, 7, 9), "stale_epoch");
    assert_eq!(pool.activate(lease, 7, 1), "ok");
    assert_eq!(pool.release(lease, 7, 1), "ok");
    assert_eq!(pool.release(lease, 7, 1), "stale_epoch", "the epoch before the state");
    assert_eq!(pool.release(lease, 7, 2), "lease_retired", "ended, with the newest epoch");
    assert_eq!(pool.release(lease, 8, 2), "holder_mismatch");
}

#[test]
fn a_revoke_fences_at_once_and_only_a_reclaim_frees() {
    let mut pool = Pool::of(1);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    assert_eq!(pool.result(Command::revoke(lease)), "invalid_state", "it is only reserved");
    pool.activate(lease, 7, 1);
    assert_eq!(pool.result(Command::Reclaim { lease_id: lease }), "invalid_state");
    assert_eq!(pool.result(Command::revoke(lease)), "ok");
    assert_eq!(state(&pool, lease), ("revoking".into(), 2));
    assert_eq!(resource_state(&pool, 1), "revoking");
    assert_eq!(pool.release(lease, 7, 1), "stale_epoch");
    assert_eq!(pool.release(lease, 7, 2), "invalid_state");
    assert_eq!(pool.reserve(1, 8).result.as_str(), "resource_busy", "never early");
    assert_eq!(pool.result(Command::revoke(lease)), "invalid_state");
    assert_eq!(pool.result(Command::Reclaim { lease_id: lease }), "ok");
    assert_eq!(state(&pool, lease), ("revoked".into(), 2), "a reclaim does not raise the epoch");
    assert_eq!(pool.result(Command::Reclaim { lease_id: lease }), "lease_retired");
    assert_eq!(pool.reserve(1, 8).result.as_str(), "ok");
}

#[test]
fn the_authority_key_is_there_exactly_while_the_lease_is_active() {
    let mut pool = Pool::of(2);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    assert!(pool.authorities.is_empty(), "a reservation entitles to nothing");
    pool.activate(lease, 7, 1);
    let granted = pool.authorities.pop().unwrap();
    assert_eq!((granted.lease, granted.authority), (lease, Some(LeaseAuthority { epoch: 1, holder: holder(7) })));
    pool.run(Command::revoke(lease));
    assert_eq!(pool.authorities.pop().unwrap().authority, None);
    pool.run(Command::Reclaim { lease_id: lease });
    let second = pool.reserve(2, 7).lease_id.unwrap();
    pool.release(second, 7, 1);
    assert!(pool.authorities.is_empty(), "neither was active");
}

#[test]
fn a_reservation_expires_by_the_pools_timer_and_not_before_its_deadline() {
    let mut pool = Pool::of(1);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    pool.pass_slots(9);
    assert_eq!(pool.fire_due(), None, "one slot too early");
    pool.pass_slots(1);
    assert_eq!(state(&pool, lease).0, "reserved", "late reuse: nothing happens without a record");
    assert_eq!(pool.fire_due().unwrap().0, "expire");
    assert_eq!(state(&pool, lease), ("expired".into(), 2));
    assert_eq!(pool.activate(lease, 7, 1), "stale_epoch");
    assert_eq!(pool.activate(lease, 7, 2), "lease_retired");
    assert_eq!(resource_state(&pool, 1), "available");
}

#[test]
fn an_active_lease_never_expires_and_one_timer_serves_all() {
    let mut pool = Pool::of(3);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    pool.activate(lease, 7, 1);
    pool.pass_slots(3);
    let second = pool.reserve(2, 7).lease_id.unwrap();
    pool.pass_slots(7);
    assert_eq!(pool.fire_due().unwrap().0, "expire", "set for the first, which does not need it any more");
    assert_eq!((state(&pool, lease).0.as_str(), state(&pool, second).0.as_str()), ("active", "reserved"));
    pool.pass_slots(3);
    assert!(pool.fire_due().is_some(), "set again, for the second");
    assert_eq!(state(&pool, second).0, "expired");
    pool.pass_slots(100);
    assert_eq!(pool.fire_due(), None, "nobody waits");
}

#[test]
fn hundreds_of_reservations_of_one_slot_expire_in_batches() {
    let mut pool = Pool::of(200);
    (1..=200).for_each(|n| assert_eq!(pool.reserve(n, 7).result.as_str(), "ok"));
    pool.pass_slots(10);
    let mut steps = 0;
    while pool.fire_due().is_some() {
        steps += 1;
    }
    assert_eq!(steps, 4, "64 in a step");
    assert!((1..=200).all(|n| resource_state(&pool, n) == "available"));
}

#[test]
fn a_bundle_is_taken_as_a_whole_or_not_at_all() {
    let mut pool = Pool::of(3);
    let bundle = |ids: &[u128]| Command::ReserveBundle {
        resource_ids: ids.iter().map(|n| resource(*n)).collect(),
        holder_id: Some(holder(7)),
        ttl_slots: 10,
    };
    pool.reserve(3, 8);
    let before = pool.query("resources", json!({}))["items"].clone();
    for (ids, expected) in [
        (&[1, 2, 3][..], "resource_busy"),
        (&[1, 2, 9], "resource_not_found"),
        (&[1, 2, 1], "resource_busy"),
        (&[], "bundle_too_large"),
    ] {
        assert_eq!(pool.result(bundle(ids)), expected, "{ids:?}");
    }
    let too_large: Vec<u128> = (1..=65).collect();
    assert_eq!(pool.result(bundle(&too_large)), "bundle_too_large");
    assert_eq!(pool.query("resources", json!({}))["items"], before, "nothing changed, no version rose");
    let taken = pool.run(bundle(&[2, 1]));
    assert_eq!(taken.resource_ids, [resource(2), resource(1)]);
    assert_eq!((resource_state(&pool, 1), resource_state(&pool, 2)), ("reserved".into(), "reserved".into()));
    pool.release(taken.lease_id.unwrap(), 7, 1);
    assert_eq!((resource_state(&pool, 1), resource_state(&pool, 2)), ("available".into(), "available".into()));
}

#[test]
fn times_are_bounded_and_do_not_overflow() {
    let mut pool = Pool::of(1);
    let reserve = |ttl_slots| Command::Reserve { resource_id: resource(1), holder_id: Some(holder(7)), ttl_slots };
    for ttl_slots in [0, 3_601, u64::MAX] {
        assert_eq!(pool.result(reserve(ttl_slots)), "ttl_out_of_range");
    }
    let mut pool = Pool::new(PoolConfig { ttl_slots_max: u64::MAX, ..PoolConfig::default() });
    pool.run(Command::CreateResource { resources: vec![new_resource(1, &[])] });
    assert_eq!(pool.result(reserve(u64::MAX)), "slot_overflow");
    let longest = pool.run(reserve(u64::MAX - pool.slot()));
    assert_eq!((longest.result.as_str(), longest.deadline_slot), ("ok", Some(u64::MAX)));
    assert_eq!(state(&pool, longest.lease_id.unwrap()).0, "reserved");

    let mut pool = Pool::new(PoolConfig { history_slots: u64::MAX, ..PoolConfig::default() });
    pool.run(Command::CreateResource { resources: vec![new_resource(1, &[])] });
    let lease = pool.run(reserve(5)).lease_id.unwrap();
    assert_eq!(pool.release(lease, 7, 1), "slot_overflow");
    assert_eq!((state(&pool, lease).0.as_str(), resource_state(&pool, 1).as_str()), ("reserved", "reserved"));
    pool.pass_slots(5);
    while pool.fire_due().is_some() {}
    assert_eq!(state(&pool, lease).0, "reserved", "an expiry without a history stays away: late, never early");
}

#[test]
fn an_operation_that_is_sent_again_is_answered_and_not_repeated() {
    let mut pool = Pool::of(2);
    let reserve = |n| Command::Reserve { resource_id: resource(n), holder_id: Some(holder(7)), ttl_slots: 10 };
    let first = pool.operate(5, 1, reserve(1));
    assert_eq!(pool.operate(5, 1, reserve(1)), first, "the same result, of the same LSN");
    assert_eq!(pool.operate(5, 1, reserve(2)).result.as_str(), "operation_conflict");
    assert_eq!(
        pool.operate(6, 1, reserve(2)).result.as_str(),
        "ok",
        "another client's operation of that id is another one"
    );
    assert_eq!(pool.operate(5, 2, reserve(2)).result.as_str(), "resource_busy");
    pool.pass_slots(119);
    assert_eq!(pool.operate(5, 2, reserve(2)).result.as_str(), "resource_busy", "a refusal is kept, too");
    pool.pass_slots(1);
    assert_ne!(pool.operate(5, 1, reserve(1)).lsn, first.lsn, "after its window it is a new operation");
}

#[test]
fn a_lease_that_ended_answers_for_the_history_window_and_is_then_retired_by_the_watermark() {
    let mut pool = Pool::of(2);
    let held = pool.reserve(2, 8).lease_id.unwrap();
    pool.activate(held, 8, 1);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    pool.release(lease, 7, 1);
    pool.pass_slots(299);
    assert_eq!(state(&pool, lease).0, "released");
    pool.pass_slots(1);
    assert_eq!(pool.activate(lease, 7, 2), "lease_retired", "whether or not it was removed yet");
    while pool.fire_due().is_some() {}
    for _ in 0..4 {
        pool.reserve(9, 9);
    }
    assert!(pool.cells().iter().all(|(key, _)| !key.contains(&lease.to_string())), "its members went with it");
    let read = pool.query("lease", json!({ "lease_id": lease }));
    assert_eq!(read["result"], "lease_retired");
    assert_eq!(pool.activate(lease, 7, 2), "lease_retired");
    assert_eq!(state(&pool, held).0, "active", "an older lease that is live answers, whatever the watermark");
    assert_eq!(pool.release(held, 8, 1), "ok");
}

#[test]
fn each_full_table_has_its_own_result() {
    let one = PoolConfig {
        resources_max: 1,
        leases_max: 1,
        members_max: 1,
        bundle_max: 1,
        operations_max: 1,
        expirations_max: 1,
        queue_max: 1,
        ..PoolConfig::default()
    };
    let create = |numbers: &[u128]| Command::CreateResource {
        resources: numbers.iter().map(|n| new_resource(*n, &[])).collect(),
    };
    let roomy = PoolConfig { operations_max: 1_000, ..one };
    let mut pool = Pool::new(roomy);
    assert_eq!(pool.result(create(&[1, 2])), "resource_table_full");
    assert_eq!(pool.result(create(&[1])), "ok");
    assert_eq!(pool.result(create(&[1])), "already_exists");
    assert_eq!(pool.result(create(&[2])), "resource_table_full");
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    pool.release(lease, 7, 1);
    assert_eq!(pool.reserve(1, 7).result.as_str(), "lease_table_full", "the history counts");
    pool.pass_slots(300);
    assert_eq!(pool.reserve(1, 7).result.as_str(), "ok");

    let mut pool = Pool::new(PoolConfig { resources_max: 2, leases_max: 2, ..roomy });
    pool.run(create(&[1, 2]));
    pool.reserve(1, 7);
    assert_eq!(pool.reserve(2, 7).result.as_str(), "lease_member_table_full");
    let mut pool = Pool::new(PoolConfig { resources_max: 2, leases_max: 2, members_max: 2, ..roomy });
    pool.run(create(&[1, 2]));
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    assert_eq!(pool.reserve(2, 7).result.as_str(), "expiration_index_full");
    pool.activate(lease, 7, 1);
    assert_eq!(pool.reserve(2, 7).result.as_str(), "ok");

    let mut pool = Pool::new(one);
    assert_eq!(pool.operate(1, 2, create(&[1])).result.as_str(), "ok");
    assert_eq!(pool.operate(1, 3, create(&[2])).result.as_str(), "operation_table_full");
    assert_eq!(pool.operate(1, 2, create(&[1])).result.as_str(), "ok", "known ones are still answered");
    pool.pass_slots(120);
    assert_eq!(pool.operate(1, 3, create(&[2])).result.as_str(), "resource_table_full");
}

#[test]
fn lists_filter_by_state_and_holder_and_go_on_where_they_ended() {
    let mut pool = Pool::of(5);
    for n in 1..=4 {
        let lease = pool.reserve(n, 7 + n % 2).lease_id.unwrap();
        if n > 2 {
            pool.activate(lease, 7 + n % 2, 1);
        }
    }
    let count = |name: &str, params: serde_json::Value| pool.query(name, params)["items"].as_array().unwrap().len();
    assert_eq!(count("leases", json!({ "state": LeaseState::Active })), 2);
    assert_eq!(count("leases", json!({ "holder_id": holder(7) })), 2);
    assert_eq!(count("leases", json!({ "holder_id": holder(7), "state": LeaseState::Reserved })), 1);
    assert_eq!(count("resources", json!({ "state": ResourceState::Available })), 1);
    assert_eq!(count("resources", json!({ "holder_id": holder(8) })), 2);
    let first = pool.query("resources", json!({ "limit": 3 }));
    let rest = pool.query("resources", json!({ "limit": 3, "after": first["next"] }));
    assert_eq!((first["items"].as_array().unwrap().len(), rest["items"].as_array().unwrap().len()), (3, 2));
    assert!(rest["next"].is_null());
}

#[test]
fn the_same_request_of_another_client_is_another_operation() {
    let mut pool = Pool::of(1);
    let request = |by| Request {
        operation_id: Some(operation(1)),
        client_id: Some(client(by)),
        command: Command::Reserve { resource_id: resource(1), holder_id: Some(holder(7)), ttl_slots: 10 },
    };
    assert_eq!(pool.send(&request(1), None).unwrap().result.as_str(), "ok");
    assert_eq!(pool.send(&request(2), None).unwrap().result.as_str(), "resource_busy");
}
