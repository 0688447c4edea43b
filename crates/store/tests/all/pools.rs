//! Pools: their names, and the authority of their leases.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, Memory};
use mundi_model::{
    Code, Coded, Hash, Height, WorldName,
    pool::{AuthorityChange, HolderId, LeaseAuthority, LeaseId},
};
use mundi_store::{
    Clock, Fence, StoreError,
    journal::Batch,
    keyspace::lease_authority,
    protocol::{
        CommitTurn, CreatePool, DeletePool, FindPool, InProcess, ListPools, NameWorld, PoolOfWorld, shard_name,
    },
    testing::{Fixture, note_body},
    values::PoolRecord,
};
use pollster::block_on;

type Store = Fixture<Memory>;

async fn store() -> Store {
    Fixture::new(Memory::new(), 1).await.unwrap()
}

async fn turn(store: &Store, fence: Fence, authorities: Vec<AuthorityChange>) -> CommitTurn {
    let input = store.read_turn(fence).await.unwrap();
    CommitTurn {
        fence,
        cursor: input.cursor,
        consumed: None,
        records: Batch::from_bodies(input.head, [note_body(1)]).unwrap(),
        effects: vec![],
        timers: vec![],
        receipts: Vec::new(),
        expects_end: None,
        in_process: InProcess::default(),
        logs: Vec::new(),
        authorities,
        paused: None,
        ready: false,
        now_ns: store.clock.now_ns(),
    }
}

async fn authority(store: &Store, fence: Fence, lease: LeaseId) -> Option<LeaseAuthority> {
    let mut tx = store.engine.begin().await.unwrap();
    lease_authority::read(&mut tx, fence.universe, fence.world, lease).await.unwrap()
}

#[test]
fn a_turn_publishes_the_authority_of_a_lease_and_withdraws_it_with_its_records() {
    block_on(async {
        let store = store().await;
        let fence = store.live(1).await.unwrap();
        let lease = LeaseId::new(0, Height::new(7));
        let held = LeaseAuthority { epoch: 1, holder: HolderId::of_name("ada") };
        let grant = AuthorityChange::granted(lease, held);
        store.run(&turn(&store, fence, vec![grant]).await).await.unwrap();
        assert_eq!(authority(&store, fence, lease).await, Some(held));

        let refused = turn(&store, fence, vec![AuthorityChange::withdrawn(lease)]).await;
        let other = store.acquire(fence.world, 2).await;
        let stale = store.run(&CommitTurn { fence: Fence { epoch: fence.epoch.next(), ..fence }, ..refused }).await;
        assert!(other.is_err() && stale.is_err());
        assert_eq!(authority(&store, fence, lease).await, Some(held), "with its records, or not at all");

        let both = vec![AuthorityChange::withdrawn(lease), grant, AuthorityChange::withdrawn(lease)];
        store.run(&turn(&store, fence, both).await).await.unwrap();
        assert_eq!(authority(&store, fence, lease).await, None, "the last one of a turn counts");
    });
}

fn pool(store: &Store, name: &str, shards: u64) -> CreatePool {
    let record =
        PoolRecord { created_at_ns: store.clock.now_ns(), shards, manifest: Hash::of(b"m"), config: "{}".into() };
    CreatePool { universe: store.universe, name: name.parse().unwrap(), record }
}

fn code<V>(result: Result<V, StoreError>) -> Code {
    result.err().expect("a refusal").code()
}

#[test]
fn a_pool_is_made_once_under_a_name_that_no_world_has_or_had() {
    block_on(async {
        let store = store().await;
        let (universe, name) = (store.universe, "gpus".parse::<WorldName>().unwrap());
        assert_eq!(code(store.run(&FindPool { universe, name: name.clone() }).await), Code::PoolNotFound);
        let first = store.run(&pool(&store, "gpus", 2)).await.unwrap().output;
        assert!(!first.before);
        store.clock.advance(std::time::Duration::from_secs(1));
        let again = store.run(&pool(&store, "gpus", 2)).await.unwrap().output;
        assert!(again.before && again.record == first.record, "an interrupted creation goes on with the first record");
        assert_eq!(code(store.run(&pool(&store, "gpus", 3)).await), Code::PoolExists);
        let shard: WorldName = shard_name(&"seats".parse().unwrap(), 1).unwrap();
        store.create(shard.world(universe), None).await.unwrap();
        assert_eq!(code(store.run(&pool(&store, "seats", 2)).await), Code::WorldExists);
        let pools = store.run(&ListPools { universe }).await.unwrap().output;
        assert_eq!(pools.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["gpus"]);
        store.run(&DeletePool { universe, name: name.clone() }).await.unwrap();
        assert_eq!(code(store.run(&FindPool { universe, name }).await), Code::PoolNotFound);
    });
}

#[test]
fn the_pool_of_a_world_is_found_by_the_name_of_the_world() {
    block_on(async {
        let store = store().await;
        let universe = store.universe;
        store.run(&pool(&store, "gpus", 2)).await.unwrap();
        store.run(&pool(&store, "gpus.shard-7", 1)).await.unwrap();
        let of = async |name: &str, named: bool| {
            let name: WorldName = name.parse().unwrap();
            let world = name.world(universe);
            store.create(world, None).await.unwrap();
            if named {
                store.run(&NameWorld { universe, name }).await.unwrap();
            }
            store.run(&PoolOfWorld { universe, world }).await.unwrap().output.map(|pool| pool.to_string())
        };
        assert_eq!(of("gpus", true).await.as_deref(), Some("gpus"));
        assert_eq!(of("gpus.shard-1", true).await.as_deref(), Some("gpus"));
        assert_eq!(of("gpus.shard-2", true).await, None, "the pool has two shards");
        assert_eq!(of("gpus.shard-7", true).await.as_deref(), Some("gpus.shard-7"), "a pool of that name");
        assert_eq!(of("seats", true).await, None);
        assert_eq!(of("seats.shard-0", false).await, None, "a world without a name");
    });
}
