//! Calls between worlds: from the step that asks to the receipt that is the other world's reply.

use crate::rig::{self, ask, bodies, check, count, ops, start, tell, with_worlds};
use mundi_adapters::{
    reach::{Reach, UniversePolicy},
    world_call::WorldCallAdapter,
};
use mundi_model::{
    Code, Height, IntentHash, UniverseId, Value, WorldId, cbor, limits,
    record::{Body, EffectPolicy, InboxItem, Input, Payload, Receipt, ReceiptStatus},
};
use mundi_runtime::{
    Plane,
    effects::{Adapter, Call},
    lifecycle::{ForkAt, NewWorld, create, register_trusted},
    testing::{Rig, TestPlane, control, holding_manifests, manifest, register},
};
use mundi_store::{
    blob::Blobs,
    protocol::{CreateUniverse, Failure, Repeat},
    testing::{held_effect, world_id},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);
const OTHER: UniverseId = UniverseId::from_bytes([0xee; 16]);

/// The journaled receipts of a world's calls, with what they carry.
fn receipts(rig: &Rig, world: WorldId) -> Vec<(Receipt, Vec<u8>)> {
    let receipt = |body| match body {
        Body::Ingress(ingress) => match ingress.item.input {
            Input::Receipt(receipt) if receipt.kind == "world.call" => Some(receipt),
            _ => None,
        },
        _ => None,
    };
    let bytes = |receipt: Receipt| match receipt.payload.clone() {
        Payload::Inline(bytes) => (receipt, bytes),
        Payload::Blob(..) => panic!("a small one"),
    };
    bodies(rig, world).into_iter().filter_map(receipt).map(bytes).collect()
}

fn one_receipt(rig: &Rig, world: WorldId) -> (Receipt, Vec<u8>) {
    let mut receipts = receipts(rig, world);
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    receipts.remove(0)
}

fn fields(bytes: &[u8]) -> BTreeMap<String, Value> {
    match cbor::decode(bytes) {
        Ok(Value::Map(fields)) => fields,
        other => panic!("{other:?}"),
    }
}

/// The payload of a call's receipt, as the world has put it into a cell.
fn reply(rig: &Rig, world: WorldId, label: &str) -> Vec<u8> {
    let (ops, params) = (ops(rig), cbor::encode(&Value::Text(format!("reply/{label}"))));
    rig.executor.block_on(async move { ops.world_query(world, "cell", &params, None).await.unwrap() })
}

