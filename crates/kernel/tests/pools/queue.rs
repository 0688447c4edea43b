//! Labels and the queue in front of the kernel.

use crate::rig::{Pool, holder, new_resource, resource};
use mundi_kernel::lease_kernel::{
    command::{Command, Request},
    config::PoolConfig,
    result::Outcome,
};
use mundi_model::cbor;
use mundi_model::{pool::LeaseId, record::Payload};
use serde_json::json;

fn enqueue(label: &str, count: u32, by: u128) -> Command {
    Command::EnqueueReserve { label: label.into(), count, holder_id: Some(holder(by)), ttl_slots: 10, wait: false }
}

fn any(label: &str, count: u32) -> Command {
    Command::ReserveAny { label: label.into(), count, holder_id: Some(holder(1)), ttl_slots: 10 }
}

fn labelled() -> Pool {
    let mut pool = Pool::new(PoolConfig { queue_max: 3, ..PoolConfig::default() });
    let resources = (1..=4).map(|n| new_resource(n, if n % 2 == 0 { &["gpu", "eu"] } else { &["eu"] })).collect();
    assert_eq!(pool.result(Command::CreateResource { resources }), "ok");
    pool
}

fn ticket(pool: &Pool, ticket: LeaseId) -> (String, Option<LeaseId>) {
    let read = pool.query("ticket", json!({ "ticket": ticket }))["ticket"].clone();
    (read["state"].as_str().unwrap().to_owned(), serde_json::from_value(read["lease_id"].clone()).unwrap())
}

#[test]
fn resources_are_chosen_by_label_the_one_that_is_free_longest_first() {
    let mut pool = labelled();
    let taken = pool.run(any("gpu", 2));
    assert_eq!(taken.resource_ids, [resource(2), resource(4)]);
    assert_eq!(pool.result(any("gpu", 1)), "resource_busy");
    assert_eq!(pool.result(any("gpu", 3)), "resource_not_found", "there are only two");
    assert_eq!(pool.result(any("tpu", 1)), "resource_not_found");
    assert_eq!(pool.run(any("eu", 1)).resource_ids, [resource(1)]);
    pool.release(taken.lease_id.unwrap(), 1, 1);
    assert_eq!(pool.run(any("", 3)).resource_ids, [resource(3), resource(2), resource(4)]);
    for (command, expected) in [(any("", 0), "bundle_too_large"), (any("", 65), "bundle_too_large")] {
        assert_eq!(pool.result(command), expected);
    }
}

#[test]
fn the_queue_is_served_in_order_and_a_large_bundle_is_not_starved() {
    let mut pool = labelled();
    let first = pool.run(any("gpu", 1));
    let large = pool.run(enqueue("gpu", 2, 5)).ticket.unwrap();
    let small = pool.run(enqueue("gpu", 1, 6)).ticket.unwrap();
    assert_eq!(pool.result(any("eu", 1)), "resource_busy", "nobody overtakes");
    assert_eq!(pool.reserve(4, 7).result.as_str(), "resource_busy", "nor by name what the first one waits for");
    assert_eq!(pool.reserve(3, 7).result.as_str(), "ok", "what it does not wait for is there for all");
    assert_eq!((ticket(&pool, large).0.as_str(), ticket(&pool, small).0.as_str()), ("waiting", "waiting"));
    let released_at = pool.world.head();
    pool.release(first.lease_id.unwrap(), 1, 1);
    let (state, lease) = ticket(&pool, large);
    assert_eq!((state.as_str(), lease.unwrap().lsn()), ("granted", released_at), "by the record that freed them");
    assert_eq!(ticket(&pool, small).0, "waiting");
    pool.release(lease.unwrap(), 5, 1);
    assert_eq!(ticket(&pool, small).0, "granted");
}

#[test]
fn each_grant_has_a_record_of_its_own_and_so_a_lease_id_of_its_own() {
    let mut pool = labelled();
    let all = pool.run(any("", 4)).lease_id.unwrap();
    let tickets: Vec<LeaseId> = (5..8).map(|by| pool.run(enqueue("", 1, by)).ticket.unwrap()).collect();
    assert_eq!(pool.result(enqueue("", 1, 9)), "queue_full");
    pool.release(all, 1, 1);
    let mut records = 1;
    while pool.fire_due().is_some_and(|(label, _)| label == "grant") {
        records += 1;
    }
    assert_eq!(records, 3);
    let leases: std::collections::BTreeSet<_> = tickets.iter().map(|it| ticket(&pool, *it).1.unwrap()).collect();
    assert_eq!(leases.len(), 3);
}

