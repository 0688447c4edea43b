//! Worlds are found by name, label, manifest, state and times; pages continue where they ended.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, Memory, Transaction};
use mundi_model::{Code, Coded, LabelChange, Labels, WorkerId, WorldId, WorldName};
use mundi_store::{
    StoreError,
    keyspace::{
        queue_notify,
        world_index::{self, Indexed},
    },
    protocol::{
        AcquireLease, ArchiveWorld, CloseWorld, FindNamed, FindWorlds, LabelWorld, NameWorld, Opening, Pass,
        ReleaseLease, WorldCursor, WorldOrder, WorldQuery,
    },
    testing::{Fixture, HandmadeWorld, Probe, world_id},
    values::ListedState,
};
use pollster::block_on;

type Store = Fixture<Memory>;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))).unwrap()
}

async fn label(store: &Store, world: WorldId, set: &[(&str, &str)], remove: &[&str]) -> Result<Labels, StoreError> {
    let remove = remove.iter().map(|key| (*key).to_owned()).collect();
    let change = LabelChange { set: labels(set), remove, operator: None };
    Ok(store.run(&LabelWorld { universe: store.universe, world, change, now_ns: 5 }).await?.output)
}

/// All that a query finds, by pages of two.
async fn find(store: &Store, query: WorldQuery) -> Vec<WorldId> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let find = FindWorlds { universe: store.universe, query: query.clone(), after, items_max: 2 };
        let page = store.run(&find).await.unwrap().output;
        assert!(page.items.len() <= 2);
        found.extend(page.items.iter().map(|item| item.world));
        // As a client hands it back.
        after = page.next.map(|next| next.to_string().parse::<WorldCursor>().unwrap());
        if after.is_none() {
            return found;
        }
    }
}

fn sorted(worlds: impl IntoIterator<Item = u64>) -> Vec<WorldId> {
    let mut worlds: Vec<_> = worlds.into_iter().map(world_id).collect();
    worlds.sort();
    worlds
}

fn with(key: &str, value: Option<&str>) -> WorldQuery {
    WorldQuery { labels: vec![(key.to_owned(), value.map(str::to_owned))], ..WorldQuery::default() }
}

#[test]
fn labels_find_worlds_until_they_are_changed_or_removed() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        for number in 0..7 {
            store.create(world_id(number), None).await.unwrap();
            label(&store, world_id(number), &[("customer", if number < 5 { "17" } else { "4" })], &[]).await.unwrap();
        }
        assert_eq!(find(&store, with("customer", Some("17"))).await, sorted(0..5));
        assert_eq!(find(&store, with("customer", Some("1"))).await, [], "a prefix of a value is another value");
        assert_eq!(find(&store, with("customer", None)).await.len(), 7);
        label(&store, world_id(0), &[("customer", "4")], &[]).await.unwrap();
        label(&store, world_id(1), &[], &["customer"]).await.unwrap();
        assert_eq!(find(&store, with("customer", Some("17"))).await, sorted(2..5));
        assert_eq!(find(&store, with("customer", Some("4"))).await, sorted([0, 5, 6]));
        let both = WorldQuery { state: Some(ListedState::Archived), ..with("customer", Some("4")) };
        assert_eq!(find(&store, both.clone()).await, []);
        let archive = ArchiveWorld { universe: store.universe, world: world_id(5), archived: true, now_ns: 9 };
        store.run(&archive).await.unwrap();
        assert_eq!(find(&store, both).await, sorted([5]));
        store.run(&CloseWorld { universe: store.universe, world: world_id(6) }).await.unwrap();
        assert_eq!(find(&store, with("customer", Some("4"))).await, sorted([0, 5]), "a deleted world is found no more");
        let deleting = WorldQuery { state: Some(ListedState::Deleting), ..WorldQuery::default() };
        assert_eq!(find(&store, deleting).await, sorted([6]));
    });
}

#[test]
fn a_world_has_no_more_labels_than_the_bound() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        store.create(world_id(1), None).await.unwrap();
        for number in 0..64 {
            label(&store, world_id(1), &[(&format!("k{number}"), "")], &[]).await.unwrap();
        }
        let refused = label(&store, world_id(1), &[("one-more", "")], &[]).await.unwrap_err();
        assert_eq!(refused.code(), Code::LabelsFull);
        label(&store, world_id(1), &[("one-more", "")], &["k1"]).await.unwrap();
    });
}

