use super::*;
use crate::objects::MemoryObjects;
use proptest::prelude::*;
use std::cell::Cell as StdCell;

type Content = BTreeMap<String, Vec<u8>>;

/// Objects that count what is read.
struct Counting<'a> {
    objects: &'a MemoryObjects,
    loads: StdCell<usize>,
}

impl<'a> Counting<'a> {
    fn new(objects: &'a MemoryObjects) -> Self {
        Self { objects, loads: StdCell::new(0) }
    }
}

impl Objects for Counting<'_> {
    fn load(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
        self.loads.set(self.loads.get() + 1);
        self.objects.load(hash)
    }
}

fn save(cells: &mut Cells, objects: &mut MemoryObjects) -> Option<Hash> {
    let root = cells.flush(objects).unwrap();
    let new: Vec<_> = cells.unsaved().collect();
    objects.extend(new.iter().cloned());
    cells.saved(new.iter().map(|(hash, _)| hash));
    root
}

/// The root of some content, made in one go.
fn root_of(content: &Content, objects: &mut MemoryObjects) -> Option<Hash> {
    let mut cells = Cells::open(None);
    for (key, value) in content {
        cells.put(key, value.clone());
    }
    save(&mut cells, objects)
}

fn all(cells: &Cells, objects: &dyn Objects) -> Content {
    let mut content = Content::new();
    loop {
        let after = content.keys().next_back().cloned();
        let page = cells.scan(objects, "", after.as_deref(), 7).unwrap();
        if page.is_empty() {
            return content;
        }
        content.extend(page);
    }
}

fn numbered(count: u32) -> Content {
    (0..count).map(|n| (format!("cell/{n:07}"), n.to_be_bytes().to_vec())).collect()
}