#[test]
fn a_ticket_can_be_cancelled_by_its_holder_until_it_is_granted() {
    let mut pool = labelled();
    let all = pool.run(any("", 4)).lease_id.unwrap();
    let first = pool.run(enqueue("", 4, 5)).ticket.unwrap();
    let second = pool.run(enqueue("", 1, 6)).ticket.unwrap();
    let cancel = |ticket, by| Command::CancelEnqueue { ticket, holder_id: Some(holder(by)) };
    assert_eq!(pool.result(cancel(first, 6)), "holder_mismatch");
    assert_eq!(pool.result(cancel(first, 5)), "ok");
    assert_eq!(pool.result(cancel(first, 5)), "invalid_state");
    pool.release(all, 1, 1);
    assert_eq!(ticket(&pool, second).0, "granted");
    assert_eq!(pool.result(cancel(second, 6)), "invalid_state");
    pool.pass_slots(300);
    assert_eq!(pool.result(cancel(second, 6)), "ticket_not_found");
}

#[test]
fn what_can_never_be_granted_does_not_enter_the_queue() {
    let mut pool = labelled();
    for (label, count, expected) in
        [("gpu", 3, "resource_not_found"), ("", 0, "bundle_too_large"), ("", 65, "bundle_too_large")]
    {
        assert_eq!(pool.result(enqueue(label, count, 5)), expected);
    }
    let zero = Command::EnqueueReserve {
        label: String::new(),
        count: 1,
        holder_id: Some(holder(5)),
        ttl_slots: 0,
        wait: false,
    };
    assert_eq!(pool.result(zero), "ttl_out_of_range");
}

#[test]
fn a_call_that_waits_is_answered_when_its_lease_is_there() {
    let mut pool = labelled();
    let all = pool.run(any("", 4)).lease_id.unwrap();
    let command = Command::EnqueueReserve {
        label: String::new(),
        count: 1,
        holder_id: Some(holder(5)),
        ttl_slots: 9,
        wait: true,
    };
    let request =
        Request { operation_id: Some(crate::rig::operation(77)), client_id: Some(crate::rig::client(1)), command };
    let value = Payload::Inline(cbor::encode(&request.to_value()));
    assert_eq!(pool.send_raw(value, None).unwrap_err(), "no reply yet");
    let again = pool.send(&request, None).unwrap();
    assert!(again.ticket.is_some() && again.lease_id.is_none(), "asked again, it is told its ticket");
    pool.release(all, 1, 1);
    let [(_, Outcome { lease_id: Some(lease), resource_ids, .. })] = &pool.late_replies[..] else {
        panic!("{:?}", pool.late_replies)
    };
    assert_eq!((resource_ids.len(), ticket(&pool, again.ticket.unwrap()).1), (1, Some(*lease)));
}

/// Three resources and room for one lease, history included.
fn of_one_lease(config: PoolConfig) -> Pool {
    let mut pool = Pool::new(config);
    let resources = (1..=3).map(|n| new_resource(n, &[])).collect();
    assert_eq!(pool.result(Command::CreateResource { resources }), "ok");
    pool
}

#[test]
fn a_ticket_that_waits_for_room_in_a_table_gets_it_when_history_is_removed() {
    let roomy = PoolConfig::default();
    for config in [PoolConfig { leases_max: 1, ..roomy }, PoolConfig { members_max: 1, ..roomy }] {
        let mut pool = of_one_lease(config);
        let lease = pool.reserve(1, 7).lease_id.unwrap();
        pool.release(lease, 7, 1);
        let waits = pool.run(enqueue("", 1, 5)).ticket.unwrap();
        pool.pass_slots(config.history_slots - 1);
        while pool.fire_due().is_some() {}
        assert_eq!(ticket(&pool, waits).0, "waiting", "the lease that ended still answers");
        pool.pass_slots(1);
        while pool.fire_due().is_some() {}
        assert_eq!(ticket(&pool, waits).0, "granted", "by the pool's own timer, without another command");
    }
}

#[test]
fn a_ticket_that_no_table_could_hold_is_refused() {
    let mut pool = of_one_lease(PoolConfig { members_max: 2, ..PoolConfig::default() });
    assert_eq!(pool.result(enqueue("", 3, 5)), "bundle_too_large");
    assert_eq!(pool.result(enqueue("", 2, 5)), "ok");
    let mut pool = of_one_lease(PoolConfig { history_slots: u64::MAX, ..PoolConfig::default() });
    assert_eq!(pool.result(enqueue("", 1, 5)), "slot_overflow");
}

#[test]
fn a_ticket_whose_time_would_overflow_in_the_end_holds_up_nobody() {
    let mut pool = of_one_lease(PoolConfig { ttl_slots_max: u64::MAX, ..PoolConfig::default() });
    let all = pool.run(any("", 3)).lease_id.unwrap();
    let ttl_slots = u64::MAX - pool.slot();
    let command =
        Command::EnqueueReserve { label: String::new(), count: 1, holder_id: Some(holder(5)), ttl_slots, wait: false };
    let (first, second) = (pool.run(command).ticket.unwrap(), pool.run(enqueue("", 1, 6)).ticket.unwrap());
    pool.activate(all, 1, 1);
    pool.pass_slots(1);
    pool.release(all, 1, 1);
    while pool.fire_due().is_some() {}
    assert_eq!((ticket(&pool, first).0.as_str(), ticket(&pool, second).0.as_str()), ("cancelled", "granted"));
}
