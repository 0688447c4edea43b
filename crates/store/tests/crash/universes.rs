//! The parts of a universe: its name, tokens, programs, objects and pools.

use crate::{
    Store, everything, family_of, journal::turn, live, live_with_items, on_the_heap, survives, with_content_store,
};
use bytes::Bytes;
use mundi_engine::{Engine, Memory, Transaction};
use mundi_model::{
    Hash, Height, UniverseId, WorkerId, WorldName,
    pool::{AuthorityChange, HolderId, LeaseAuthority, LeaseId},
    watch::WatchPolicy,
};
use mundi_store::{
    Fence,
    blob::Blobs,
    blobs::Cas,
    keyspace::{
        Family,
        kept_object::Kind,
        quotas::Quotas,
        registered::{Registered, RegisteredKind},
        schema_version::SchemaVersion,
        token::TokenRecord,
        token_usage::TokenUsage,
        worker::WorkerRecord,
    },
    objects::{self, Objects},
    protocol::{
        BeatLease, ChargeToken, CommitTurn, CreatePool, CreateUniverse, DeletePool, GuardSchema, Heartbeat, KeepObject,
        NameProgram, NameUniverse, Register, ReleaseObject, RequestSweep, SetTokenQuotas, SetWatch, UnnameProgram,
        WriteQuotas, WriteToken,
    },
    testing::{Fixture, PinBlob, Probe, UnpinBlob, named_event, world_id},
    transfer::{self, TransferError},
    values::PoolRecord,
};

#[test]
fn create_universe() {
    let act = async |store: &Store, universe: &UniverseId| {
        store.run(&CreateUniverse { universe: *universe, now_ns: 7 }).await.map(drop)
    };
    survives(on_the_heap, async |_| UniverseId::from_bytes([9; 16]), act, everything);
}

#[test]
fn register_keep_and_let_go() {
    for stays in [true, false] {
        let setup = async |store: &Store<Cas<Probe<Memory>>>| {
            Blobs::put(&store.blobs, store.universe, Bytes::from_static(b"program"), &[]).await.unwrap()
        };
        let act = async |store: &Store<Cas<Probe<Memory>>>, hash: &Hash| {
            let (universe, hash, kind) = (store.universe, *hash, Kind::Program);
            let entry = Registered { hash, needs: Vec::new(), at_ns: 5 };
            store.run(&Register { universe, entries: vec![(RegisteredKind::Program, entry)] }).await?;
            store.run(&KeepObject { universe, hash, kind, now_ns: 5 }).await?;
            if stays { Ok(()) } else { store.run(&ReleaseObject { universe, hash, kind }).await.map(drop) }
        };
        survives(with_content_store, setup, act, everything);
    }
}

/// The first version of a name, the next one, one with a number, and the end of one: each of them alone, because a manifest
/// that is not the newest any more rightly gets another number.
#[test]
fn name_programs_and_delete_versions() {
    let naming = |store: &Store, version, text: &[u8]| {
        let (universe, manifest, program) = (store.universe, Hash::of(text), Hash::of(b"code"));
        NameProgram { universe, name: "todo".into(), version, manifest, program, now_ns: 5 }
    };
    for before in [0, 1, 2] {
        let setup = async |store: &Store| {
            let entry = |text: &[u8]| {
                (RegisteredKind::Manifest, Registered { hash: Hash::of(text), needs: Vec::new(), at_ns: 5 })
            };
            let entries = [&b"one"[..], b"two", b"three"].map(entry).into();
            store.run(&Register { universe: store.universe, entries }).await.unwrap();
            for text in [&b"one"[..], b"two"].into_iter().take(before) {
                store.run(&naming(store, None, text)).await.unwrap();
            }
        };
        let next = async |store: &Store, (): &()| store.run(&naming(store, None, b"three")).await.map(drop);
        survives(on_the_heap, setup, next, everything);
        let numbered = async |store: &Store, (): &()| store.run(&naming(store, Some(9), b"three")).await.map(drop);
        survives(on_the_heap, setup, numbered, everything);
        let delete = async |store: &Store, (): &()| {
            let (universe, name) = (store.universe, "todo".to_owned());
            store.run(&UnnameProgram { universe, name, version: 1 }).await.map(drop)
        };
        survives(on_the_heap, setup, delete, everything);
    }
}

#[test]
fn ask_for_a_sweep() {
    let act = async |store: &Store, universe: &UniverseId| {
        store.run(&RequestSweep { universe: *universe, dry_run: true, now_ns: 5 }).await.map(drop)
    };
    survives(on_the_heap, async |store: &Store| store.universe, act, everything);
}

#[test]
fn name_a_universe_guard_its_schema_and_heartbeat_in_it() {
    let act = async |store: &Store, universe: &UniverseId| {
        let (universe, worker) = (*universe, WorkerId::new(1).unwrap());
        store.run(&NameUniverse { name: "tenant".into(), universe, now_ns: 7 }).await?;
        store.run(&GuardSchema { universe, expected: SchemaVersion::CURRENT, bootstrap: true }).await?;
        let lives = WorkerRecord {
            started_at_ns: 1,
            expires_at_ns: 9,
            worlds_max: 3,
            draining: false,
            schema_version: 1,
            address: None,
            worlds: None,
            roles: None,
        };
        store.run(&Heartbeat { universe, worker, record: Some(lives.clone()) }).await?;
        store.run(&Heartbeat { universe, worker: WorkerId::new(2).unwrap(), record: Some(lives) }).await?;
        store.run(&Heartbeat { universe, worker, record: None }).await.map(drop)
    };
    // How often those who watch the workers were told is nobody's promise.
    let kept = |key: &[u8]| family_of(key) != Some(Family::QueueNotify as u8);
    survives(on_the_heap, async |_| UniverseId::from_bytes([9; 16]), act, kept);
}

