//! Fencing from end to end: a program gets a lease of a real pool by `world.call`, and an effect that names the lease begins only while the
//! pool says that this world holds it.

use crate::rig::{Outside, ops, start_with};
use mundi_kernel::{
    Registry,
    lease_kernel::{
        self, LeaseKernel,
        command::{Command, NewResource, Request},
        config::PoolConfig,
    },
    manifest::{EffectRule, Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program, View},
    registry::native_descriptor,
};
use mundi_model::{
    Code, Coded, Hash, Value, WorldId, WorldName, cbor,
    pool::{ClientId, LeaseAuthority, LeaseId, OperationId, ResourceId},
    record::{Input, Payload},
};
use mundi_runtime::{
    Plane,
    lifecycle::{NewWorld, create, register_trusted},
    testing::{Node, Rig, register},
};
use mundi_store::{blob::Blobs, testing::world_id};
use serde_json::{Value as Json, json};
use std::{sync::Arc, time::Duration};

/// Asks for the effect that an event names, and keeps the receipt under its label.
struct Holder;

impl Program for Holder {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Event { value, .. } => {
                let Ok(Value::Map(asked)) = cbor::decode(value) else { return Err(Failure::new("no map")) };
                let text = |name: &str| match &asked[name] {
                    Value::Text(text) => text.as_str(),
                    _ => "",
                };
                Ok(host.emit(text("kind"), &cbor::encode(&asked["params"]), text("label"))?)
            }
            Cause::Receipt { label, payload, .. } => Ok(host.put(label, payload)?),
            _ => Ok(()),
        }
    }

    fn query(&self, view: &mut dyn View, _: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        let Ok(Value::Text(key)) = cbor::decode(params) else { return Err(Failure::new("no key")) };
        view.get(&key)?.ok_or_else(|| Failure::new(format!("no receipt of `{key}`")))
    }
}

/// Worlds 1 and 2 run [`Holder`]; the pool `gpus` has one resource.
struct Setting {
    rig: Rig,
    outside: Outside,
    pool: WorldId,
    _node: Node,
}

fn resource() -> ResourceId {
    ResourceId::of_name("gpu-0")
}

fn setting() -> Setting {
    let mut rig = Rig::new(1);
    let mut registry = Registry::new();
    register(&mut registry);
    let mut holder = Manifest::new(registry.register_native("holder", 1, Holder));
    holder.events.insert("do".into(), Schema::anything());
    holder.queries.insert("cell".into(), Schema::anything());
    for kind in ["http", "world.call"] {
        holder.effects.insert(kind.into(), EffectRule::default());
    }
    let mut kernel = Manifest::new(registry.register_native(lease_kernel::NAME, lease_kernel::VERSION, LeaseKernel));
    lease_kernel::declare(&mut kernel);
    rig.plane.registry = Arc::new(registry);
    let setting = rig.clone();
    let kernel = rig.executor.block_on(async move {
        let (plane, universe) = (&setting.plane, setting.universe);
        let descriptors = [("holder", 1), (lease_kernel::NAME, lease_kernel::VERSION)];
        for (name, version) in descriptors {
            plane.blobs().put(universe, native_descriptor(name, version).into(), &[]).await.unwrap();
        }
        let holder = plane.blobs().put(universe, holder.to_bytes().into(), &[]).await.unwrap();
        let kernel = plane.blobs().put(universe, kernel.to_bytes().into(), &[]).await.unwrap();
        register_trusted(plane, universe, &[holder, kernel]).await.unwrap();
        for world in [1, 2] {
            let new = NewWorld { universe, world: world_id(world), manifest: holder, inbox: None, now_ns: 1 };
            create(plane, new).await.unwrap();
        }
        kernel
    });
    let outside = Outside::default();
    let _node = start_with(&rig, 1, &outside);
    let pool = create_pool(&rig, kernel);
    let setting = Setting { rig, outside, pool, _node };
    let resources = vec![NewResource { resource_id: resource(), name: None, labels: Vec::new() }];
    setting.operate(Command::CreateResource { resources });
    setting
}

fn create_pool(rig: &Rig, kernel: Hash) -> WorldId {
    let ops = ops(rig);
    rig.executor.block_on(async move {
        let name: WorldName = "gpus".parse().unwrap();
        ops.pool_create(name.clone(), (1, PoolConfig::default()), kernel).await.unwrap();
        let pool = ops.pool(&name).await.unwrap();
        ops.pool_world(&pool, 0).unwrap()
    })
}

impl Setting {
    /// A command of an operator.
    fn operate(&self, command: Command) {
        let (ops, world) = (ops(&self.rig), self.pool);
        let operation_id = Some(OperationId::of_name(&format!("{command:?}")));
        let request = Request { operation_id, client_id: Some(ClientId::of_name("operator")), command };
        let sent = async move { ops.pool_command(world, &request, Duration::from_secs(5)).await.unwrap() };
        assert_eq!(self.rig.executor.block_on(sent).result.as_str(), "ok");
    }

