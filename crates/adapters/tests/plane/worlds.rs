//! Worlds that make worlds: from the step that asks to the world that lives.

use crate::rig::{self, ask, ops, start, tell};
use mundi_adapters::{
    fork::{ForkAdapter, branch_of},
    spawn::SpawnAdapter,
};
use mundi_model::{
    Code, Hash, Height, IntentHash, Value, WorldId,
    record::{Body, Input, ReceiptStatus},
};
use mundi_runtime::{
    Plane,
    effects::{Adapter, Call},
    testing::Rig,
};
use mundi_store::{
    blob::Blobs,
    protocol::{DescribeWorld, NameProgram, Repeat, WorldFilter},
    testing::{Trouble, unheld, world_id},
};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn rig_with_parent(seed: u64) -> Rig {
    rig::with_worlds(seed, 1)
}

#[test]
fn a_world_spawns_another_one_that_takes_its_first_message() {
    let rig = rig_with_parent(1);
    let _node = start(&rig, 1);
    tell(&rig, world_id(1), "spawn child hello");
    rig.executor.run_for(SECOND * 5);
    assert_eq!(ask(&rig, world_id(1), "receipt/child"), "got");
    let child: WorldId = ask(&rig, world_id(1), "spawned/child").parse().unwrap();
    // The first message is no script that the child knows: it took it and said so.
    let failed = |body: &Body| matches!(body, Body::StepFailed(failed) if failed.reason.contains("hello"));
    assert_eq!(rig::bodies(&rig, child).iter().filter(|body| failed(body)).count(), 1);
}

#[test]
fn a_world_spawns_none_of_what_was_not_registered() {
    let rig = rig_with_parent(1);
    let _node = start(&rig, 1);
    let mut manifest = mundi_runtime::testing::manifest();
    manifest.limits.timers_max = 7;
    let putting = rig.clone();
    let manifest = rig.executor.block_on(async move {
        Blobs::put(&putting.plane.blobs, putting.universe, manifest.to_bytes().into(), &[]).await.unwrap()
    });
    tell(&rig, world_id(1), &format!("spawn_of {manifest} child"));
    rig.executor.run_for(SECOND * 60);
    let refused = |body: &Body| match body {
        Body::Ingress(ingress) => match &ingress.item.input {
            Input::Receipt(receipt) => receipt.status == ReceiptStatus::Error,
            _ => false,
        },
        _ => false,
    };
    assert_eq!(rig::bodies(&rig, world_id(1)).iter().filter(|body| refused(body)).count(), 1);
    let ops = ops(&rig);
    let worlds = rig.executor.block_on(async move { ops.list_worlds(WorldFilter::default(), None, 10).await });
    assert_eq!(worlds.unwrap().items.len(), 1);
}

/// Gives the next version of a name to a manifest that is registered here.
fn name_program(rig: &Rig, name: &str, manifest: Hash) -> u32 {
    let (plane, universe, name) = (rig.plane.clone(), rig.universe, name.to_owned());
    rig.executor.block_on(async move {
        let naming = NameProgram { universe, name, version: None, manifest, program: Hash::of(b"code"), now_ns: 1 };
        plane.run(&naming).await.unwrap().output.version
    })
}

#[test]
fn a_world_spawns_one_of_a_program_by_its_name() {
    let rig = rig_with_parent(1);
    let _node = start(&rig, 1);
    assert_eq!(name_program(&rig, "todo", rig.manifest), 1);
    for (label, name) in [("newest", "todo"), ("certain", "todo@1"), ("none", "todo@2"), ("nobody", "nobody")] {
        tell(&rig, world_id(1), &format!("spawn_of {name} {label}"));
    }
    rig.executor.run_for(SECOND * 60);
    let status = |body: &Body| match body {
        Body::Ingress(ingress) => match &ingress.item.input {
            Input::Receipt(receipt) => Some(receipt.status),
            _ => None,
        },
        _ => None,
    };
    let heard: Vec<_> = rig::bodies(&rig, world_id(1)).iter().filter_map(status).collect();
    let count = |status| heard.iter().filter(|heard| **heard == status).count();
    assert_eq!((count(ReceiptStatus::Ok), count(ReceiptStatus::Error)), (2, 2));
    let ops = ops(&rig);
    let worlds = rig.executor.block_on(async move { ops.list_worlds(WorldFilter::default(), None, 10).await });
    let worlds = worlds.unwrap().items;
    assert_eq!(worlds.len(), 3);
    assert!(worlds.iter().all(|world| world.manifest == Some(rig.manifest)));
}