/// Keys that share long prefixes and values of all sizes, so that leaves, branches and blobs all occur.
fn edits() -> impl Strategy<Value = Vec<(String, Option<Vec<u8>>)>> {
    let key = prop_oneof!["[ab]{0,12}", "user/[0-9]{1,4}", "[a-zé]{1,3}", "x{100,400}"];
    let value = prop_oneof![
        1 => Just(None),
        4 => (any::<u8>(), prop_oneof![0usize..40, 300usize..1500]).prop_map(|(byte, len)| Some(vec![byte; len])),
    ];
    prop::collection::vec((key.prop_filter("a key has a byte", |key: &String| !key.is_empty()), value), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_content_has_the_same_root_whatever_the_order_of_edits(edits in edits(), flush_every in 1usize..40) {
        let (mut objects, mut cells, mut content) = (MemoryObjects::new(), Cells::open(None), Content::new());
        for (index, (key, value)) in edits.iter().enumerate() {
            match value {
                Some(value) => { cells.put(key, value.clone()); content.insert(key.clone(), value.clone()); }
                None => { cells.delete(key); content.remove(key); }
            }
            if index % flush_every == 0 {
                save(&mut cells, &mut objects);
            }
        }
        prop_assert_eq!(&all(&cells, &objects), &content);
        let root = save(&mut cells, &mut objects);
        prop_assert_eq!(root, root_of(&content, &mut objects));
        prop_assert_eq!(cells.count(&objects).unwrap(), content.len() as u64);

        // Backwards, one by one, and by a detour heavy enough to turn leaves into branches and back.
        let detour: Vec<String> = ["!", "ab!", "user/!"].iter().flat_map(|at| (0..8).map(move |n| format!("{at}{n}"))).collect();
        let mut again = Cells::open(None);
        for key in &detour {
            again.put(key, vec![1; 1000]);
        }
        for (key, value) in content.iter().rev() {
            again.put(key, value.clone());
            again.flush(&objects).unwrap();
        }
        for key in &detour {
            again.delete(key);
        }
        prop_assert_eq!(save(&mut again, &mut objects), root);
    }

    #[test]
    fn a_tree_read_from_the_store_answers_as_a_map_would(edits in edits(), prefix in "[abu]{0,2}", after in "[abu]{0,3}") {
        let mut objects = MemoryObjects::new();
        let (mut stored, mut content) = (Content::new(), Content::new());
        let half = edits.len() / 2;
        for (key, value) in &edits[..half] {
            stored.insert(key.clone(), value.clone().unwrap_or_default());
        }
        content.extend(stored.clone());
        let mut cells = Cells::open(root_of(&stored, &mut objects));
        for (key, value) in &edits[half..] {
            match value {
                Some(value) => { cells.put(key, value.clone()); content.insert(key.clone(), value.clone()); }
                None => { cells.delete(key); content.remove(key); }
            }
        }
        for (key, _) in &edits {
            prop_assert_eq!(cells.get(&objects, key).unwrap(), content.get(key).cloned());
        }
        let wanted = content.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
        let wanted: Vec<_> = wanted.take(5).map(|(key, value)| (key.clone(), value.clone())).collect();
        prop_assert_eq!(cells.scan(&objects, &prefix, Some(&after), 5).unwrap(), wanted);
    }

    #[test]
    fn a_diff_names_exactly_the_cells_that_differ(left in edits(), right in edits(), after in "[a-c]{0,3}") {
        let mut objects = MemoryObjects::new();
        let content = |edits: &[(String, Option<Vec<u8>>)]| -> Content {
            edits.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect()
        };
        let left = content(&left);
        let mut right = content(&right);
        right.extend(left.iter().filter(|(key, _)| key.len() % 3 > 0).map(|(key, value)| (key.clone(), value.clone())));
        let roots = (root_of(&left, &mut objects), root_of(&right, &mut objects));
        let found: Vec<_> = diff(&objects, roots.0, roots.1, |diff| diff.collect::<Result<_, _>>()).unwrap();
        let keys: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
        let stored = |content: &Content, key| content.get(key).map(|value: &Vec<u8>| Stored::of(value));
        let expected: Vec<_> = keys
            .into_iter()
            .filter(|key| left.get(*key) != right.get(*key))
            .map(|key| Difference { key: key.clone(), left: stored(&left, key), right: stored(&right, key) })
            .collect();
        let rest: Vec<_> =
            diff(&objects, roots.0, roots.1, |diff| diff.after(Some(&after)).collect::<Result<_, _>>()).unwrap();
        prop_assert_eq!(rest, expected.iter().filter(|found| found.key > after).cloned().collect::<Vec<_>>());
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn arbitrary_bytes_are_no_node_or_their_own_encoding(bytes: Vec<u8>) {
        let hash = Hash::of(&bytes);
        if let Ok(node) = node::Node::decode(&hash, &bytes) {
            prop_assert_eq!(mundi_model::cbor::encode(&node), bytes);
        }
    }
}

/// These roots are persisted in every snapshot: a change here is a change of the format.
#[test]
fn the_roots_of_known_content_are_pinned() {
    let mut objects = MemoryObjects::new();
    assert_eq!(root_of(&Content::new(), &mut objects), None);
    let hex = |root: Option<Hash>| root.unwrap().to_hex();
    let one = root_of(&Content::from([("a".into(), b"b".to_vec())]), &mut objects).unwrap();
    assert_eq!(&*objects.load(&one).unwrap(), b"\x82\x00\x81\x81\x82\x41a\x82\x00\x81\x41b");
    assert_eq!(
        hex(root_of(&numbered(3), &mut objects)),
        "145ab89f890407525d76c53377432f89d90cd641db1b643f7125be171c55f60a"
    );
    assert_eq!(
        hex(root_of(&numbered(2000), &mut objects)),
        "ef7705662a1e3e8063847003f04f59bb1854f00fb57e96b4789108065db1e1e0"
    );
    let large = Content::from([("large".into(), vec![7; 5000])]);
    assert_eq!(hex(root_of(&large, &mut objects)), "2183e4dcb97de1c977e2ddc31faffd9a319e3db1be0f79227e6a498d133dd5df");
}

#[test]
fn a_large_world_opens_without_reading_and_finds_a_cell_by_reading_one_path() {
    let mut objects = MemoryObjects::new();
    let root = root_of(&numbered(50_000), &mut objects);
    let counting = Counting::new(&objects);
    let cells = Cells::open(root);
    assert_eq!(counting.loads.get(), 0);
    assert_eq!(cells.get(&counting, "cell/0031415").unwrap().unwrap(), 31415u32.to_be_bytes());
    assert!(counting.loads.get() <= 6, "read {} nodes", counting.loads.get());
    let before = counting.loads.get();
    assert_eq!(cells.scan(&counting, "cell/00420", None, 1000).unwrap().len(), 100);
    assert!(counting.loads.get() - before <= 8, "read {} nodes", counting.loads.get() - before);
}

#[test]
fn a_snapshot_writes_only_nodes_that_are_new() {
    let mut objects = MemoryObjects::new();
    let root = root_of(&numbered(50_000), &mut objects);
    let mut cells = Cells::open(root);
    cells.put("cell/0031415", b"changed".to_vec());
    cells.flush(&objects).unwrap();
    let new: Vec<_> = cells.unsaved().collect();
    assert!(new.len() <= 6, "{} nodes for one cell", new.len());
    assert!(new.iter().all(|(hash, _)| !objects.contains(hash)));

    let mut same = Cells::open(root);
    same.put("cell/0031415", 31415u32.to_be_bytes().to_vec());
    same.delete("cell/9999999");
    assert_eq!(same.flush(&objects).unwrap(), root);
    assert_eq!(same.unsaved().count(), 0, "nothing changed, nothing is written");
}

#[test]
fn cells_that_became_light_again_are_one_leaf_again() {
    let mut objects = MemoryObjects::new();
    let light = root_of(&numbered(10), &mut objects);
    let mut cells = Cells::open(light);
    let heavy: Vec<_> = (0..50).map(|n| format!("cell/heavy/{n}")).collect();
    heavy.iter().for_each(|key| cells.put(key, vec![0; 500]));
    save(&mut cells, &mut objects);
    heavy.iter().for_each(|key| cells.delete(key));
    assert_eq!(save(&mut cells, &mut objects), light);
    (0..10).for_each(|n| cells.delete(&format!("cell/{n:07}")));
    assert_eq!(save(&mut cells, &mut objects), None, "no cells, no root");
}

#[test]
fn a_diff_reads_what_differs_and_not_the_rest() {
    let mut objects = MemoryObjects::new();
    let mut content = numbered(50_000);
    let left = root_of(&content, &mut objects);
    content.insert("cell/0031415".into(), b"changed".to_vec());
    content.remove("cell/0000007");
    let right = root_of(&content, &mut objects);
    let counting = Counting::new(&objects);
    let found: Vec<_> = diff(&counting, left, right, |diff| diff.map(|found| found.unwrap().key).collect());
    assert_eq!(found, ["cell/0000007", "cell/0031415"]);
    assert!(counting.loads.get() <= 24, "read {} nodes", counting.loads.get());
    let counting = Counting::new(&objects);
    let behind = |diff: Diff<'_>| diff.after(Some("cell/0000007")).map(|found| found.unwrap().key).collect();
    let found: Vec<_> = diff(&counting, left, right, behind);
    assert_eq!(found, ["cell/0031415"]);
    assert!(counting.loads.get() <= 24, "read {} nodes", counting.loads.get());
}

/// A search tree that takes its shape from hashes has keys that make one node grow without end, and keys
/// that make it a list. Here both are bounded by the length of a key.
#[test]
fn hostile_keys_make_neither_a_large_node_nor_an_endless_path() {
    let mut objects = MemoryObjects::new();
    let nested: Content = (1..=limits::CELL_KEY_BYTES_MAX).map(|len| ("a".repeat(len), vec![0; 20])).collect();
    let wide: Content = (0..3000u32).map(|n| (format!("{}{n:x}", "k".repeat(400)), vec![1; 1000])).collect();
    for content in [nested, wide] {
        let mut cells = Cells::open(None);
        for (key, value) in &content {
            cells.put(key, value.clone());
        }
        cells.flush(&objects).unwrap();
        let largest = cells.unsaved().map(|(_, bytes)| bytes.len()).max().unwrap();
        assert!(largest <= 2 * 8192, "a node of {largest} bytes");
        let root = save(&mut cells, &mut objects);
        assert_eq!(all(&Cells::open(root), &objects), content);
    }
}

#[test]
fn a_node_that_is_not_at_hand_is_named_and_a_damaged_one_is_refused() {
    let mut objects = MemoryObjects::new();
    let root = root_of(&numbered(3000), &mut objects);
    let cells = Cells::open(root);
    let nothing = MemoryObjects::new();
    assert_eq!(cells.get(&nothing, "cell/0000001").unwrap_err(), LoadError::Missing(root.unwrap()));

    struct Damaged<'a>(&'a MemoryObjects);
    impl Objects for Damaged<'_> {
        fn load(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
            let mut bytes = self.0.load(hash)?.to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            Ok(bytes.into())
        }
    }
    let refused = cells.get(&Damaged(&objects), "cell/0000001").unwrap_err();
    assert!(matches!(refused, LoadError::Corrupt { .. }), "{refused}");
}

#[test]
fn what_is_not_yet_stored_is_read_from_memory_and_offered_again() {
    let mut cells = Cells::open(None);
    let nothing = MemoryObjects::new();
    cells.put("large", vec![1; 5000]);
    cells.flush(&nothing).unwrap();
    assert_eq!(cells.get(&nothing, "large").unwrap().unwrap(), vec![1; 5000]);
    cells.put("small", vec![2]);
    cells.flush(&nothing).unwrap();
    assert_eq!(cells.unsaved().count(), 2, "the blob and the leaf; the leaf before it is superseded");
}