#[test]
fn names_are_found_by_prefix_and_by_a_part_in_their_order() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        for text in ["carol", "alice", "alice-fork-1", "bob"] {
            let name: WorldName = text.parse().unwrap();
            let world = name.world(store.universe);
            HandmadeWorld::create(&store.engine, store.universe, world).await.unwrap();
            store.run(&NameWorld { universe: store.universe, name: name.clone() }).await.unwrap();
            let found = store.run(&FindNamed { universe: store.universe, name }).await.unwrap().output;
            assert_eq!(found, Some(world));
        }
        let id = |text: &str| text.parse::<WorldName>().unwrap().world(store.universe);
        let prefix = WorldQuery { name_prefix: Some("alice".into()), ..WorldQuery::default() };
        assert_eq!(find(&store, prefix).await, ["alice", "alice-fork-1"].map(id));
        let part = WorldQuery { name_contains: Some("o".into()), order: WorldOrder::Name, ..WorldQuery::default() };
        assert_eq!(find(&store, part).await, ["alice-fork-1", "bob", "carol"].map(id));
        let all = WorldQuery { order: WorldOrder::Name, ..WorldQuery::default() };
        assert_eq!(find(&store, all).await, ["alice", "alice-fork-1", "bob", "carol"].map(id));
    });
}

#[test]
fn a_cursor_of_another_list_is_refused() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        for number in 0..5 {
            store.create(world_id(number), None).await.unwrap();
            label(&store, world_id(number), &[("a", "1"), ("b", "1")], &[]).await.unwrap();
        }
        let page = |query, after| FindWorlds { universe: store.universe, query, after, items_max: 2 };
        let next = store.run(&page(with("a", Some("1")), None)).await.unwrap().output.next;
        assert!(next.is_some());
        for other in [with("b", Some("1")), WorldQuery::default()] {
            let refused = store.run(&page(other, next.clone())).await.unwrap_err();
            assert_eq!(refused.code(), Code::CursorInvalid);
        }
        assert_eq!("i_zz".parse::<WorldCursor>().unwrap_err().code(), Code::CursorInvalid);
    });
}

#[test]
fn worlds_are_found_by_manifest_and_time_of_creation() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        for number in 0..5 {
            store.create(world_id(number), None).await.unwrap();
        }
        let of = |hash| WorldQuery { manifests: Some([hash].into()), ..WorldQuery::default() };
        assert_eq!(find(&store, of(store.manifest_hash())).await, sorted(0..5));
        assert_eq!(find(&store, of(mundi_model::Hash::of(b"other"))).await, []);
        let created = |from, before| WorldQuery {
            created_from_ns: from,
            created_before_ns: before,
            order: WorldOrder::Created,
            ..WorldQuery::default()
        };
        assert_eq!(find(&store, created(Some(5), None)).await.len(), 5);
        assert_eq!(find(&store, created(None, Some(5))).await, []);
        let never = WorldQuery { active_from_ns: Some(1), ..WorldQuery::default() };
        assert_eq!(find(&store, never).await, []);
    });
}

#[test]
fn several_versions_and_states_come_in_the_order_of_ids_and_the_newest_first_if_asked_for() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let other = mundi_model::Hash::of(b"another version");
        for number in 0..9 {
            store.create(world_id(number), None).await.unwrap();
            // Every third one runs another version of the program.
            if number % 3 == 0 {
                let mut tx = store.engine.begin().await.unwrap();
                let entry = |manifest| world_index::key(store.universe, Indexed::Manifest(manifest), world_id(number));
                tx.put(entry(other).as_bytes(), bytes::Bytes::new()).unwrap();
                tx.delete(entry(store.manifest_hash()).as_bytes()).unwrap();
                tx.commit().await.unwrap();
            }
        }
        // The world itself still says its first version, which both are asked for.
        let both = WorldQuery { manifests: Some([store.manifest_hash(), other].into()), ..WorldQuery::default() };
        assert_eq!(find(&store, both).await, sorted(0..9), "in the order of ids, each once");
        for number in [2, 5] {
            let archive = ArchiveWorld { universe: store.universe, world: world_id(number), archived: true, now_ns: 9 };
            store.run(&archive).await.unwrap();
        }
        let live = WorldQuery { state: Some(ListedState::Live), ..WorldQuery::default() };
        assert_eq!(find(&store, live).await, sorted([0, 1, 3, 4, 6, 7, 8]));
        let in_order = WorldQuery { order: WorldOrder::Created, ..WorldQuery::default() };
        let newest = WorldQuery { order: WorldOrder::Newest, ..WorldQuery::default() };
        let mut reversed = find(&store, in_order).await;
        reversed.reverse();
        assert_eq!((find(&store, newest).await, reversed.len()), (reversed.clone(), 9));
    });
}

