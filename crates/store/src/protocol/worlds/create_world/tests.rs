use super::*;
use mundi_model::{
    Code, Coded,
    record::{EffectPolicy, ForkGenesis, Genesis},
};

fn ids() -> (UniverseId, WorldId) {
    (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]))
}

fn facts(height: u64) -> SnapshotFacts {
    SnapshotFacts {
        height: Height::new(height),
        logical_time_ns: 0,
        manifest: Hash::of(b"m"),
        roots: vec![Hash::of(b"m")],
        receipt_horizon: Some(Height::new(height)),
        open_intents: vec![],
        paused: false,
    }
}

fn request(height: u64, prev: Hash, body: Body) -> CreateWorld {
    let (universe, world) = ids();
    let first = Record { height: Height::new(height), prev, body };
    CreateWorld {
        universe,
        world,
        first,
        snapshot: Bytes::new(),
        inbox: None,
        inherited: Inherited::default(),
        commands: Vec::new(),
        name: None,
        labels: None,
        now_ns: 0,
    }
}

fn genesis() -> Body {
    let (universe, world) = ids();
    Body::Genesis(Genesis { universe, world, manifest: Hash::of(b"m"), now_ns: 0 })
}

fn fork(forked_at: u64) -> Body {
    let (universe, world) = ids();
    Body::ForkGenesis(ForkGenesis {
        universe,
        world,
        parent: WorldId::from_bytes([3; 16]),
        forked_at: Height::new(forked_at),
        parent_snapshot: Hash::of(b"parent"),
        snapshot: Hash::of(b"child"),
        policy: EffectPolicy::Suppress,
        now_ns: 0,
        manifest: None,
        answers: None,
        told: None,
    })
}

#[test]
fn a_genesis_begins_at_zero_and_a_fork_where_it_was_forked() {
    let beginning = plan(&request(0, Record::CHAIN_START, genesis()), &facts(0)).unwrap();
    assert_eq!((beginning.first.end().height, beginning.lineage), (Height::new(1), None));
    let beginning = plan(&request(7, Hash::of(b"c"), fork(7)), &facts(7)).unwrap();
    assert_eq!(beginning.first.start(), JournalHead { height: Height::new(7), chain: Hash::of(b"c") });
    assert_eq!(beginning.lineage.unwrap().forked_at, Height::new(7));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let other_manifest = SnapshotFacts { manifest: Hash::of(b"n"), roots: vec![Hash::of(b"n")], ..facts(0) };
    let stranger = CreateWorld { world: WorldId::from_bytes([9; 16]), ..request(0, Record::CHAIN_START, genesis()) };
    let cases = [
        (request(1, Record::CHAIN_START, genesis()), facts(1)),
        (request(0, Hash::of(b"c"), genesis()), facts(0)),
        (request(0, Record::CHAIN_START, genesis()), facts(1)),
        (request(0, Record::CHAIN_START, genesis()), other_manifest),
        (request(7, Hash::of(b"c"), fork(6)), facts(7)),
        (request(0, Record::CHAIN_START, Body::OutcomeDigest(Hash::of(b""))), facts(0)),
        (stranger, facts(0)),
    ];
    for (request, facts) in cases {
        assert_eq!(plan(&request, &facts).unwrap_err().code(), Code::WorldBeginningInvalid, "{request:?}");
    }
}

#[test]
fn a_first_snapshot_meets_its_horizon() {
    let unmet = SnapshotFacts { receipt_horizon: None, ..facts(0) };
    let refused = plan(&request(0, Record::CHAIN_START, genesis()), &unmet).unwrap_err();
    assert_eq!(refused.code(), Code::ReceiptHorizonUnmet);
}
