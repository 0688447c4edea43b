use super::*;
use crate::{Code, Coded, Stamp};
use std::collections::BTreeMap;

fn seal(body: Body) -> (Vec<u8>, Hash) {
    Record { height: Height::new(500), prev: Record::CHAIN_START, body }.seal()
}

fn inline(bytes: &[u8]) -> Payload {
    Payload::Inline(bytes.to_vec())
}

fn seq() -> InboxSeq {
    InboxSeq::new(Stamp::new(1, 2), 3)
}

fn ingress(input: Input) -> Body {
    let stamps = Stamps {
        now_ns: 1,
        logical_now_ns: 2,
        entropy: [3; 16],
        manifest: Hash::of(b"manifest"),
        schema_work_max: None,
    };
    let sender = Sender { world: WorldId::from_bytes([6; 16]), height: Height::new(7) };
    let origin = Origin {
        enqueued_at_ns: 4,
        correlation_id: Some("c".into()),
        trace: None,
        wants_reply: true,
        sender: Some(sender),
        headers: BTreeMap::new(),
        call: None,
    };
    Body::Ingress(Ingress { stamps, seq: seq(), item: InboxItem { input, origin }, event_hash: None })
}

fn note() -> SnapshotNote {
    SnapshotNote {
        snapshot: Hash::of(b"snapshot"),
        height: Height::new(400),
        logical_time_ns: 9,
        receipt_horizon: None,
        manifest: Hash::of(b"manifest"),
        chain: Hash::of(b"chain"),
    }
}

