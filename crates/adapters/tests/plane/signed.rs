//! Adapters that sign their receipts.

use crate::rig::{adapter_worker, bodies, id, tell, with_worlds};
use futures_util::future::BoxFuture;
use mundi_kernel::manifest::{EffectRule, Manifest};
use mundi_model::{
    Value,
    record::{Body, Input, Receipt, ReceiptStatus},
};
use mundi_runtime::{
    Plane, Spawn,
    calls::Calls,
    effects::{
        Adapter, AdapterWorkerConfig, Call, denied,
        signature::{AdapterKeys, Statement, payload_hash, reason_hash},
    },
    lifecycle::{NewWorld, create, register_trusted},
    metrics::Metrics,
    testing::{Rig, manifest},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{blob::Blobs, protocol::Failure, testing::world_id};
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::{sync::Arc, time::Duration};

/// Answers, or fails; and signs, if it has a key.
struct Signer {
    pair: Option<Ed25519KeyPair>,
    fails: bool,
}

impl Adapter for Signer {
    fn name(&self) -> &str {
        "signer"
    }

    fn kinds(&self) -> &[&str] {
        &["http"]
    }

    fn sign(&self, statement: &[u8]) -> Option<Vec<u8>> {
        Some(self.pair.as_ref()?.sign(statement).as_ref().to_vec())
    }

    fn call<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async { if self.fails { Err(denied("no")) } else { Ok(Value::Null) } })
    }
}

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

/// The receipt of world 2, whose manifest asks for signatures or not, by an adapter with a key or without.
fn receipt(asks: bool, key: Option<u8>, signs: Option<u8>, fails: bool) -> (Rig, Receipt) {
    let rig = with_worlds(1, 1);
    let creating = rig.clone();
    rig.executor.block_on(async move {
        let (plane, universe) = (&creating.plane, creating.universe);
        let mut asking: Manifest = manifest();
        asking.effects.insert("http".into(), EffectRule { signed: asks, ..EffectRule::default() });
        let manifest = plane.blobs().put(universe, asking.to_bytes().into(), &[]).await.unwrap();
        register_trusted(plane, universe, &[manifest]).await.unwrap();
        let new = NewWorld { universe, world: world_id(2), manifest, inbox: None, now_ns: 1 };
        create(plane, new).await.unwrap();
    });
    let node = rig.executor.node();
    let plane = rig.on(&node);
    let config = WorkerConfig::new(rig.universe, id(1));
    let worlds = WorldWorker::start(plane.clone(), config, Calls::default(), Arc::new(Metrics::default()));
    let public = |seed| pair(seed).public_key().as_ref().try_into().unwrap();
    let keys = AdapterKeys::new(key.map(|seed| ("signer".to_owned(), public(seed))));
    let config = AdapterWorkerConfig { keys, ..AdapterWorkerConfig::default() };
    let adapters = adapter_worker(&plane, rig.universe, id(101), config, plane.entropy.clone())
        .serve(Arc::new(Signer { pair: signs.map(pair), fails }))
        .with_local_worlds(Arc::new(worlds));
    node.spawn(Box::pin(async move { drop(adapters.run(std::future::pending()).await) }));
    tell(&rig, world_id(2), "emit e");
    rig.executor.run_for(Duration::from_secs(2));
    let receipts = bodies(&rig, world_id(2)).into_iter().filter_map(|body| match body {
        Body::Ingress(ingress) => match ingress.item.input {
            Input::Receipt(receipt) => Some(receipt),
            _ => None,
        },
        _ => None,
    });
    let receipts: Vec<_> = receipts.collect();
    assert_eq!(receipts.len(), 1);
    drop(node);
    (rig, receipts.into_iter().next().unwrap())
}

#[test]
fn an_adapter_signs_its_receipts_and_one_that_cannot_serves_no_world_that_asks_for_it() {
    let (_, plain) = receipt(false, None, None, false);
    assert_eq!((plain.status, &plain.adapter[..], plain.signature), (ReceiptStatus::Ok, "signer", None));

    let (rig, signed) = receipt(true, Some(7), Some(7), false);
    assert_eq!((signed.status, &signed.adapter[..]), (ReceiptStatus::Ok, "signer"));
    let statement = Statement {
        universe: rig.universe,
        world: world_id(2),
        intent: signed.intent,
        kind: "http",
        status: ReceiptStatus::Ok,
        payload: payload_hash(&signed.payload),
        adapter: "signer",
    };
    assert_eq!(signed.signature.as_deref(), Some(pair(7).sign(&statement.to_bytes()).as_ref()), "on record");

    // Without a signature, with that of another key, and without a key to compare it with.
    for (asks, key, signs, code) in [
        (true, None, None, "SIGNATURE_MISSING"),
        (false, Some(7), None, "SIGNATURE_MISSING"),
        (false, Some(7), Some(8), "SIGNATURE_INVALID"),
        (true, None, Some(7), "SIGNATURE_INVALID"),
    ] {
        let (_, refused) = receipt(asks, key, signs, false);
        assert_eq!((refused.status, &refused.adapter[..], &refused.signature), (ReceiptStatus::Error, "worker", &None));
        assert!(String::from_utf8_lossy(&cbor_of(&refused)).contains(code), "{code}");
    }
}

#[test]
fn a_failure_is_signed_too_or_said_in_the_name_of_the_worker() {
    let (rig, signed) = receipt(true, Some(7), Some(7), true);
    let statement = Statement {
        universe: rig.universe,
        world: world_id(2),
        intent: signed.intent,
        kind: "http",
        status: ReceiptStatus::Error,
        payload: reason_hash("no"),
        adapter: "signer",
    };
    assert_eq!(signed.signature.as_deref(), Some(pair(7).sign(&statement.to_bytes()).as_ref()));
    let (_, unsigned) = receipt(true, Some(7), None, true);
    assert_eq!((unsigned.status, &unsigned.adapter[..]), (ReceiptStatus::Error, "worker"));
}

fn cbor_of(receipt: &Receipt) -> Vec<u8> {
    match &receipt.payload {
        mundi_model::record::Payload::Inline(bytes) => bytes.clone(),
        mundi_model::record::Payload::Blob(..) => Vec::new(),
    }
}
