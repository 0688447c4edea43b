//! Refusals of a pool: each has a reason, and changes nothing.

use crate::rig::{Pool, SHARD, client, holder, new_resource, operation, resource};
use mundi_kernel::lease_kernel::{
    command::{Command, Request},
    config::PoolConfig,
};
use mundi_model::{
    Height, Value, WorldId, cbor,
    pool::{HolderId, LeaseId, ResourceId},
    record::Payload,
};
use serde_json::json;

const MAX: [u8; 16] = [0xff; 16];

/// All that people see of a pool; what is kept of operations is not part of it.
fn seen(pool: &Pool) -> (serde_json::Value, serde_json::Value) {
    (pool.query("resources", json!({}))["items"].clone(), pool.query("leases", json!({}))["items"].clone())
}

#[test]
fn ids_of_all_ones_are_ids_like_others() {
    let mut pool = Pool::of(1);
    let before = seen(&pool);
    let (lease_id, top) = (LeaseId::from_bytes(MAX), ResourceId::from_bytes(MAX));
    let holder_id = Some(HolderId::from_bytes(MAX));
    assert_eq!(pool.result(Command::Activate { lease_id, holder_id, lease_epoch: u64::MAX }), "lease_not_found");
    assert_eq!(pool.result(Command::revoke(lease_id)), "lease_not_found");
    assert_eq!(pool.result(Command::Reclaim { lease_id: LeaseId::from_bytes([0; 16]) }), "lease_not_found");
    assert_eq!(pool.result(Command::Reserve { resource_id: top, holder_id, ttl_slots: 1 }), "resource_not_found");
    assert_eq!(pool.result(Command::CancelEnqueue { ticket: lease_id, holder_id }), "ticket_not_found");
    assert_eq!(seen(&pool), before);
    let mut new = new_resource(1, &[]);
    new.resource_id = top;
    assert_eq!(pool.result(Command::CreateResource { resources: vec![new] }), "ok");
    assert_eq!(pool.result(Command::Reserve { resource_id: top, holder_id, ttl_slots: 1 }), "ok");
}

#[test]
fn a_world_is_its_own_holder_and_no_operator() {
    let mut pool = Pool::of(1);
    let (mine, other) = (WorldId::from_bytes([7; 16]), WorldId::from_bytes([8; 16]));
    let reserve = |holder_id| Request {
        operation_id: None,
        client_id: None,
        command: Command::Reserve { resource_id: resource(1), holder_id, ttl_slots: 5 },
    };
    let before = seen(&pool);
    let refused = pool.send(&reserve(Some(other.into())), Some(mine)).unwrap();
    assert_eq!(refused.result.as_str(), "holder_mismatch");
    assert_eq!(seen(&pool), before);
    let reserved = pool.send(&reserve(None), Some(mine)).unwrap();
    let lease_id = reserved.lease_id.unwrap();
    let read = pool.query("lease", json!({ "lease_id": lease_id }));
    assert_eq!(read["lease"]["holder_id"], json!(HolderId::from(mine)), "set by the pool, not by the sender");
    let request = |command| Request { operation_id: None, client_id: Some(client(1)), command };
    for command in [
        Command::revoke(lease_id),
        Command::Reclaim { lease_id },
        Command::CreateResource { resources: vec![new_resource(2, &[])] },
        Command::Configure { shard: 0, config: PoolConfig::default() },
    ] {
        let refused = pool.send(&request(command), Some(mine)).unwrap_err();
        assert!(refused.contains("may not send this command"), "{refused}");
    }
    let activate = Command::Activate { lease_id, holder_id: None, lease_epoch: 1 };
    assert_eq!(pool.send(&request(activate.clone()), Some(other)).unwrap().result.as_str(), "holder_mismatch");
    assert_eq!(pool.send(&request(activate), Some(mine)).unwrap().result.as_str(), "ok");
}