/// One record of each kind, with every field set.
fn one_of_each() -> Vec<Body> {
    let (universe, world) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
    let intent = IntentHash::of(b"intent");
    let receipt = Receipt {
        intent,
        kind: "http".into(),
        status: ReceiptStatus::Timeout,
        payload: Payload::Blob(Hash::of(b"blob"), 4),
        adapter: "a".into(),
        signature: Some(vec![1]),
        operator: None,
    };
    let by_hand =
        Receipt { signature: None, operator: Some(Operator { token: Some(9), name: "ops".into() }), ..receipt.clone() };
    let headers = [("b", "1"), ("aa", "2")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    vec![
        Body::Genesis(Genesis { universe, world, manifest: Hash::of(b"manifest"), now_ns: 5 }),
        Body::ForkGenesis(ForkGenesis {
            universe,
            world,
            parent: WorldId::from_bytes([3; 16]),
            forked_at: Height::new(500),
            parent_snapshot: Hash::of(b"parent"),
            snapshot: Hash::of(b"child"),
            policy: EffectPolicy::RecordedThenLive,
            now_ns: 5,
            manifest: None,
            answers: None,
            told: None,
        }),
        ingress(Input::Event { schema: "e".into(), value: inline(b"\x01"), key: Some("k".into()) }),
        ingress(Input::Receipt(receipt)),
        ingress(Input::Message { inbox: "i".into(), payload: inline(b""), headers: headers.into() }),
        ingress(Input::TimerFired { timer: intent, payload: inline(b"p") }),
        ingress(Input::Control { command: "pause".into(), payload: inline(b"") }),
        Body::Intent(Intent { hash: intent, kind: "http".into(), params: inline(b"\xa0"), label: "l".into() }),
        Body::Cancel(intent),
        Body::Reply(Reply { to: seq(), outcome: ReplyOutcome::Ok(inline(b"r")) }),
        Body::Reply(Reply { to: seq(), outcome: ReplyOutcome::Failed("CODE".into(), "why".into(), None) }),
        Body::ManifestChange(ManifestChange { from: Hash::of(b"a"), to: Hash::of(b"b"), forced: true }),
        Body::Snapshot(note()),
        Body::BaselineSnapshot(SnapshotNote { receipt_horizon: Some(Height::new(3)), ..note() }),
        Body::Rejected(Rejected { seq: seq(), code: "CODE".into(), reason: "why".into(), item: Hash::of(b"item") }),
        Body::OutcomeDigest(Hash::of(b"outcome")),
        Body::Custom(Custom { kind: "c".into(), payload: inline(b"x") }),
        Body::StepFailed(StepFailed { code: "CODE".into(), reason: "why".into() }),
        Body::RecordingEnded(intent),
        ingress(Input::Receipt(by_hand)),
        with_headers(),
        Body::Held(Held { code: "CODE".into(), reason: "why".into(), failed: None }),
        Body::Held(Held {
            code: "CODE".into(),
            reason: "why".into(),
            failed: Some(FailedInput { seq: seq(), item: Hash::of(b"item"), what: "event e".into() }),
        }),
        Body::Reply(Reply {
            to: seq(),
            outcome: ReplyOutcome::Failed("CODE".into(), "why".into(), Some(Height::new(7))),
        }),
        for_a_call(),
    ]
}

/// A timer of a program that works for a call.
fn for_a_call() -> Body {
    let Body::Ingress(mut ingress) = ingress(Input::TimerFired { timer: IntentHash::of(b"t"), payload: inline(b"") })
    else {
        unreachable!()
    };
    ingress.item.origin = Origin { call: Some(seq()), ..Origin::new(4) };
    Body::Ingress(ingress)
}

/// An event with its hash and headers.
fn with_headers() -> Body {
    let event = Input::Event { schema: "e".into(), value: inline(b"\x01"), key: None };
    let Body::Ingress(ingress) = ingress(event) else { unreachable!() };
    let mut item = ingress.item;
    item.origin.headers = [("b".to_owned(), "1".to_owned()), ("aa".to_owned(), "2".to_owned())].into();
    Body::Ingress(Ingress::new(ingress.stamps, ingress.seq, item))
}

#[test]
fn an_event_has_the_same_hash_inline_and_as_an_object() {
    let event = |value, key: Option<&str>| Input::Event { schema: "e".into(), value, key: key.map(str::to_owned) };
    let hash = event(inline(b"\x01"), None).event_hash().unwrap();
    assert_eq!(event(Payload::Blob(Hash::of(b"\x01"), 1), None).event_hash(), Some(hash));
    assert_ne!(event(inline(b"\x02"), None).event_hash(), Some(hash));
    assert_ne!(event(inline(b"\x01"), Some("k")).event_hash(), Some(hash));
    assert_eq!(Input::Control { command: "pause".into(), payload: inline(b"") }.event_hash(), None);
}

/// These are persisted in every journal: a change here is a change of the format.
const GOLDEN: [&str; 25] = [
    "aee46272a6d176c8",
    "2aaa7d0b9a4cb50b",
    "bf6b0e1432901afe",
    "7649dcac5c7562dc",
    "fda02d68e1485054",
    "1307f3a7510a6987",
    "3d09c05aca5d5f02",
    "f93fb87495fae8d0",
    "c669cfc4ec8cd7bb",
    "752c04548aa75ca6",
    "1d8b255303e67559",
    "c4140fe8f69b8556",
    "e2cb5a2f09d77665",
    "831318518b2583fc",
    "296226e792b9845c",
    "764047f0ee7eb28d",
    "72cad70a2ac0b387",
    "f12bfb9876d1ab91",
    "af09d0ea522a183e",
    "2f06f8261e9ef4d2",
    "39e31f695ec1cef4",
    "2c8b8bd7999a8f29",
    "722883f0f57a6399",
    "6b9b12e9fd47fb81",
    "b71818d97ee0ccaf",
];

#[test]
fn the_hash_of_each_kind_of_record_is_pinned() {
    let hashes: Vec<_> = one_of_each().into_iter().map(|body| seal(body).1.to_hex()[..16].to_owned()).collect();
    assert_eq!(hashes, GOLDEN);
}

#[test]
fn the_bytes_of_a_record_can_be_written_by_hand() {
    let (bytes, _) = seal(Body::Cancel(IntentHash::from_bytes([0xee; 32])));
    let by_hand = [
        &[0x83, 0x19, 0x01, 0xf4, 0x58, 0x20][..], // array(3), 500, bytes(32)
        &[0; 32],
        &[0x82, 0x04, 0x81, 0x58, 0x20], // array(2), variant 4, array(1), bytes(32)
        &[0xee; 32],
    ];
    assert_eq!(bytes, by_hand.concat());
}

#[test]
fn each_kind_of_record_is_read_as_it_was_written() {
    for body in one_of_each() {
        let (bytes, _) = seal(body.clone());
        assert_eq!(cbor::decode::<Record>(&bytes).unwrap().body, body);
        for len in 0..bytes.len() {
            assert!(cbor::decode::<Record>(&bytes[..len]).is_err());
        }
    }
}

#[test]
fn headers_sort_as_their_encodings_do() {
    let headers = [("b".to_owned(), "1".to_owned()), ("aa".to_owned(), "2".to_owned())].into();
    let (bytes, _) = seal(ingress(Input::Message { inbox: "i".into(), payload: inline(b""), headers }));
    let canonical = b"\xa2\x61b\x611\x62aa\x612";
    let at = bytes.windows(canonical.len()).position(|window| window == canonical).unwrap();
    let mut swapped = bytes;
    swapped[at..at + canonical.len()].copy_from_slice(b"\xa2\x62aa\x612\x61b\x611");
    assert_eq!(cbor::decode::<Record>(&swapped).unwrap_err().code(), Code::CborNotCanonical);
}

#[test]
fn a_sealed_record_names_its_predecessor() {
    let (_, first) = seal(Body::OutcomeDigest(Hash::of(b"")));
    let next = |prev| Record { height: Height::new(501), prev, body: Body::Cancel(IntentHash::of(b"x")) };
    assert_ne!(next(first).seal().1, next(Record::CHAIN_START).seal().1);
}