#[test]
fn worlds_that_were_active_last_come_first_and_those_that_never_were_last() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        for number in 0..6 {
            store.create(world_id(number), None).await.unwrap();
        }
        let worker = WorkerId::new(1).unwrap();
        let opening = Some(Opening { life_ns: 1, pass: Pass::Alone });
        let open = async |number, now_ns| {
            let (universe, world) = (store.universe, world_id(number));
            let acquire = AcquireLease { universe, world, worker, now_ns, ttl_ns: 10, opening };
            store.run(&acquire).await.unwrap().output.fence
        };
        open(1, 1_000).await;
        let fence = open(2, 2_000).await;
        open(3, 3_000).await;
        let active = WorldQuery { order: WorldOrder::Active, ..WorldQuery::default() };
        assert_eq!(find(&store, active.clone()).await[..3], [3, 2, 1].map(world_id));
        assert_eq!(find(&store, active.clone()).await.len(), 6, "those that nobody opened come last");
        // A release is activity; one by a holder that takes no turns is none.
        store.run(&ReleaseLease { fence, active_at_ns: Some(4_000) }).await.unwrap();
        open(1, 5_000).await;
        assert_eq!(find(&store, active.clone()).await[..3], [1, 2, 3].map(world_id));
        let between = WorldQuery {
            active_from_ns: Some(3_000),
            active_before_ns: Some(5_000),
            order: WorldOrder::Active,
            ..active.clone()
        };
        assert_eq!(find(&store, between).await, [2, 3].map(world_id));
        store.run(&CloseWorld { universe: store.universe, world: world_id(2) }).await.unwrap();
        let left = find(&store, active).await;
        assert_eq!((left.len(), &left[..2]), (5, &[1, 3].map(world_id)[..]), "a deleted world has left the index");
    });
}

#[test]
fn a_part_of_a_name_is_found_in_small_and_large_letters() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let name: WorldName = "Order-17".parse().unwrap();
        let world = name.world(store.universe);
        HandmadeWorld::create(&store.engine, store.universe, world).await.unwrap();
        store.run(&NameWorld { universe: store.universe, name }).await.unwrap();
        for (part, found) in [("oRDER", 1), ("-17", 1), ("Order-17", 1), ("Order-178", 0), ("order 17", 0)] {
            let query = WorldQuery { name_contains: Some(part.into()), ..WorldQuery::default() };
            assert_eq!(find(&store, query).await.len(), found, "{part}");
        }
    });
}

#[test]
fn a_counter_says_that_worlds_changed_and_nothing_else_moves_it() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let read = async || {
            let mut tx = store.engine.begin().await.unwrap();
            queue_notify::read(&mut tx, store.universe, queue_notify::WORLDS).await.unwrap()
        };
        let mut before = read().await;
        let mut moved = async || {
            let now = read().await;
            std::mem::replace(&mut before, now.clone()) != now
        };
        store.create(world_id(1), None).await.unwrap();
        assert!(moved().await, "a world was created");
        label(&store, world_id(1), &[("a", "1")], &[]).await.unwrap();
        assert!(moved().await, "a label was set");
        let archive = ArchiveWorld { universe: store.universe, world: world_id(1), archived: true, now_ns: 9 };
        store.run(&archive).await.unwrap();
        assert!(moved().await, "a world was archived");
        store.create(world_id(1), None).await.unwrap();
        assert!(!moved().await, "it was there already");
    });
}

/// Engine operations of the first page of ten, for each of some queries.
fn costs(worlds: u64) -> Vec<(&'static str, u64)> {
    block_on(async move {
        let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
        for number in 0..worlds {
            store.create(world_id(number), None).await.unwrap();
            let change = LabelChange { set: labels(&[("tier", "gold")]), remove: Vec::new(), operator: None };
            let label = LabelWorld { universe: store.universe, world: world_id(number), change, now_ns: 5 };
            store.run(&label).await.unwrap();
        }
        let all = WorldQuery::default();
        let queries = [
            ("label", with("tier", Some("gold"))),
            ("program", WorldQuery { manifests: Some([store.manifest_hash()].into()), ..all.clone() }),
            ("state", WorldQuery { state: Some(ListedState::Live), ..all.clone() }),
            ("newest", WorldQuery { order: WorldOrder::Newest, ..all.clone() }),
            ("active", WorldQuery { order: WorldOrder::Active, ..all.clone() }),
            ("all", all),
        ];
        let mut costs = Vec::new();
        for (name, query) in queries {
            let before = store.engine.operations();
            let find = FindWorlds { universe: store.universe, query, after: None, items_max: 10 };
            assert_eq!(store.run(&find).await.unwrap().output.items.len(), 10, "{name}");
            costs.push((name, store.engine.operations() - before));
        }
        costs
    })
}

/// `MUNDI_FIND_WORLDS=1000000` compares with as many.
#[test]
fn a_page_by_an_index_costs_the_same_however_many_worlds_there_are() {
    let many = std::env::var("MUNDI_FIND_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    assert_eq!(costs(50), costs(many));
}
