//! Messages between worlds: what they carry, what a destination takes, and which universes they cross.

use crate::rig::{bodies, count, ops, start, tell, with_worlds};
use mundi_adapters::{
    fabric::FabricAdapter,
    reach::{Reach, UniversePolicy},
};
use mundi_model::{
    Code, Hash, Height, IntentHash, UniverseId, Value, WorldId, WorldName, cbor, limits,
    record::{Body, InboxItem, Input, Payload, Receipt, ReceiptStatus},
};
use mundi_runtime::{
    Plane,
    effects::{
        Adapter, Call,
        policy::{PolicyContexts, PolicyError},
    },
    lifecycle::{NewWorld, create, register_trusted},
    testing::{Rig, TestPlane, manifest, register},
};
use mundi_store::{
    blob::Blobs,
    keyspace::effect_pending::{EffectItem, EffectTerms},
    protocol::{CreateUniverse, Failure, Repeat},
    testing::{held_effect, world_id},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const OTHER: UniverseId = UniverseId::from_bytes([0xee; 16]);

/// Accepts messages of one universe into another.
struct Route {
    from: UniverseId,
    to: UniverseId,
}

impl UniversePolicy for Route {
    fn accepts(&self, to: UniverseId, from: UniverseId) -> bool {
        (to, from) == (self.to, self.from)
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// An attempt that holds its effect.
fn call(rig: &Rig, intent: &str, params: &[(&str, Value)]) -> Call {
    let (engine, universe, intent) = (rig.plane.engine.clone(), rig.universe, IntentHash::of(intent.as_bytes()));
    let held = async move { held_effect(&engine, universe, world_id(1), "fabric.send", intent).await.unwrap() };
    Call {
        universe,
        world: world_id(1),
        intent,
        height: Height::new(3),
        asked_at_ns: 7,
        kind: "fabric.send".into(),
        params: Value::Map(params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()),
        timeout_ms: 30_000,
        attempt: 1,
        trace: None,
        lease: None,
        claim: rig.executor.block_on(held),
    }
}

fn event(to: WorldId, schema: &str) -> Vec<(&'static str, Value)> {
    let value = Value::Bytes(cbor::encode(&text("add n")));
    let to = text(&to.to_string());
    vec![("dest_world", to), ("mode", text("typed_event")), ("schema", text(schema)), ("value_cbor", value)]
}

type Sent = Result<BTreeMap<String, Value>, Failure>;

fn send(rig: &Rig, params: &[(&str, Value)], intent: &str) -> Sent {
    send_by(FabricAdapter::new(rig.plane.clone()), rig, params, intent)
}

fn send_by(adapter: FabricAdapter<TestPlane>, rig: &Rig, params: &[(&str, Value)], intent: &str) -> Sent {
    let call = call(rig, intent, params);
    match rig.executor.block_on(async move { adapter.call(&call).await })? {
        Value::Map(receipt) => Ok(receipt),
        other => panic!("{other:?}"),
    }
}

fn waiting(rig: &Rig, world: u64) -> u64 {
    let ops = ops(rig);
    rig.executor.block_on(async move { ops.describe_world(world_id(world)).await.unwrap().inbox.items })
}

fn ingress(rig: &Rig, world: u64) -> Vec<InboxItem> {
    let item = |body| match body {
        Body::Ingress(ingress) => Some(ingress.item),
        _ => None,
    };
    bodies(rig, world_id(world)).into_iter().filter_map(item).collect()
}

fn receipt(rig: &Rig, world: u64) -> (Receipt, BTreeMap<String, Value>) {
    let receipt = |item: InboxItem| match item.input {
        Input::Receipt(receipt) => Some(receipt),
        _ => None,
    };
    let receipt = ingress(rig, world).into_iter().find_map(receipt).expect("a receipt");
    let Payload::Inline(bytes) = &receipt.payload else { panic!("a small one") };
    let Ok(Value::Map(fields)) = cbor::decode(bytes) else { panic!("a map") };
    (receipt, fields)
}

/// A name stands for the world that has it in the universe of the destination, and an error says the name.
#[test]
fn a_message_reaches_a_world_by_its_name() {
    let rig = with_worlds(1, 1);
    let bob: WorldName = "bob".parse().unwrap();
    let (creating, world) = (rig.clone(), bob.world(rig.universe));
    rig.executor.block_on(async move { creating.create(world).await.unwrap() });
    let to = |name: &str| {
        let mut params = event(world, "script");
        params[0].1 = text(name);
        params
    };
    let receipt = send(&rig, &to("bob"), "first").unwrap();
    assert_eq!((&receipt["status"], &receipt["dest_world"]), (&text("ok"), &text("bob")));
    let ops = ops(&rig);
    let found = rig.executor.block_on(async move {
        ops.name_world(bob).await.unwrap();
        ops.describe_world(world).await.unwrap()
    });
    assert_eq!((found.inbox.items, found.meta.name.as_deref()), (1, Some("bob")));
    let refused = send(&rig, &to("nobody"), "second").unwrap_err();
    assert_eq!((refused.code, refused.repeat), (Code::WorldNotFound, Repeat::Never));
    assert!(refused.reason.contains("`nobody`"), "{}", refused.reason);
    assert_eq!(send(&rig, &to("no body"), "third").unwrap_err().code, Code::EffectParamsInvalid);
}

#[test]
fn a_message_reaches_its_world_once_and_an_unknown_world_is_an_error() {
    let rig = with_worlds(1, 2);
    let to = world_id(2);
    let params = [
        ("dest_world", text(&to.to_string())),
        ("mode", text("inbox")),
        ("inbox", text("mail")),
        ("payload_cbor", Value::Bytes(vec![0xf6])),
        ("headers", Value::Map([("a".to_owned(), text("b"))].into())),
    ];
    for status in ["ok", "already_enqueued"] {
        let sent = send(&rig, &params, "m").unwrap();
        let id = text(&IntentHash::of(b"m").to_string());
        assert_eq!((&sent["status"], &sent["message_id"]), (&text(status), &id));
        assert_eq!(sent["dest_world"], text(&to.to_string()));
        assert!(matches!(&sent["enqueued_seq"], Value::Bytes(seq) if seq.len() == 12));
    }
    assert_eq!(waiting(&rig, 2), 1);
    let failure = send(&rig, &event(world_id(77), "script"), "n").unwrap_err();
    assert_eq!((failure.code, failure.repeat), (Code::WorldNotFound, Repeat::Never));
}

#[test]
fn an_event_that_the_destination_does_not_take_is_not_enqueued() {
    let rig = with_worlds(2, 2);
    let failure = send(&rig, &event(world_id(2), "nope"), "m").unwrap_err();
    assert_eq!((failure.code, failure.repeat), (Code::EventInvalid, Repeat::Never));
    assert_eq!(waiting(&rig, 2), 0);
    assert_eq!(send(&rig, &event(world_id(2), "script"), "m").unwrap()["status"], text("ok"));
    assert_eq!(waiting(&rig, 2), 1);
    // What an earlier attempt sent stays sent, whatever the destination's manifest says by now.
    let again = send(&rig, &event(world_id(2), "nope"), "m").unwrap();
    assert_eq!(again["status"], text("already_enqueued"));
}

#[test]
fn a_message_under_a_chosen_id_is_enqueued_once_whoever_sends_it() {
    let rig = with_worlds(3, 2);
    let mut params = event(world_id(2), "script");
    params.push(("message_id", text(&Hash::of(b"order 7").to_string())));
    for (intent, status) in [("a", "ok"), ("b", "already_enqueued")] {
        let sent = send(&rig, &params, intent).unwrap();
        assert_eq!((&sent["status"], &sent["message_id"]), (&text(status), &params[4].1));
    }
    // It never meets an intent's: nobody can be kept from sending by a guess.
    let mut guessed = event(world_id(2), "script");
    guessed.push(("message_id", text(&Hash::from_bytes(*IntentHash::of(b"victim").as_bytes()).to_string())));
    send(&rig, &guessed, "attacker").unwrap();
    assert_eq!(send(&rig, &event(world_id(2), "script"), "victim").unwrap()["status"], text("ok"));
}

#[test]
fn headers_beyond_their_bounds_are_refused_before_they_are_enqueued() {
    let rig = with_worlds(4, 2);
    let many = (0..=limits::HEADERS_MAX).map(|n| (n.to_string(), text("v")));
    let large = [("h".to_owned(), text(&"v".repeat(limits::HEADERS_BYTES_MAX)))];
    for headers in [many.collect(), BTreeMap::from(large)] {
        let mut params = event(world_id(2), "script");
        params.push(("headers", Value::Map(headers)));
        assert_eq!(send(&rig, &params, "m").unwrap_err().code, Code::EffectParamsInvalid);
    }
    assert_eq!(waiting(&rig, 2), 0);
}

/// World 2 in another universe, too.
fn with_other_universe(seed: u64) -> Rig {
    let rig = with_worlds(seed, 2);
    let plane = rig.plane.clone();
    rig.executor.block_on(async move {
        plane.run(&CreateUniverse { universe: OTHER, now_ns: 1 }).await.unwrap();
        let descriptor = register(&mut mundi_kernel::Registry::new());
        plane.blobs().put(OTHER, descriptor.into(), &[]).await.unwrap();
        let manifest = plane.blobs().put(OTHER, manifest().to_bytes().into(), &[]).await.unwrap();
        register_trusted(&plane, OTHER, &[manifest]).await.unwrap();
        let new = NewWorld { universe: OTHER, world: world_id(2), manifest, inbox: None, now_ns: 1 };
        create(&plane, new).await.unwrap();
    });
    rig
}

#[test]
fn a_message_crosses_into_a_universe_that_accepts_it_and_into_no_other() {
    let rig = with_other_universe(5);
    let mut params = event(world_id(2), "script");
    params.push(("dest_universe", text(&OTHER.to_string())));
    let failure = send(&rig, &params, "m").unwrap_err();
    assert_eq!((failure.code, failure.repeat), (Code::UniverseDenied, Repeat::Never));
    assert!(failure.reason.contains("`universes.NAME.accepts_from`"), "the setting is named: {}", failure.reason);
    for (route, goes) in
        [(Route { from: OTHER, to: rig.universe }, false), (Route { from: rig.universe, to: OTHER }, true)]
    {
        let adapter = FabricAdapter::over(Reach::new(rig.plane.clone()).with_universes(Arc::new(route)));
        assert_eq!(send_by(adapter, &rig, &params, "m").is_ok(), goes);
    }
    assert_eq!(waiting(&rig, 2), 0, "nothing entered the world of the same id here");
    let own = ("dest_universe", text(&rig.universe.to_string()));
    let params = [&event(world_id(2), "script")[..], &[own]].concat();
    assert_eq!(send(&rig, &params, "own").unwrap()["status"], text("ok"), "within a universe nobody is asked");
}

#[test]
fn what_a_program_says_beside_an_event_arrives_with_it() {
    let rig = with_worlds(6, 2);
    let _node = start(&rig, 1);
    tell(&rig, world_id(1), &format!("event - {} order-7 add n", world_id(2)));
    rig.executor.run_for(Duration::from_secs(2));
    assert_eq!(count(&rig, world_id(2), "n"), 1);
    let arrived = ingress(&rig, 2).remove(0);
    assert_eq!(arrived.origin.correlation_id.as_deref(), Some("order-7"));
    assert_eq!(arrived.origin.headers, [("label".to_owned(), "order-7".to_owned())].into());
    assert_eq!(arrived.origin.sender.unwrap().world, world_id(1));
    let recorded = bodies(&rig, world_id(2)).into_iter().find_map(|body| match body {
        Body::Ingress(ingress) => ingress.event_hash,
        _ => None,
    });
    assert_eq!(recorded, arrived.input.event_hash());
    assert!(recorded.is_some());
}

#[test]
fn the_receipt_of_a_message_that_was_not_sent_says_what_that_of_one_that_was_says() {
    for (script, code) in [
        (format!("event - {} m add n", world_id(77)), Code::WorldNotFound),
        (format!("event {OTHER} {} m add n", world_id(2)), Code::UniverseDenied),
        // Too large to be in the queue.
        (format!("event - {} m {}", world_id(77), "x".repeat(40_000)), Code::WorldNotFound),
    ] {
        let rig = with_worlds(7, 2);
        let _node = start(&rig, 1);
        tell(&rig, world_id(1), &script);
        rig.executor.run_for(Duration::from_secs(2));
        let (receipt, fields) = receipt(&rig, 1);
        assert_eq!(receipt.status, ReceiptStatus::Error);
        assert_eq!((&fields["status"], &fields["code"]), (&text("error"), &text(code.as_str())));
        assert_eq!(fields["message_id"], text(&receipt.intent.to_string()));
        assert!(matches!(&fields["dest_world"], Value::Text(world) if script.contains(world)), "{fields:?}");
        assert_eq!(fields["enqueued_seq"], Value::Null);
    }
}

#[test]
fn an_effect_is_carried_out_only_if_the_manifest_that_it_names_allows_its_kind() {
    let rig = with_worlds(8, 1);
    let (plane, universe, contexts) = (rig.plane.clone(), rig.universe, PolicyContexts::default());
    rig.executor.block_on(async move {
        let context = plane.blobs().put(universe, manifest().to_bytes().into(), &[]).await.unwrap();
        let item = |kind: &str, policy_context| EffectItem {
            world: world_id(1),
            intent: IntentHash::of(b"i"),
            height: Height::new(1),
            kind: kind.to_owned(),
            params: Payload::Inline(vec![0xf6]),
            label: String::new(),
            policy_context,
            published_at_ns: 0,
            trace: None,
            terms: EffectTerms::default(),
            correlation_id: None,
            call: None,
            lease: None,
        };
        let check = async |item: EffectItem| contexts.check(plane.blobs(), universe, &item).await;
        assert!(check(item("http", Some(context))).await.is_ok());
        assert!(matches!(check(item("mail", Some(context))).await, Err(PolicyError::Denied { .. })));
        assert!(check(item("mail", None)).await.is_ok(), "of before there were contexts");
        let missing = check(item("http", Some(Hash::of(b"nowhere")))).await;
        assert!(matches!(missing, Err(PolicyError::Store(_))));
    });
}
