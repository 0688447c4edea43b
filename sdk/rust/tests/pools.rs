//! A program that leases a resource of a pool.

use mundi_sdk::{
    Cause, Event, Failure, Program, Status, World,
    pools::{Lease, PoolResult, Wish, resource_id, shard_of},
    testing::TestWorld,
};
use serde_json::{Value, json};

/// Reserves, activates what it got, and releases it when it is told to.
struct Agent;

impl Program for Agent {
    const OFFER: &'static str = r#"{"events": {"go": true, "stop": true, "queue": true, "shard": true}, "effects": {"world.call": {"timeout_ms": 5000}}}"#;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        let any = (String::from("h100"), 2);
        match &event.cause {
            Cause::Event { schema, .. } if schema == "go" => {
                world.pool_reserve("gpus", &Wish::Any { label: any.0, count: any.1 }, 60, "reserve")
            }
            Cause::Event { schema, .. } if schema == "shard" => {
                let gpu = Wish::Resource(resource_id("gpu-2"));
                world.pool_reserve_in(("gpus", shard_of("gpu-2", 3)), &gpu, 60, "two")?;
                world.pool_reserve_in(("gpus", 0), &Wish::Any { label: any.0, count: any.1 }, 60, "first")
            }
            Cause::Event { schema, .. } if schema == "queue" => {
                world.pool_reserve("gpus", &Wish::Queued { label: any.0, count: any.1 }, 60, "queue")?;
                world.pool_reserve("gpus", &Wish::Resource("r_1".into()), 60, "one")?;
                world.pool_reserve("gpus", &Wish::Bundle(vec!["r_1".into(), "r_2".into()]), 60, "bundle")
            }
            Cause::Event { .. } => match world.get::<Lease>("lease")? {
                Some(lease) => world.pool_release(&lease, "release"),
                None => Ok(()),
            },
            Cause::Receipt { label, .. } => match event.pool_result()? {
                Ok(result) if result.is_ok() => {
                    let lease = result.lease("gpus").ok_or_else(|| Failure::new("no lease"))?;
                    world.put("lease", &lease)?;
                    if label == "reserve" { world.pool_activate(&lease, "activate") } else { Ok(()) }
                }
                Ok(PoolResult { result, .. }) => world.put("refused", &result),
                Err(error) => world.put("refused", &error.code),
            },
            _ => Ok(()),
        }
    }
}

/// A lease of shard 0, at height 7.
const FIRST: &str = "l_00000000000000000000000007";

/// A lease of shard 3, at height 7.
fn third() -> String {
    let bits: u128 = (3 << 64) | 7;
    let digits = "0123456789abcdefghjkmnpqrstvwxyz".as_bytes();
    let text: String = (0..26).rev().map(|place| char::from(digits[(bits >> (5 * place)) as usize & 31])).collect();
    format!("l_{text}")
}

fn params(step: &mundi_sdk::testing::Step, at: usize) -> &Value {
    &step.intents[at].params
}

#[test]
fn a_lease_is_reserved_activated_and_released_by_calls_to_its_pool() {
    let mut agent = TestWorld::<Agent>::new();
    let step = agent.send("go", ()).unwrap();
    let command = json!({ "reserve_any": { "label": "h100", "count": 2, "ttl_slots": 60 } });
    let asked = json!({ "world": "gpus", "event": "pool.command", "value": { "command": command } });
    assert_eq!(params(&step, 0), &asked, "no holder: the host says who calls");
    let reserved = json!({ "result": "ok", "lsn": 7, "slot": 1, "lease_id": FIRST, "lease_epoch": 1 });
    let step = agent.receipt("reserve", Status::Ok, reserved).unwrap();
    let command = json!({ "activate": { "lease_id": FIRST, "lease_epoch": 1 } });
    assert_eq!(params(&step, 0)["value"]["command"], command);
    agent.receipt("activate", Status::Ok, json!({ "result": "noop", "lease_id": third(), "lease_epoch": 4 })).unwrap();
    let step = agent.send("stop", ()).unwrap();
    assert_eq!(params(&step, 0)["world"], "gpus.shard-3", "the lease says in which shard it lies");
    assert_eq!(params(&step, 0)["value"]["command"]["release"]["lease_epoch"], 4);
    agent.receipt("release", Status::Ok, json!({ "result": "stale_epoch", "lsn": 9, "slot": 2 })).unwrap();
    assert_eq!(agent.cell("refused"), Some(json!("stale_epoch")));
}

#[test]
fn all_wishes_are_commands_of_the_pool() {
    let mut agent = TestWorld::<Agent>::new();
    let step = agent.send("queue", ()).unwrap();
    let command = |at| params(&step, at)["value"]["command"].clone();
    let queued = json!({ "label": "h100", "count": 2, "ttl_slots": 60, "wait": true });
    assert_eq!(command(0), json!({ "enqueue_reserve": queued }));
    assert_eq!(command(1), json!({ "reserve": { "resource_id": "r_1", "ttl_slots": 60 } }));
    assert_eq!(command(2), json!({ "reserve_bundle": { "resource_ids": ["r_1", "r_2"], "ttl_slots": 60 } }));
    agent.fail("queue", "CALL_TIMEOUT", "no reply").unwrap();
    assert_eq!(agent.cell("refused"), Some(json!("CALL_TIMEOUT")));
}

#[test]
fn what_is_no_lease_id_is_refused() {
    let mut agent = TestWorld::<Agent>::new();
    agent.send("go", ()).unwrap();
    let wrong = json!({ "result": "ok", "lease_id": "l_7", "lease_epoch": 1 });
    assert!(agent.receipt("reserve", Status::Ok, wrong).unwrap_err().reason.contains("not a lease id"));
}

#[test]
fn a_resource_is_reserved_in_its_shard() {
    let step = TestWorld::<Agent>::new().send("shard", ()).unwrap();
    assert_eq!(params(&step, 0)["world"], "gpus.shard-2");
    let reserve = json!({ "resource_id": "r_3q03r0001mm6xktzqq8s556bb1", "ttl_slots": 60 });
    assert_eq!(params(&step, 0)["value"]["command"], json!({ "reserve": reserve }));
    assert_eq!(params(&step, 1)["world"], "gpus");
}

/// As the server places them.
#[test]
fn the_shard_of_a_resource_follows_from_its_id() {
    for (resource, shards) in [
        ("gpu-0", [0, 0, 1, 6, 62]),
        ("gpu-1", [0, 1, 1, 7, 31]),
        ("r_2jhsdyqc76ep8z59gbmgcbwpad", [0, 0, 1, 6, 62]),
        ("r_00000000000000000000000000", [0, 1, 2, 1, 57]),
        ("r_7zzzzzzzzzzzzzzzzzzzzzzzzz", [0, 1, 0, 5, 13]),
    ] {
        assert_eq!([1, 2, 3, 8, 64].map(|count| shard_of(resource, count)), shards, "{resource}");
    }
    assert_eq!((resource_id("gpu-0"), shard_of("gpu-0", 0)), ("r_2jhsdyqc76ep8z59gbmgcbwpad".to_owned(), 0));
}