#[test]
fn a_later_attempt_finds_the_world_of_the_first_although_the_name_has_a_newer_version() {
    let rig = rig_with_parent(1);
    name_program(&rig, "todo", rig.manifest);
    let child = world_id(2).to_string();
    let attempt = |rig: &Rig| {
        let call = call(rig, "world.spawn", &[("dest_world", &child), ("manifest", "todo")]);
        let adapter = SpawnAdapter::new(rig.plane.clone());
        rig.executor.block_on(async move { adapter.call(&call).await.unwrap() })
    };
    assert_eq!(*status(&attempt(&rig)), Value::Text("ok".to_owned()));
    let mut newer = mundi_runtime::testing::manifest();
    newer.limits.timers_max = 7;
    let (putting, ops) = (rig.clone(), ops(&rig));
    let newer = rig.executor.block_on(async move {
        let newer = Blobs::put(&putting.plane.blobs, putting.universe, newer.to_bytes().into(), &[]).await.unwrap();
        ops.register_manifest(newer).await.unwrap();
        newer
    });
    assert_eq!(name_program(&rig, "todo", newer), 2);
    assert_eq!(*status(&attempt(&rig)), Value::Text("already_created".to_owned()));
    let (plane, universe) = (rig.plane.clone(), rig.universe);
    let describe = DescribeWorld { universe, world: world_id(2) };
    let found = rig.executor.block_on(async move { plane.run(&describe).await.unwrap().output });
    assert_eq!(found.manifest, Some(rig.manifest), "the world runs what it began with");
}

#[test]
fn a_branch_is_the_world_before_the_step_that_asked_so_that_it_does_not_ask_again() {
    for policy in ["suppress", "sandbox", "recorded", "recorded-then-live", "live"] {
        let rig = rig_with_parent(1);
        let _node = start(&rig, 1);
        tell(&rig, world_id(1), "put a before");
        rig.executor.run_for(SECOND);
        tell(&rig, world_id(1), &format!("put a after\nfork branch {policy}"));
        rig.executor.run_for(SECOND * 60);
        assert_eq!(ask(&rig, world_id(1), "receipt/branch"), "got");
        let ops = ops(&rig);
        let worlds = rig.executor.block_on(async move { ops.list_worlds(WorldFilter::default(), None, 10).await });
        let worlds = worlds.unwrap().items;
        assert_eq!(worlds.len(), 2, "one branch, which makes none of its own");
        let branch = worlds.iter().find(|world| world.world != world_id(1)).unwrap();
        assert_eq!(branch.meta.lineage.as_ref().unwrap().parent, world_id(1));
        assert_eq!(ask(&rig, branch.world, "a"), "before");
    }
}

/// The node crashes somewhere between the intent and the receipt, many times.
#[test]
fn however_often_workers_die_there_is_one_child_of_each_kind() {
    for seed in 0..8 {
        let rig = rig_with_parent(seed);
        tell(&rig, world_id(1), "spawn child hello\nfork branch suppress");
        for n in 1..=4 {
            let node = start(&rig, n);
            for _ in 0..40 + 37 * seed {
                rig.executor.poll_one();
            }
            node.crash();
            rig.executor.run_for(SECOND * 25); // leases and claims run out
        }
        let _node = start(&rig, 9);
        rig.executor.run_for(SECOND * 60);
        let ops = ops(&rig);
        let worlds = rig.executor.block_on(async move { ops.list_worlds(WorldFilter::default(), None, 10).await });
        assert_eq!(worlds.unwrap().items.len(), 3, "seed {seed}");
        for label in ["child", "branch"] {
            assert_eq!(ask(&rig, world_id(1), &format!("receipt/{label}")), "got", "seed {seed}");
        }
    }
}

