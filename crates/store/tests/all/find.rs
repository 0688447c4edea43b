//! Worlds are found by name, label, manifest, state and times; pages continue where they ended.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, Memory, Transaction};
use mundi_model::{
    Code, Coded, Height, IntentHash, LabelChange, Labels, WorkerId, WorldId, WorldName, cbor, limits, record::Payload,
};
use mundi_store::{
    StoreError,
    keyspace::{
        QueueShard, Shard,
        dead_letter::{self, DeadLetter},
        effect_pending::{self, EffectItem, EffectTerms},
        effect_retry::{self, RetryPlace},
        queue::{Queue, QueueSeq},
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
        let between = async |from: &str, before: &str| {
            let (name_from, name_before) = (Some(from.to_owned()), Some(before.to_owned()));
            find(&store, WorldQuery { name_from, name_before, ..WorldQuery::default() }).await
        };
        assert_eq!(between("alice-", "carol").await, ["alice-fork-1", "bob"].map(id));
        assert_eq!(between("z", "a").await, [], "none is between them");
        let long = format!("bob{}", "b".repeat(limits::KEY_BYTES_MAX));
        assert_eq!(between("alice-", &long).await, ["alice-fork-1", "bob"].map(id), "longer than any name");
        assert_eq!(between(&long, "d").await, ["carol"].map(id));
    });
}

fn seq(number: usize) -> QueueSeq {
    let mut bytes = [0; QueueSeq::LEN];
    bytes[4..].copy_from_slice(&(number as u64).to_be_bytes());
    QueueSeq::from_bytes(bytes)
}

fn letter(world: u64) -> Vec<u8> {
    let world = Some(world_id(world));
    let (code, reason) = ("CODE".to_owned(), "it failed".to_owned());
    cbor::encode(&DeadLetter { world, code, reason, attempts: 1, item: Vec::new(), at_ns: 1, worker: None })
}

fn effect(world: u64, number: usize) -> Vec<u8> {
    cbor::encode(&EffectItem {
        world: world_id(world),
        intent: IntentHash::of(&number.to_be_bytes()),
        height: Height::new(1),
        kind: "k".into(),
        params: Payload::Inline(Vec::new()),
        label: String::new(),
        policy_context: None,
        published_at_ns: 5,
        trace: None,
        terms: EffectTerms::default(),
        correlation_id: None,
        call: None,
        lease: None,
    })
}

/// Writes entries, a bounded number in each transaction.
async fn put(store: &Store, entries: Vec<(Vec<u8>, Vec<u8>)>) {
    for some in entries.chunks(1_000) {
        let mut tx = store.engine.begin().await.unwrap();
        some.iter().for_each(|(key, value)| tx.put(key, value.clone()).unwrap());
        tx.commit().await.unwrap();
    }
}

#[test]
fn worlds_behind_the_first_part_of_the_queues_are_found_on_later_pages() {
    block_on(async {
        const PART: usize = limits::QUEUE_ITEMS_LOOKED_AT_MAX;
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        for number in 0..6 {
            store.create(world_id(number), None).await.unwrap();
        }
        let all = WorldQuery { name_prefix: Some(String::new()), ..WorldQuery::default() };
        assert_eq!(find(&store, all).await.len(), 6, "a world without a name has the empty prefix, too");
        // World 1 fills the first part of the letters; 2 and 3 are behind it.
        let of = |at: usize| match at {
            0..PART => 1,
            PART => 2,
            _ => 3,
        };
        let key = |at| dead_letter::key(store.universe, Queue::Effects, seq(at)).as_bytes().to_vec();
        put(&store, (0..PART + 2).map(|at| (key(at), letter(of(at)))).collect()).await;
        let letters = WorldQuery { has_dead_letters: true, ..WorldQuery::default() };
        let mut found = find(&store, letters.clone()).await;
        found.sort();
        assert_eq!(found, sorted([1, 2, 3]));
        let newest = WorldQuery { order: WorldOrder::Newest, ..letters.clone() };
        let mut found = find(&store, newest).await;
        found.sort();
        assert_eq!(found, sorted([1, 2, 3]), "in each order");

        // Pending ones of world 4 fill the first part of the effects; one of world 3 is the last of that stage, and one of world 5 waits.
        let shard = QueueShard::new("k", Shard::of(b"any"));
        let pending = |at: usize| {
            let key = effect_pending::key(store.universe, shard, seq(at)).as_bytes().to_vec();
            (key, effect(if at < PART { 4 } else { 3 }, at))
        };
        put(&store, (0..=PART).map(pending).collect()).await;
        let place = RetryPlace { place_ns: 7, seq: seq(0) };
        put(&store, vec![(effect_retry::key(store.universe, shard, place).as_bytes().to_vec(), effect(5, PART + 1))])
            .await;
        let old = WorldQuery { effects_before_ns: Some(6), ..WorldQuery::default() };
        let mut found = find(&store, old.clone()).await;
        found.sort();
        assert_eq!(found, sorted([3, 4, 5]));
        let young = WorldQuery { effects_before_ns: Some(5), ..WorldQuery::default() };
        assert_eq!(find(&store, young).await, []);
        let both = WorldQuery { has_dead_letters: true, ..old };
        assert_eq!(find(&store, both).await, sorted([3]), "each part of one with each part of the other");

        for bad in ["q_", "q_.", "q_zz..", "q_..q_..", "q_.00.nothing"] {
            assert_eq!(bad.parse::<WorldCursor>().unwrap_err().code(), Code::CursorInvalid, "{bad}");
        }
        let elsewhere = Some("q_00ff..".parse().unwrap());
        let find = FindWorlds { universe: store.universe, query: letters, after: elsewhere, items_max: 2 };
        assert_eq!(store.run(&find).await.unwrap_err().code(), Code::CursorInvalid);
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
