//! A fixed corpus for every decoder: valid bytes, cut short at every length, and with bits changed. The fuzzer continues
//! from there (`fuzz/`).

use mundi_model::{
    Hash, Height, InboxSeq, IntentHash, Stamp, UniverseId, Value, WorkerId, WorldId, cbor,
    record::{Body, EffectPolicy, ForkGenesis, InboxItem, Ingress, Input, Origin, Payload, Record, Sender, Stamps},
};
use mundi_runtime::shell::Frame;
use mundi_sim::decoders;
use mundi_store::{keyspace::journal_entry, testing::Rng};

fn seeds() -> Vec<Vec<u8>> {
    let (universe, world) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
    let sender = Some(Sender { world, height: Height::new(7) });
    let origin = Origin { correlation_id: Some("c".into()), wants_reply: true, sender, ..Origin::new(4) };
    let input = Input::TimerFired { timer: IntentHash::of(b"timer"), payload: Payload::Blob(Hash::of(b"x"), 9) };
    let item = InboxItem { input, origin };
    let stamps = Stamps {
        now_ns: 1,
        logical_now_ns: 2,
        entropy: [3; 16],
        manifest: Hash::of(b"manifest"),
        schema_work_max: None,
    };
    let seq = InboxSeq::new(Stamp::new(1, 2), 3);
    let ingress = Body::Ingress(Ingress::new(stamps, seq, item.clone()));
    let fork = Body::ForkGenesis(ForkGenesis {
        universe,
        world,
        parent: world,
        forked_at: Height::new(500),
        parent_snapshot: Hash::of(b"parent"),
        snapshot: Hash::of(b"child"),
        policy: EffectPolicy::Live,
        now_ns: 5,
        manifest: None,
        answers: None,
        told: None,
    });
    let record = |body| cbor::encode(&Record { height: Height::new(500), prev: Record::CHAIN_START, body });
    let value =
        Value::Array(vec![Value::Text("a".into()), Value::Bytes(vec![1, 2]), Value::Integer(7.into()), Value::Null]);
    let frame = WorkerId::new(3).map(|worker| Frame::command(worker, vec![7; 16], b"payload".to_vec()).encode());
    let mut seeds = vec![record(ingress), record(fork), cbor::encode(&item), cbor::encode(&value)];
    seeds.extend(frame.and_then(Result::ok));
    seeds.push(journal_entry::key(universe, world, Height::new(9)).as_bytes().to_vec());
    seeds
}

#[test]
fn no_decoder_panics_and_what_one_accepts_has_one_encoding() {
    let mut rng = Rng::new(1);
    for (_, decode) in decoders::ALL {
        for seed in seeds() {
            (0..=seed.len()).for_each(|len| decode(&seed[..len]));
            for _ in 0..2_000 {
                let mut bytes = seed.clone();
                for _ in 0..=rng.below(3) {
                    let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap_or(0);
                    bytes[at] = u8::try_from(rng.below(256)).unwrap_or(0);
                }
                decode(&bytes);
            }
        }
    }
}

#[test]
fn every_decoder_has_a_fuzz_target() {
    for (name, _) in decoders::ALL {
        let target = format!("{}/../../fuzz/fuzz_targets/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(std::path::Path::new(&target).exists(), "{target}");
    }
}