#[test]
fn what_is_no_command_is_refused_and_changes_nothing() {
    let mut pool = Pool::of(1);
    let cells = pool.cells();
    let requests = [
        json!({}),
        json!({ "command": {} }),
        json!({ "command": { "steal": {} } }),
        json!({ "command": { "revoke": { "lease_id": "l_7zzz" } } }),
        json!({ "command": { "revoke": { "lease_id": LeaseId::new(SHARD, Height::new(1)), "more": 1 } } }),
        json!({ "command": { "revoke": { "lease_id": LeaseId::new(SHARD, Height::new(1)) } } }),
        json!({ "command": { "create_resource": { "resources": [] } }, "client_id": client(1), "operation_id": operation(5) }),
        json!({ "command": { "reserve_any": { "label": "a/b", "count": 1, "ttl_slots": 1 } }, "client_id": client(1), "operation_id": operation(5) }),
        json!({ "command": { "reserve_any": { "count": -1, "ttl_slots": 1 } } }),
        json!({ "command": { "expire": { "lease_id": LeaseId::new(SHARD, Height::new(1)), "deadline_slot": 1 } } }),
        json!("reserve"),
    ];
    for request in requests {
        let value = Payload::Inline(cbor::encode(&Value::from(request.clone())));
        let refused = pool.send_raw(value, None).unwrap_err();
        assert!(!refused.is_empty(), "{request}");
        assert_eq!(pool.cells(), cells, "{request}");
    }
    let labels: Vec<String> = (0..9).map(|n| format!("label-{n}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let command = Command::CreateResource { resources: vec![new_resource(2, &labels)] };
    let request = Request { operation_id: Some(operation(5)), client_id: Some(client(1)), command };
    assert!(pool.send(&request, None).unwrap_err().contains("at most 8 labels"));
    assert_eq!(pool.cells(), cells);
}

#[test]
fn a_pool_is_configured_once() {
    let mut pool = Pool::of(1);
    let (shard, config) = (SHARD, PoolConfig::default());
    assert_eq!(pool.result(Command::Configure { shard, config }), "noop");
    assert_eq!(pool.result(Command::Configure { shard: shard + 1, config }), "already_exists");
    let config = PoolConfig { leases_max: 7, ..config };
    assert_eq!(pool.result(Command::Configure { shard, config }), "already_exists");
    assert_eq!(pool.query("pool", json!(null))["config"]["leases_max"], PoolConfig::default().leases_max);
    for config in [
        PoolConfig { slot_ms: 0, ..config },
        PoolConfig { bundle_max: u64::MAX, ..config },
        PoolConfig { resources_max: 0, ..config },
    ] {
        assert!(config.check().is_err());
    }
}

#[test]
fn a_foreign_epoch_is_stale_whether_it_is_lower_or_higher() {
    let mut pool = Pool::of(1);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    for epoch in [0, 2, u64::MAX] {
        assert_eq!(pool.activate(lease, 7, epoch), "stale_epoch");
        assert_eq!(pool.release(lease, 7, epoch), "stale_epoch");
    }
    assert_eq!(pool.query("resource", json!({ "resource_id": resource(1) }))["resource"]["current_state"], "reserved");
    assert_eq!(holder(7), HolderId::from_bytes(7u128.to_be_bytes()));
}

#[test]
fn a_pool_with_live_leases_is_not_closed() {
    let mut pool = Pool::of(2);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    assert_eq!(pool.result(Command::Close {}), "invalid_state");
    pool.activate(lease, 7, 1);
    pool.run(Command::revoke(lease));
    assert_eq!(pool.result(Command::Close {}), "invalid_state", "who holds it may still act");
    pool.run(Command::Reclaim { lease_id: lease });
    assert_eq!(pool.result(Command::Close {}), "ok");
    assert_eq!(pool.reserve(2, 7).result.as_str(), "invalid_state");
    assert_eq!(pool.result(Command::Open {}), "ok");
    assert_eq!(pool.reserve(2, 7).result.as_str(), "ok");
}