fn call(rig: &Rig, kind: &str, params: &[(&str, &str)]) -> Call {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), Value::Text((*value).to_owned())));
    Call {
        universe: rig.universe,
        world: world_id(1),
        intent: IntentHash::of(kind.as_bytes()),
        height: Height::new(1),
        asked_at_ns: 7,
        kind: kind.into(),
        params: Value::Map(params.collect()),
        timeout_ms: 30_000,
        attempt: 1,
        trace: None,
        lease: None,
        claim: unheld(rig.universe, world_id(1), IntentHash::of(kind.as_bytes())),
    }
}

fn status(answer: &Value) -> &Value {
    let Value::Map(fields) = answer else { panic!("no map") };
    &fields["status"]
}

#[test]
fn an_attempt_that_dies_at_any_await_is_finished_by_the_next_one() {
    let child = world_id(2).to_string();
    for kind in ["world.spawn", "world.fork"] {
        let attempt = |rig: &Rig| {
            let manifest = rig.manifest.to_string();
            let params = [("dest_world", child.as_str()), ("manifest", manifest.as_str())];
            let call = call(rig, kind, if kind == "world.spawn" { &params } else { &[] });
            let adapter: Arc<dyn Adapter> = match kind {
                "world.spawn" => Arc::new(SpawnAdapter::new(rig.plane.clone())),
                _ => Arc::new(ForkAdapter::new(rig.plane.clone())),
            };
            rig.executor.block_on(async move { adapter.call(&call).await })
        };
        let whole = rig_with_parent(1);
        whole.plane.engine.revive();
        attempt(&whole).unwrap();
        let operations = whole.plane.engine.operations();
        assert!(operations >= 4);
        for operation in 0..operations {
            for trouble in Trouble::ALL {
                let rig = rig_with_parent(1);
                rig.plane.engine.arm(operation, trouble);
                let _ = attempt(&rig);
                rig.plane.engine.revive();
                attempt(&rig).unwrap();
                let last = attempt(&rig).unwrap();
                assert_eq!(status(&last), &Value::Text("already_created".into()), "{kind} {trouble:?} at {operation}");
            }
        }
    }
}

#[test]
fn what_cannot_be_made_is_an_error_receipt_at_once() {
    let rig = rig_with_parent(1);
    let (spawn, fork) = (SpawnAdapter::new(rig.plane.clone()), ForkAdapter::new(rig.plane.clone()));
    let nowhere = Hash::of(b"no manifest").to_string();
    let world = world_id(2).to_string();
    let spawning = call(&rig, "world.spawn", &[("dest_world", &world), ("manifest", &nowhere)]);
    let forking = call(&rig, "world.fork", &[("policy", "maybe")]);
    let unknown = call(&rig, "world.fork", &[("world", &world)]);
    rig.executor.block_on(async move {
        let failure = spawn.call(&spawning).await.unwrap_err();
        assert_eq!((failure.code, failure.repeat), (Code::ManifestNotRegistered, Repeat::Never));
        let failure = fork.call(&forking).await.unwrap_err();
        assert_eq!((failure.code, failure.repeat), (Code::EffectParamsInvalid, Repeat::Never));
        let failure = fork.call(&unknown).await.unwrap_err();
        assert_eq!((failure.code, failure.repeat), (Code::WorldNotFound, Repeat::Never));
    });
    assert_ne!(branch_of(IntentHash::of(b"a")), branch_of(IntentHash::of(b"b")));
}