/// Sends a control to a world, which takes it.
fn order(rig: &Rig, world: WorldId, command: &str) {
    let (sending, input) = (rig.clone(), control(command));
    rig.executor.block_on(async move { sending.send(world, vec![input]).await.unwrap() });
    rig.executor.run_for(SECOND);
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The events that entered a world.
fn taken(rig: &Rig, world: WorldId) -> Vec<InboxItem> {
    let item = |body| match body {
        Body::Ingress(ingress) => Some(ingress.item),
        _ => None,
    };
    bodies(rig, world).into_iter().filter_map(item).filter(|item| matches!(item.input, Input::Event { .. })).collect()
}

#[test]
fn the_reply_of_another_world_is_the_receipt() {
    let rig = with_worlds(1, 2);
    let _node = start(&rig, 1);
    tell(&rig, world_id(1), &format!("call {} price 5000 add asked|reply fourty-two", world_id(2)));
    rig.executor.run_for(SECOND * 2);
    let (receipt, said) = one_receipt(&rig, world_id(1));
    assert_eq!((receipt.status, &*said, &*receipt.adapter), (ReceiptStatus::Ok, &b"fourty-two"[..], "call"));
    assert_eq!(ask(&rig, world_id(1), "receipt/price"), "Ok");
    let arrived = taken(&rig, world_id(2)).remove(0);
    assert!(arrived.origin.wants_reply);
    assert_eq!(arrived.origin.sender.unwrap().world, world_id(1), "the host says who calls");
    assert_eq!(arrived.origin.correlation_id.as_deref(), Some("price"));
    check(&rig, world_id(1));
    check(&rig, world_id(2));
}

/// No slot and no claim waits: more calls are open than an adapter worker has slots.
#[test]
fn calls_that_wait_take_no_slot() {
    let rig = with_worlds(2, 2);
    let _node = start(&rig, 1);
    let calls: Vec<String> =
        (0..200).map(|n| format!("call {} c{n} 600000 keep t{n}|later t{n} 20000", world_id(2))).collect();
    for some in calls.chunks(50) {
        tell(&rig, world_id(1), &some.join("\n"));
    }
    rig.executor.run_for(SECOND * 10);
    let asking = ops(&rig);
    let why = rig.executor.block_on(async move { asking.why(world_id(1)).await.unwrap() });
    assert!(why.causes[0].to_string().contains("waits for the other world's reply"), "{}", why.causes[0]);
    let listing = ops(&rig);
    let effects =
        rig.executor.block_on(async move { listing.list_effects(None, None, None, 1_000).await.unwrap().items });
    assert_eq!(effects.len(), 200);
    assert!(effects.iter().all(|effect| effect.claim.is_none()), "nobody holds them");
    tell(&rig, world_id(1), "emit other");
    rig.executor.run_for(SECOND * 2);
    assert_eq!(ask(&rig, world_id(1), "receipt/other"), "got");
    rig.executor.run_for(SECOND * 30);
    assert_eq!(
        receipts(&rig, world_id(1)).iter().filter(|(receipt, _)| receipt.status == ReceiptStatus::Ok).count(),
        200
    );
}

#[test]
fn a_world_that_calls_itself_and_worlds_that_call_each_other_do_not_wait_for_ever() {
    let rig = with_worlds(3, 2);
    let _node = start(&rig, 1);
    let (a, b) = (world_id(1), world_id(2));
    tell(&rig, a, &format!("call {a} own 5000 reply me"));
    rig.executor.run_for(SECOND * 2);
    assert_eq!(one_receipt(&rig, a).1, b"me");
    // A calls B, which calls A before it answers.
    tell(&rig, a, &format!("call {b} there 5000 keep back|call {a} back 5000 reply here"));
    rig.executor.run_for(SECOND * 2);
    let back = taken(&rig, a).into_iter().filter(|item| item.origin.sender.is_some_and(|sender| sender.world == b));
    assert_eq!(back.count(), 1);
    assert_eq!(one_receipt(&rig, b).1, b"here");
    let said = receipts(&rig, a).remove(1);
    assert_eq!((said.0.status, &*said.1), (ReceiptStatus::Ok, &b"back"[..]), "B answered when A had");
    // A calls B, which calls A, which answers only once B has answered.
    tell(&rig, a, &format!("call {b} knot 3000 keep tie|call {a} tie 60000 keep knot"));
    rig.executor.run_for(SECOND * 10);
    assert_eq!(ask(&rig, a, "receipt/knot"), "Timeout", "the deadline ends it");
    rig.executor.run_for(SECOND * 60);
    assert_eq!(ask(&rig, b, "receipt/tie"), "Ok", "A answered B when its own call was over");
    check(&rig, a);
    check(&rig, b);
}

#[test]
fn what_cannot_be_called_is_an_error_at_once() {
    let rig = with_worlds(4, 4);
    let _node = start(&rig, 1);
    let preparing = ops(&rig);
    rig.executor.block_on(async move { preparing.world_archive(world_id(2)).await.unwrap() });
    let from = world_id(1);
    for (label, script, code) in [
        ("nobody", format!("call {} nobody 5000 reply x", world_id(77)), Code::WorldNotFound),
        ("name", "call nobody-here name 5000 reply x".to_owned(), Code::WorldNotFound),
        ("bad", "call no|body bad 5000 reply x".to_owned(), Code::EffectParamsInvalid),
        ("archived", format!("call {} archived 5000 reply x", world_id(2)), Code::WorldArchived),
        ("never", format!("call {} never 0 reply x", world_id(3)), Code::EffectParamsInvalid),
        (
            "long",
            format!("call {} long {} reply x", world_id(3), limits::EFFECT_TIMEOUT_MS_MAX + 1),
            Code::EffectParamsInvalid,
        ),
    ] {
        let before = receipts(&rig, from).len();
        tell(&rig, from, &script);
        rig.executor.run_for(SECOND);
        let all = receipts(&rig, from);
        assert_eq!(all.len(), before + 1, "{label}");
        let (receipt, said) = all.last().unwrap();
        assert_eq!(receipt.status, ReceiptStatus::Error, "{label}");
        assert_eq!(fields(said)["code"], text(code.as_str()), "{label}");
    }
    assert!(taken(&rig, world_id(3)).is_empty());
    let reason = fields(&receipts(&rig, from)[1].1)["reason"].clone();
    assert!(matches!(&reason, Value::Text(reason) if reason.contains("`nobody-here`")), "{reason:?}");
}

#[test]
fn a_step_that_fails_at_the_destination_says_its_code_and_its_height() {
    let rig = with_worlds(5, 2);
    let _node = start(&rig, 1);
    tell(&rig, world_id(1), &format!("call {} c 5000 fail", world_id(2)));
    rig.executor.run_for(SECOND * 2);
    let (receipt, said) = one_receipt(&rig, world_id(1));
    let said = fields(&said);
    assert_eq!((receipt.status, &said["code"]), (ReceiptStatus::Error, &text("CALL_FAILED")));
    assert_eq!(said["failed_code"], text("PROGRAM_FAILED"));
    let is_failed = |body: &Body| matches!(body, Body::StepFailed(_));
    let at = bodies(&rig, world_id(2)).iter().position(is_failed).unwrap() - 1;
    assert_eq!(said["failed_at"], Value::Integer((at as u64).into()), "the record whose step it was");
}

#[test]
fn a_paused_destination_is_waited_for_until_the_deadline_and_what_it_replies_later_goes_nowhere() {
    let rig = with_worlds(6, 2);
    let _node = start(&rig, 1);
    order(&rig, world_id(2), "pause");
    tell(
        &rig,
        world_id(1),
        &format!("call {} short 3000 add n|reply x\ncall {} long 600000 reply y", world_id(2), world_id(2)),
    );
    rig.executor.run_for(SECOND * 20);
    let (receipt, said) = one_receipt(&rig, world_id(1));
    assert_eq!((receipt.status, &fields(&said)["code"]), (ReceiptStatus::Timeout, &text("CALL_TIMEOUT")));
    order(&rig, world_id(2), "resume");
    rig.executor.run_for(SECOND * 5);
    assert_eq!(count(&rig, world_id(2), "n"), 1, "it was taken all the same");
    let all = receipts(&rig, world_id(1));
    assert_eq!((all.len(), ask(&rig, world_id(1), "receipt/long")), (2, "Ok".to_owned()));
    check(&rig, world_id(1));
}

/// The caller runs on one node, its effects on another, the destination on a third.
#[test]
fn a_call_crosses_the_processes_of_a_fleet() {
    let rig = with_worlds(7, 8);
    let nodes = [start(&rig, 1), start(&rig, 2), start(&rig, 3)];
    for n in 1..=4 {
        tell(&rig, world_id(n), &format!("call {} c 60000 add n|reply r{n}", world_id(4 + n)));
    }
    rig.executor.run_for(SECOND * 40);
    for n in 1..=4 {
        let (receipt, said) = one_receipt(&rig, world_id(n));
        assert_eq!((receipt.status, said), (ReceiptStatus::Ok, format!("r{n}").into_bytes()));
        assert_eq!(count(&rig, world_id(4 + n), "n"), 1);
    }
    drop(nodes);
}

/// A call that a program withdraws: the destination hears it or not, and the reply goes nowhere.
#[test]
fn a_call_that_is_withdrawn_has_no_receipt() {
    let rig = with_worlds(8, 2);
    let _node = start(&rig, 1);
    tell(&rig, world_id(1), &format!("call {} c 60000 keep t|later t 3000", world_id(2)));
    rig.executor.run_for(SECOND);
    tell(&rig, world_id(1), "cancel c");
    rig.executor.run_for(SECOND * 120);
    assert!(receipts(&rig, world_id(1)).is_empty());
    let replied = bodies(&rig, world_id(2)).iter().filter(|body| matches!(body, Body::Reply(_))).count();
    assert_eq!(replied, 1);
    check(&rig, world_id(2));
}

/// A node dies at every few awaits between the step that calls and the receipt; another one goes on.
#[test]
fn a_node_that_dies_at_any_await_of_a_call_neither_loses_nor_repeats_it() {
    let prepare = || {
        let rig = with_worlds(9, 2);
        tell(&rig, world_id(1), &format!("add n\ncall {} c 600000 add n|reply x", world_id(2)));
        let node = start(&rig, 1);
        (rig, node)
    };
    let (rig, node) = prepare();
    let before = rig.executor.polls();
    rig.executor.run_for(SECOND / 5);
    let undisturbed = rig.executor.polls() - before;
    assert_eq!(one_receipt(&rig, world_id(1)).0.status, ReceiptStatus::Ok);
    drop(node);
    let stride = if std::env::var("MUNDI_EVERY_AWAIT").is_ok() { 1 } else { 17 };
    for polls in (0..undisturbed).step_by(stride) {
        let (rig, node) = prepare();
        for _ in 0..polls {
            if !rig.executor.poll_one() {
                break;
            }
        }
        node.crash();
        let second = start(&rig, 2);
        rig.executor.run_for(SECOND * 45);
        for world in [world_id(1), world_id(2)] {
            assert_eq!(count(&rig, world, "n"), 1, "after {polls} polls");
            check(&rig, world);
        }
        let (receipt, said) = one_receipt(&rig, world_id(1));
        assert_eq!((receipt.status, &*said), (ReceiptStatus::Ok, &b"x"[..]), "after {polls} polls");
        drop(second);
    }
}

/// The treatment of a call that was open at the fork, and of a new one, by each policy.
#[test]
fn a_fork_makes_the_calls_that_its_policy_lets_out() {
    for (policy, inherited, new, calls) in [
        (EffectPolicy::Suppress, "EFFECT_CANCELLED", "Ok", 2),
        (EffectPolicy::Sandbox, "EFFECT_SANDBOXED", "EFFECT_SANDBOXED", 1),
        (EffectPolicy::Recorded, "EFFECT_NOT_RECORDED", "held", 1),
        (EffectPolicy::RecordedThenLive, "EFFECT_NOT_RECORDED", "Ok", 2),
        (EffectPolicy::Live, "Ok", "Ok", 3),
    ] {
        let rig = with_worlds(10, 2);
        let node = start(&rig, 1);
        let (parent, child, other) = (world_id(1), world_id(5), world_id(2));
        order(&rig, other, "pause");
        tell(&rig, parent, &format!("call {other} open 900000 add n|reply old"));
        rig.executor.run_for(SECOND * 2);
        let forking = ops(&rig);
        rig.executor.block_on(async move { forking.world_fork(parent, child, ForkAt::Head, policy, 1).await.unwrap() });
        assert!(receipts(&rig, parent).is_empty(), "{policy:?}: it is open");
        tell(&rig, child, &format!("call {other} new 900000 add n|reply x"));
        rig.executor.run_for(SECOND * 30);
        order(&rig, other, "resume");
        rig.executor.run_for(SECOND * 60);
        assert_eq!(count(&rig, other, "n"), calls, "{policy:?}");
        let heard = |label: &str| match ask(&rig, child, &format!("receipt/{label}")).as_str() {
            "Ok" => "Ok".to_owned(),
            "" => "held".to_owned(),
            _ => {
                let said = fields(&reply(&rig, child, label));
                let Some(Value::Text(code)) = said.get("code") else { panic!("{said:?}") };
                code.clone()
            }
        };
        assert_eq!((heard("open").as_str(), heard("new").as_str()), (inherited, new), "{policy:?}");
        let (receipt, said) = one_receipt(&rig, parent);
        assert_eq!((receipt.status, &*said), (ReceiptStatus::Ok, &b"old"[..]), "{policy:?}: of the parent's own call");
        drop(node);
    }
}

/// A fork of the destination, with the call taken and not answered.
#[test]
fn a_fork_of_the_destination_answers_nobody() {
    let rig = with_worlds(11, 2);
    let _node = start(&rig, 1);
    let (caller, called, branch) = (world_id(1), world_id(2), world_id(6));
    tell(&rig, caller, &format!("call {called} c 900000 keep t|later t 30000"));
    rig.executor.run_for(SECOND * 2);
    let forking = ops(&rig);
    rig.executor.block_on(async move {
        forking.world_fork(called, branch, ForkAt::Head, EffectPolicy::Live, 1).await.unwrap()
    });
    rig.executor.run_for(SECOND * 60);
    let replied = |world| bodies(&rig, world).iter().filter(|body| matches!(body, Body::Reply(_))).count();
    assert_eq!((replied(called), replied(branch)), (1, 1));
    assert_eq!(one_receipt(&rig, caller).0.status, ReceiptStatus::Ok);
}

struct Route {
    from: UniverseId,
    to: UniverseId,
}

impl UniversePolicy for Route {
    fn accepts(&self, to: UniverseId, from: UniverseId) -> bool {
        (to, from) == (self.to, self.from)
    }
}

fn attempt(rig: &Rig, adapter: WorldCallAdapter<TestPlane>, params: &[(&str, Value)]) -> Result<Value, Failure> {
    let (engine, universe, intent) = (rig.plane.engine.clone(), rig.universe, IntentHash::of(b"i"));
    let held = async move { held_effect(&engine, universe, world_id(1), "world.call", intent).await.unwrap() };
    let call = Call {
        universe,
        world: world_id(1),
        intent,
        height: Height::new(3),
        asked_at_ns: rig.plane.now_ns(),
        kind: "world.call".into(),
        params: Value::Map(params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()),
        timeout_ms: 30_000,
        attempt: 1,
        trace: None,
        lease: None,
        claim: rig.executor.block_on(held),
    };
    rig.executor.block_on(async move { adapter.call(&call).await })
}

#[test]
fn a_call_crosses_into_a_universe_that_accepts_it_and_into_no_other() {
    let rig = with_worlds(12, 2);
    let plane = rig.plane.clone();
    rig.executor.block_on(async move {
        plane.run(&CreateUniverse { universe: OTHER, now_ns: 1 }).await.unwrap();
        let descriptor = register(&mut mundi_kernel::Registry::new());
        plane.blobs().put(OTHER, descriptor.into(), &[]).await.unwrap();
        let manifest = plane.blobs().put(OTHER, manifest().to_bytes().into(), &[]).await.unwrap();
        register_trusted(&plane, OTHER, &[manifest]).await.unwrap();
        create(&plane, NewWorld { universe: OTHER, world: world_id(2), manifest, inbox: None, now_ns: 1 })
            .await
            .unwrap();
    });
    let there =
        [("world", text(&world_id(2).to_string())), ("event", text("script")), ("universe", text(&OTHER.to_string()))];
    let reach = || Reach::new(rig.plane.clone());
    let adapter = || WorldCallAdapter::over(reach());
    let denied = attempt(&rig, adapter(), &there).unwrap_err();
    assert_eq!((denied.code, denied.repeat), (Code::UniverseDenied, Repeat::Never));
    let back = Arc::new(Route { from: OTHER, to: rig.universe });
    assert_eq!(
        attempt(&rig, WorldCallAdapter::over(reach().with_universes(back)), &there).unwrap_err().code,
        Code::UniverseDenied
    );
    let route = Arc::new(Route { from: rig.universe, to: OTHER });
    assert!(attempt(&rig, WorldCallAdapter::over(reach().with_universes(route)), &there).is_ok());
    let here = [("world", text(&world_id(2).to_string())), ("event", text("nope"))];
    assert_eq!(attempt(&rig, adapter(), &here).unwrap_err().code, Code::EventInvalid);
}

/// A world on hold answers nobody before an operator comes.
#[test]
fn a_destination_on_hold_is_an_error() {
    let rig = rig::with_worlds(13, 1);
    let _node = start(&rig, 1);
    let (creating, held) = (rig.clone(), world_id(4));
    rig.executor.block_on(async move {
        let [holding, _] = holding_manifests();
        let plane = &creating.plane;
        let manifest = Blobs::put(&plane.blobs, creating.universe, holding.to_bytes().into(), &[]).await.unwrap();
        register_trusted(plane, creating.universe, &[manifest]).await.unwrap();
        let new = NewWorld { universe: creating.universe, world: held, manifest, inbox: None, now_ns: 1 };
        create(plane, new).await.unwrap();
    });
    tell(&rig, held, "fail");
    rig.executor.run_for(SECOND * 5);
    tell(&rig, world_id(1), &format!("call {held} c 5000 reply x"));
    rig.executor.run_for(SECOND * 2);
    let (receipt, said) = one_receipt(&rig, world_id(1));
    assert_eq!((receipt.status, &fields(&said)["code"]), (ReceiptStatus::Error, &text("WORLD_ON_HOLD")));
}