    /// The receipt of an effect that a world asks for.
    fn receipt(&self, world: u64, kind: &str, label: &str, params: &Json) -> Json {
        let event = json!({ "kind": kind, "label": label, "params": params });
        let value = Payload::Inline(cbor::encode(&Value::from(event)));
        let input = Input::Event { schema: "do".into(), value, key: None };
        let (telling, asking, world) = (self.rig.clone(), ops(&self.rig), world_id(world));
        self.rig.executor.block_on(async move { telling.send(world, vec![input]).await.unwrap() });
        self.rig.executor.run_for(Duration::from_secs(3));
        let key = cbor::encode(&Value::Text(label.to_owned()));
        let cell = self.rig.executor.block_on(async move { asking.world_query(world, "cell", &key, None).await });
        cbor::decode::<Value>(&cell.unwrap()).unwrap().to_json().unwrap()
    }

    /// The pool's reply to a command of a world.
    fn reply(&self, world: u64, label: &str, command: &Json) -> Json {
        let call = json!({ "world": "gpus", "event": "pool.command", "value": { "command": command } });
        self.receipt(world, "world.call", label, &call)
    }

    /// A lease that a world reserved and activated.
    fn lease(&self, world: u64, label: &str) -> LeaseId {
        let reserve = json!({ "reserve": { "resource_id": resource(), "ttl_slots": 60 } });
        let reserved = self.reply(world, &format!("reserve {label}"), &reserve);
        assert_eq!(reserved["result"], "ok", "{reserved}");
        let lease = json!({ "lease_id": reserved["lease_id"], "lease_epoch": 1 });
        let activated = self.reply(world, &format!("activate {label}"), &json!({ "activate": lease }));
        assert_eq!(activated["result"], "ok", "{activated}");
        serde_json::from_value(reserved["lease_id"].clone()).unwrap()
    }

    /// An effect of a world under a lease: how it ended, and how often anything was carried out so far.
    fn work(&self, world: u64, label: &str, lease: &Json) -> (Json, usize) {
        let receipt = self.receipt(world, "http", label, &json!({ "url": "there", "lease": lease }));
        (receipt["code"].clone(), self.outside.calls().len())
    }
}

fn token(lease_id: LeaseId) -> Json {
    json!({ "pool": "gpus", "lease_id": lease_id, "lease_epoch": 1 })
}

#[test]
fn an_effect_begins_while_its_world_holds_the_lease_and_is_stale_after_a_revoke() {
    let setting = setting();
    let lease = setting.lease(1, "first");
    assert_eq!(setting.work(1, "held", &token(lease)), (Json::Null, 1), "it was carried out");
    let (mut later, mut unfenced) = (token(lease), token(lease));
    later["lease_epoch"] = json!(2);
    assert_eq!(setting.work(1, "foreign epoch", &later), (json!("STALE_EPOCH"), 1));
    assert_eq!(setting.work(2, "foreign world", &token(lease)), (json!("STALE_EPOCH"), 1));
    unfenced.as_object_mut().unwrap().remove("lease_epoch");
    assert_eq!(setting.work(1, "no epoch", &unfenced), (json!("EFFECT_PARAMS_INVALID"), 1), "not begun unfenced");
    assert_eq!(setting.work(1, "still held", &token(lease)), (Json::Null, 2));

    setting.operate(Command::revoke(lease));
    assert_eq!(setting.work(1, "revoked", &token(lease)), (json!("STALE_EPOCH"), 2), "not begun");
    setting.operate(Command::Reclaim { lease_id: lease });
    let next = setting.lease(2, "second");
    assert!(next > lease);
    assert_eq!(setting.work(2, "next holder", &token(next)), (Json::Null, 3));
    assert_eq!(setting.work(1, "reclaimed", &token(lease)), (json!("STALE_EPOCH"), 3));
    assert_eq!(setting.work(1, "lease of another", &token(next)), (json!("STALE_EPOCH"), 3));
}

/// A program that lost its lease, and does not know it, acts as if it had it: by the pool's commands and by effects.
#[test]
fn a_program_of_an_older_epoch_is_refused_wherever_it_acts() {
    let setting = setting();
    let lease = setting.lease(1, "first");
    let lost = json!({ "lease_id": lease, "lease_epoch": 1 });
    let acts_in_vain = |stage: &str| {
        for command in ["activate", "release"] {
            let replied = setting.reply(1, &format!("{command} {stage}"), &json!({ command: lost }));
            assert_eq!(replied["result"], "stale_epoch", "{command} {stage}: {replied}");
        }
        let before = setting.outside.calls().len();
        assert_eq!(setting.work(1, &format!("effect {stage}"), &token(lease)), (json!("STALE_EPOCH"), before));
        let (ops, authority) = (ops(&setting.rig), LeaseAuthority { epoch: 1, holder: world_id(1).into() });
        let beat = setting.rig.executor.block_on(async move {
            let pool = ops.pool(&"gpus".parse().unwrap()).await.unwrap();
            ops.pool_beat(&pool, lease, authority).await
        });
        assert_eq!(beat.unwrap_err().code(), Code::StaleEpoch, "{stage}");
    };
    setting.operate(Command::revoke(lease));
    acts_in_vain("revoking");
    setting.operate(Command::Reclaim { lease_id: lease });
    acts_in_vain("reclaimed");
    let next = setting.lease(2, "second");
    acts_in_vain("leased again");
    assert_eq!(setting.work(2, "next holder", &token(next)), (Json::Null, 1), "and the next holder acts");
}