#[test]
fn write_and_revoke_tokens() {
    let act = async |store: &Store, universe: &UniverseId| {
        let token = |label: &str| TokenRecord {
            secret: Hash::of(b"secret"),
            universe: Some(*universe),
            verbs: 1,
            created_at_ns: 1,
            label: label.into(),
            quotas: None,
        };
        store.run(&WriteToken { id: 1, record: Some(token("stays")) }).await?;
        store.run(&WriteToken { id: 2, record: Some(token("goes")) }).await?;
        let quotas = Some(Quotas { worlds_max: Some(7), ..Quotas::default() });
        store.run(&SetTokenQuotas { id: 1, quotas }).await?;
        store.run(&WriteQuotas { universe: *universe, quotas }).await?;
        let amount = TokenUsage { worlds: 1, ..TokenUsage::default() };
        let charge = ChargeToken { id: 1, amount, quotas: Quotas::default(), give_back: false, change: 1 };
        store.run(&charge).await?;
        store.run(&charge).await?;
        store.run(&ChargeToken { give_back: true, change: 2, ..charge }).await?;
        store.run(&ChargeToken { change: 3, ..charge }).await?;
        store.run(&WriteToken { id: 2, record: None }).await.map(drop)
    };
    survives(on_the_heap, async |store: &Store| store.universe, act, everything);
}

#[test]
fn create_a_pool_and_delete_it() {
    for stays in [true, false] {
        let name = || "gpus".parse::<WorldName>().unwrap();
        let act = async |store: &Store, (): &()| {
            let record = PoolRecord { created_at_ns: 5, shards: 2, manifest: Hash::of(b"m"), config: "{}".into() };
            store.run(&CreatePool { universe: store.universe, name: name(), record }).await?;
            if stays {
                Ok(())
            } else {
                store.run(&DeletePool { universe: store.universe, name: name() }).await.map(drop)
            }
        };
        survives(on_the_heap, async |_| (), act, everything);
    }
}

/// A beat whose commit got no answer may count twice, which says the same: the header of the protocol says so.
#[test]
fn watch_a_pool_and_hear_a_holder() {
    let lease = LeaseId::new(0, Height::new(7));
    let authority = LeaseAuthority { epoch: 1, holder: HolderId::of_name("ada") };
    for stays in [true, false] {
        let name = || "gpus".parse::<WorldName>().unwrap();
        let setup = async |store: &Store| {
            let record = PoolRecord { created_at_ns: 5, shards: 1, manifest: Hash::of(b"m"), config: "{}".into() };
            store.run(&CreatePool { universe: store.universe, name: name(), record }).await.unwrap();
            let fence = live_with_items(store).await;
            let granted = vec![AuthorityChange::granted(lease, authority)];
            let turn = turn(store, fence).await.unwrap().unwrap();
            store.run(&CommitTurn { authorities: granted, ..turn }).await.unwrap();
            fence
        };
        let act = async |store: &Store, fence: &Fence| {
            let (universe, policy) = (store.universe, stays.then(WatchPolicy::default));
            store.run(&SetWatch { universe, name: name(), policy }).await?;
            store.run(&BeatLease { universe, pool: fence.world, lease, authority }).await.map(drop)
        };
        let counters = [Family::LeaseBeat as u8, Family::QueueNotify as u8];
        survives(on_the_heap, setup, act, |key| !family_of(key).is_some_and(|family| counters.contains(&family)));
    }
}

#[test]
fn pin_an_object_and_let_it_go() {
    for stays in [true, false] {
        let setup = async |store: &Store<Cas<Probe<Memory>>>| {
            let fence = live(store).await;
            (fence, Blobs::put(&store.blobs, store.universe, Bytes::from_static(b"kept"), &[]).await.unwrap())
        };
        let act = async |store: &Store<Cas<Probe<Memory>>>, (fence, hash): &(Fence, Hash)| {
            let (fence, hash) = (*fence, *hash);
            store.run(&PinBlob { fence, hash, reason: "why".into(), now_ns: 5 }).await?;
            if stays { Ok(()) } else { store.run(&UnpinBlob { fence, hash }).await.map(drop) }
        };
        survives(with_content_store, setup, act, everything);
    }
}

/// A whole universe comes from elsewhere. Once it is here, another try is refused; that is how who lost the answer learns of it.
#[test]
fn import_a_universe() {
    let setup = async |store: &Store| {
        let source = Fixture::new(Memory::new(), 2).await.unwrap();
        source.live(3).await.unwrap();
        source.send(world_id(3), vec![named_event("waits")]).await.unwrap();
        let (objects, place) = (objects::open("memory:///").unwrap(), objects::open("memory:///").unwrap());
        let named = ("tenant", source.universe);
        transfer::export(&source.engine, &objects, named, &place, 9, |_| {}).await.unwrap();
        for n in 0..20u8 {
            let mut tx = store.engine.begin().await.unwrap(); // its stamps must stand above those of the export
            tx.put(b"commits", vec![n]).unwrap();
            tx.commit().await.unwrap();
        }
        (place, objects)
    };
    let act = async |store: &Store, (place, objects): &(Objects, Objects)| match transfer::import(
        place,
        &store.engine,
        objects,
        &store.clock,
        |_| {},
    )
    .await
    {
        Err(TransferError::Refused(why)) if why.contains("another universe is called") => Ok(()),
        Err(TransferError::Store(error)) => Err(error),
        Err(TransferError::Engine(error)) => Err(error.into()),
        imported => {
            imported.expect("nothing but the engine fails");
            Ok(())
        }
    };
    survives(on_the_heap, setup, act, everything);
}
