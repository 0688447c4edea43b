//! Worlds as files: round trips between folders, proof, and tampering of every kind.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_kernel::{
    manifest::EffectRule,
    program::{Event, Failure, Host, Program},
};
use mundi_model::{
    Code, Coded, Hash, Height, Value, WorldId, cbor,
    child::{CHILD_SPAWN, ChildId, Lane, Spend, spec_params},
    record::{Body, EffectPolicy, Operator, Record},
};
use mundi_runtime::{
    Plane, RuntimeError,
    bundle::{Bundle, BundleError, FrameSink, ImportRequest, Imported, export, import},
    control::ClientRequest,
};
use mundi_server::{
    node::{Node, NodeConfig, Universe},
    programs::Programs,
};
use mundi_store::{blob::Blobs, journal::History, protocol::ChildFinish};
use serde_json::json;
use std::{io::Cursor, sync::Arc, time::Duration};

struct Folder {
    _folder: tempfile::TempDir,
    node: Node,
    universe: Arc<Universe>,
}

async fn folder() -> Folder {
    folder_with(Programs::builtin()).await
}

async fn folder_with(programs: Programs) -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::open(folder.path(), programs, NodeConfig::default()).await.unwrap();
    let universe = node.universe("default").unwrap();
    Folder { _folder: folder, node, universe }
}

impl Folder {
    async fn call(&self, world: WorldId, event: &str, value: serde_json::Value) -> Value {
        self.universe.call(world, event, value.into()).await.unwrap()
    }

    async fn put(&self, world: WorldId, key: &str, value: serde_json::Value) {
        self.call(world, "put", json!({ "key": key, "value": value })).await;
    }

    async fn cell(&self, world: WorldId, key: &str) -> Option<Value> {
        let at = mundi_runtime::control::At { world, height: None };
        let bytes = self.universe.ops().world_cell(at, key).await.unwrap();
        bytes.map(|bytes| cbor::decode(&bytes).unwrap())
    }

    /// Waits until a cell is there: effects take their time.
    async fn wait_for(&self, world: WorldId, key: &str) -> Value {
        for _ in 0..1_000 {
            if let Some(value) = self.cell(world, key).await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{key} never came");
    }

    async fn journal(&self, world: WorldId) -> Vec<Bytes> {
        let (plane, id) = (self.universe.plane(), self.universe.id());
        let history =
            History::open(plane.engine(), plane.segments().clone(), id, world, Height::GENESIS).await.unwrap();
        history.collect().await.unwrap().into_iter().map(|record| record.bytes).collect()
    }

    async fn export(&self, world: WorldId) -> Vec<u8> {
        struct Sink<'a>(&'a mut Vec<u8>);
        impl FrameSink for Sink<'_> {
            async fn write(&mut self, frame: Bytes) -> Result<(), RuntimeError> {
                self.0.extend_from_slice(&frame);
                Ok(())
            }
        }
        let mut file = Vec::new();
        export(self.universe.plane(), self.universe.id(), world, Sink(&mut file)).await.unwrap();
        file
    }

    async fn import(&self, file: &[u8], world: Option<WorldId>) -> Result<Imported, RuntimeError> {
        self.import_with(file, world, EffectPolicy::Suppress).await
    }

    async fn import_with(
        &self,
        file: &[u8],
        world: Option<WorldId>,
        policy: EffectPolicy,
    ) -> Result<Imported, RuntimeError> {
        let bundle = Bundle::open(Cursor::new(file))?;
        let proof = bundle.verify(self.universe.plane().registry())?;
        let (universe, now_ns) = (self.universe.id(), self.universe.plane().now_ns());
        let request = ImportRequest { universe, world: world.map(Into::into), policy, now_ns };
        import(self.universe.plane(), &bundle, proof, request).await
    }

    async fn stop(self) {
        self.node.drain().await;
        self.node.stop().await;
    }
}

/// A world with cells of all sizes, an effect with its receipt, a blob of several parts, a timer and snapshots.
async fn busy_world(folder: &Folder) -> WorldId {
    let world = folder.universe.create("kv").await.unwrap();
    let large: Vec<u8> = (0..3u32 << 20).map(|n| u8::try_from(n.wrapping_mul(2_654_435_761) >> 24).unwrap()).collect();
    let blob = Blobs::put(&folder.universe.plane().blobs, folder.universe.id(), large.into(), &[]).await.unwrap();
    folder.put(world, "blob", json!(blob.to_string())).await;
    for n in 0..40 {
        folder.put(world, &format!("cell/{n:03}"), json!("x".repeat(n * 60))).await;
    }
    let small = Blobs::put(&folder.universe.plane().blobs, folder.universe.id(), "hello".into(), &[]).await.unwrap();
    let ask = json!({ "key": "stored", "kind": "blob.get", "params": { "hash": small.to_string() } });
    folder.call(world, "ask", ask).await;
    folder.wait_for(world, "stored").await;
    folder.call(world, "remind", json!({ "key": "later", "value": 1, "in_ms": 3_600_000 })).await;
    folder.universe.ops().take_snapshot(world).await.unwrap();
    for n in 0..20 {
        folder.put(world, &format!("tail/{n}"), json!(n)).await;
    }
    world
}

fn prove(file: &[u8]) -> Result<u64, BundleError> {
    let bundle = Bundle::open(Cursor::new(file))?;
    Ok(bundle.verify(&Programs::builtin().into_registry())?.from_genesis.counted.records)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_world_moves_between_folders_byte_for_byte_and_goes_on_there() {
    let (home, abroad) = (folder().await, folder().await);
    let world = busy_world(&home).await;
    home.universe.ops().verify_world(world).await.unwrap();
    let file = home.export(world).await;
    assert_eq!(file, home.export(world).await, "the same world gives the same bytes");

    let imported = abroad.import(&file, None).await.unwrap();
    assert_eq!(imported.world, world);
    let counted = imported.proof.from_genesis.counted;
    assert!(counted.intents >= 1 && counted.receipts == counted.intents && counted.snapshots >= 1, "{counted:?}");
    let (there, here) = (abroad.journal(world).await, home.journal(world).await);
    assert_eq!((&there[..here.len()], there.len()), (&here[..], here.len() + 1));
    let last: Record = cbor::decode(&there[here.len()]).unwrap();
    assert!(matches!(last.body, Body::ForkGenesis(fork) if fork.parent == world && fork.world == world));

    // It continues, is asked about its past, forks there, and proves itself again.
    abroad.put(world, "new", json!("abroad")).await;
    assert_eq!(abroad.cell(world, "cell/007").await, Some(Value::Text("x".repeat(420))));
    assert_eq!(abroad.universe.ops().list_timers(Some(world), None, 10).await.unwrap().items.len(), 1);
    let child = WorldId::from_bytes([7; 16]);
    let at = mundi_runtime::lifecycle::ForkAt::Height(fork_height(&here));
    let now_ns = abroad.universe.plane().now_ns();
    abroad.universe.ops().world_fork(world, child, at, EffectPolicy::Suppress, now_ns).await.unwrap();
    abroad.put(child, "new", json!("child")).await;
    for proven in [world, child] {
        abroad.universe.ops().verify_world(proven).await.unwrap();
    }

    // And home again, under another name, because its own is taken.
    let returned = abroad.export(child).await;
    assert_eq!(home.import(&file, None).await.unwrap_err().code(), Code::WorldExists);
    home.import(&returned, None).await.unwrap();
    home.universe.ops().verify_world(child).await.unwrap();
    let other = WorldId::from_bytes([8; 16]);
    assert_eq!(home.import(&returned, Some(other)).await.unwrap().world, other);
    home.put(other, "new", json!("other")).await;
    home.universe.ops().verify_world(other).await.unwrap();
    assert_eq!(prove(&home.export(other).await).unwrap(), home.journal(other).await.len() as u64);
    home.stop().await;
    abroad.stop().await;
}

/// A height in the middle at which nothing is in progress: right after an outcome digest.
fn fork_height(records: &[Bytes]) -> Height {
    let digest = |bytes: &Bytes| matches!(cbor::decode::<Record>(bytes).unwrap().body, Body::OutcomeDigest(_));
    let at = records.iter().skip(records.len() / 2).position(digest).unwrap();
    Height::new((records.len() / 2 + at + 1) as u64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_effects_are_forgotten_or_carried_out_as_the_import_says() {
    let (home, abroad) = (folder().await, folder().await);
    let world = home.universe.create("kv").await.unwrap();
    let ask = json!({ "key": "answer", "kind": "external.task", "params": {} });
    home.call(world, "ask", ask).await;
    let file = home.export(world).await;
    let (quiet, live) = (WorldId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
    abroad.import_with(&file, Some(quiet), EffectPolicy::Suppress).await.unwrap();
    abroad.import_with(&file, Some(live), EffectPolicy::Live).await.unwrap();
    let queued = abroad.universe.ops().list_effects(None, None, None, 10);
    let worlds: Vec<_> = queued.await.unwrap().items.iter().map(|effect| effect.item.world).collect();
    assert_eq!(worlds, [live]);
    for world in [quiet, live] {
        abroad.universe.ops().verify_world(world).await.unwrap();
    }
    home.stop().await;
    abroad.stop().await;
}

/// A world that does nothing itself: its children are spawned by an operator.
struct Idle;

impl Program for Idle {
    fn handle(&self, _: &mut dyn Host, _: &Event<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

fn with_idle() -> Programs {
    Programs::builtin()
        .native("idle", 1, Idle, |manifest| drop(manifest.effects.insert(CHILD_SPAWN.into(), EffectRule::default())))
}

impl Folder {
    async fn spawn(&self, world: WorldId, name: &str) -> ChildId {
        let params = spec_params("external", &Value::Null, &Spend::default());
        let request = ClientRequest { client_request_id: name.into(), payload: Hash::of(b"") };
        let operator = Operator { token: None, name: "ada".into() };
        let minute = Duration::from_secs(60);
        self.universe.ops().child_spawn(world, params, &request, (operator, minute)).await.unwrap()
    }

    /// Kind, phase, queue number and events of each child.
    async fn children(&self, world: WorldId) -> Vec<(ChildId, &'static str, u64, Vec<&'static str>)> {
        let mut found = Vec::new();
        for token in self.universe.ops().children(world, None, 100).await.unwrap() {
            let (events, _) = self.universe.ops().child_events(world, token.child, 0).await.unwrap();
            let events = events.iter().map(|event| event.kind.as_str()).collect();
            found.push((token.child, token.phase.as_str(), token.queue_seq, events));
        }
        found
    }

    async fn tokens(&self, world: WorldId) -> (u64, Option<u64>) {
        let lines = self.universe.ops().budget(world).await.unwrap();
        let (_, budget) = lines.into_iter().find(|(lane, _)| *lane == Lane::Tokens).unwrap();
        (budget.total, budget.limit)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_that_ended_travel_with_totals_and_numbers_and_those_that_run_do_not_run_twice() {
    let (home, abroad) = (folder_with(with_idle()).await, folder_with(with_idle()).await);
    let world = home.universe.create("idle").await.unwrap();
    assert!(Bundle::open(Cursor::new(home.export(world).await)).unwrap().children().is_none());
    let ops = home.universe.ops();
    let request = |name: &str| ClientRequest { client_request_id: name.into(), payload: Hash::of(b"") };
    ops.budget_set(world, vec![(Lane::Tokens, Some(100))], &request("limit")).await.unwrap();
    let (passed, runs) = (home.spawn(world, "a").await, home.spawn(world, "b").await);
    let (cancelled, waits) = (home.spawn(world, "c").await, home.spawn(world, "d").await);
    let claims = ops.children_claim(&["external".to_owned()], 10, 60_000_000_000).await.unwrap();
    assert_eq!(claims.iter().map(|(claim, _)| claim.child).collect::<Vec<_>>(), [passed, runs]);
    for (claim, _) in &claims {
        ops.child_start(*claim).await.unwrap();
    }
    let spent = |tokens| Spend::default().with(Lane::Tokens, tokens);
    ops.child_finish(claims[0].0, ChildFinish::Passed(Value::Bool(true)), spent(40)).await.unwrap();
    ops.child_report(claims[1].0, spent(30)).await.unwrap();
    ops.child_cancel(world, cancelled, &request("stop")).await.unwrap();

    // An end that its world has not taken in is none for whoever reads the journal.
    while home.journal(world).await.iter().filter(|bytes| is_receipt(bytes)).count() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let file = home.export(world).await;
    assert_eq!(file, home.export(world).await, "the same world gives the same bytes");
    let (quiet, live) = (WorldId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
    abroad.import_with(&file, Some(quiet), EffectPolicy::Suppress).await.unwrap();
    abroad.import_with(&file, Some(live), EffectPolicy::Live).await.unwrap();
    let ended = [
        (passed, "terminal", 1, vec!["WORKER_START", "WORKER_PASS"]),
        (cancelled, "terminal", 3, vec!["WORKER_CANCEL"]),
    ];
    assert_eq!(abroad.children(quiet).await, ended);
    let there = abroad.children(live).await;
    assert_eq!(there[..2], ended);
    let anew: Vec<_> = there[2..].iter().map(|(_, phase, seq, events)| (*phase, *seq, events.len())).collect();
    assert_eq!(anew, [("queued", 5, 0), ("queued", 6, 0)], "queued anew, under numbers that nobody had");
    assert!(there[2..].iter().all(|(child, ..)| ![runs, waits].contains(child)));
    for world in [quiet, live] {
        assert_eq!(abroad.tokens(world).await, (70, Some(100)), "what was debited stays debited");
        abroad.universe.ops().verify_world(world).await.unwrap();
    }
    abroad.spawn(quiet, "e").await;
    assert_eq!(abroad.children(quiet).await[2].2, 5);

    // They travel on; the one at home goes on, too.
    let further = abroad.export(live).await;
    assert_eq!(Bundle::open(Cursor::new(&further)).unwrap().children().unwrap().ended.len(), 2);
    ops.child_finish(claims[1].0, ChildFinish::Passed(Value::Bool(true)), spent(30)).await.unwrap();
    assert_eq!(home.tokens(world).await, (70, Some(100)));
    home.stop().await;
    abroad.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_flipped_bit_anywhere_is_refused_with_its_height_or_place() {
    let home = folder().await;
    let world = busy_world(&home).await;
    let mut file = home.export(world).await;
    home.stop().await;
    let frames = frames(&file);
    let records = frames.iter().find(|frame| frame.kind == RECORDS).unwrap().offset;
    let first_bytes = frames.iter().flat_map(|frame| frame.offset..frame.offset + HEAD);
    let spread = (0..1_500).map(|n| n * file.len() / 1_500);
    // Every byte of every head of a frame, and bytes from all over the file.
    let places: Vec<usize> = (0..8).chain(first_bytes).chain(spread).collect();
    let mut with_height = 0;
    for at in places {
        file[at] ^= 1 << (at % 8);
        let refused = prove(&file).expect_err(&format!("byte {at} of {} was changed", file.len()));
        file[at] ^= 1 << (at % 8);
        assert_eq!(refused.code(), Code::BundleInvalid);
        with_height += usize::from(at > records && refused.height().is_some());
    }
    assert!(with_height > 50, "{with_height} of the damages among the records had a height");
    for len in [0, 7, 8, 100, file.len() / 2, file.len() - 1] {
        assert_eq!(prove(&file[..len]).unwrap_err().code(), Code::BundleInvalid, "cut at {len}");
    }
    file.push(0);
    assert_eq!(prove(&file).unwrap_err().code(), Code::BundleInvalid);
}

/// A forger who changes a record can compute every checksum again. Then chain and replay say where.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_record_is_refused_with_its_height_although_all_checksums_hold() {
    let home = folder().await;
    let world = busy_world(&home).await;
    let file = home.export(world).await;
    home.stop().await;
    assert!(prove(&forge(&file, |_, _| ())).is_ok(), "sealing again changes nothing");

    // One event says something else: the record above it follows another.
    let height = first_event(&file);
    let forged = forge(&file, |records, _| records[height] = alter(&records[height]));
    assert_eq!(prove(&forged).unwrap_err().height(), Some(Height::new(height as u64 + 1)));

    // All links are made again: what the record says does not have the hash that it names, or leads to another outcome.
    let forged = forge(&file, |records, chain| {
        records[height] = alter(&records[height]);
        *chain = link(records, height);
    });
    let refused = prove(&forged).unwrap_err();
    assert!(refused.height().is_some_and(|found| found.get() >= height as u64), "{refused}");

    // The same for a receipt that comes twice.
    let forged = forge(&file, |records, chain| {
        let receipt = records.iter().position(|bytes| is_receipt(bytes)).unwrap();
        let again = records[receipt].clone();
        records.insert(receipt + 1, again);
        *chain = link(records, receipt);
    });
    assert!(prove(&forged).unwrap_err().height().is_some());
}

/// A note that lies would be found out only when someone reads the past from it. It is found when the bundle is verified, as is every
/// other thing that the file says beside its records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_note_or_header_is_refused_although_all_checksums_hold() {
    let (home, abroad) = (folder().await, folder().await);
    let world = busy_world(&home).await;
    let file = home.export(world).await;
    let whole =
        [("snapshot", 0), ("height", 1), ("logical_time_ns", 2), ("receipt_horizon", 3), ("manifest", 4), ("chain", 5)];
    let forge_note = |note: &mut Value, field: usize| {
        let Value::Array(fields) = note else { panic!("a note is a list") };
        forge_leaf(&mut fields[field]);
    };
    for (name, field) in whole {
        let noted = forge_frame(&file, SNAPSHOTS, |notes| forge_note(last_of(notes), field));
        // The baseline stands in the header as well: both may lie, in the same way.
        let both = forge_frame(&noted, HEADER, |header| {
            let Value::Array(fields) = header else { panic!("a header is a list") };
            forge_note(&mut fields[6], field);
        });
        for forged in [noted, both] {
            assert_eq!(prove(&forged).expect_err(name).code(), Code::BundleInvalid, "{name}");
            assert_eq!(abroad.import(&forged, None).await.expect_err(name).code(), Code::BundleInvalid, "{name}");
        }
    }
    for (name, field) in [("universe", 1), ("world", 2), ("head", 3), ("chain", 4), ("lineage", 5)] {
        let forged = forge_frame(&file, HEADER, |header| {
            let Value::Array(fields) = header else { panic!("a header is a list") };
            match &mut fields[field] {
                Value::Array(lineage) => lineage.push(lineage[0].clone()),
                leaf => forge_leaf(leaf),
            }
        });
        assert_eq!(prove(&forged).expect_err(name).code(), Code::BundleInvalid, "{name}");
    }
    home.stop().await;
    abroad.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_nothing_refers_to_or_that_hides_what_it_needs_is_refused() {
    let home = folder().await;
    let world = busy_world(&home).await;
    let file = home.export(world).await;
    home.stop().await;
    let smuggled = forge_frame(&file, OBJECTS, |objects| {
        let Value::Array(objects) = objects else { panic!("objects are a list") };
        objects.push(Value::Array(vec![Value::Array(Vec::new()), Value::Bytes(b"smuggled".to_vec())]));
    });
    let smuggled = recount(&smuggled, 1, 8);
    assert!(matches!(prove(&smuggled).unwrap_err(), BundleError::Unreferred { hash } if hash == Hash::of(b"smuggled")));
    let hidden = forge_frame(&file, OBJECTS, |objects| {
        let Value::Array(objects) = objects else { panic!("objects are a list") };
        let of_snapshot = |object: &&mut Value| {
            matches!(object, Value::Array(fields)
            if matches!(&fields[1], Value::Bytes(bytes) if mundi_kernel::snapshot::KernelSnapshot::from_bytes(bytes).is_ok()))
        };
        let Value::Array(fields) = objects.iter_mut().rfind(of_snapshot).unwrap() else {
            panic!("an object is a list")
        };
        fields[0] = Value::Array(Vec::new());
    });
    assert_eq!(prove(&hidden).unwrap_err().code(), Code::BundleInvalid);
}

/// Data that compresses to almost nothing is stored uncompressed: whatever a world holds, its bundle can be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_world_of_zeros_moves_and_a_file_that_expands_to_a_gigabyte_does_not() {
    let (home, abroad) = (folder().await, folder().await);
    let world = home.universe.create("kv").await.unwrap();
    let zeros = Bytes::from(vec![0; 18 << 20]);
    let blob = Blobs::put(&home.universe.plane().blobs, home.universe.id(), zeros, &[]).await.unwrap();
    home.put(world, "blob", json!(blob.to_string())).await;
    let file = home.export(world).await;
    abroad.import(&file, None).await.unwrap();

    let mut frames = frames(&file);
    let part = frames.iter().position(|frame| frame.kind == PART).unwrap();
    let more: Vec<Frame> = (0..64).map(|_| Frame { raw: vec![0; 4 << 20], ..frames[part].clone() }).collect();
    frames.splice(part..part, more);
    let bomb = seal(&frames);
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    assert_eq!(prove(&bomb).unwrap_err().code(), Code::BundleTooLarge);
    home.stop().await;
    abroad.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_whose_program_is_not_here_says_so() {
    let home = folder().await;
    let world = home.universe.create("counter").await.unwrap();
    let file = home.export(world).await;
    home.stop().await;
    let bundle = Bundle::open(Cursor::new(&file)).unwrap();
    assert_eq!(bundle.verify(&Programs::new().into_registry()).unwrap_err().code(), Code::ProgramUnknown);
}

// What follows knows the format on its own, as a stranger's reader would.

const HEAD: usize = 21 + 32;
const HEADER: u8 = 1;
const OBJECTS: u8 = 2;
const PART: u8 = 4;
const SNAPSHOTS: u8 = 5;
const RECORDS: u8 = 6;
const END: u8 = 7;

#[derive(Clone)]
struct Frame {
    kind: u8,
    first: u64,
    count: u32,
    offset: usize,
    raw: Vec<u8>,
}

fn frames(file: &[u8]) -> Vec<Frame> {
    let (mut frames, mut at) = (Vec::new(), 8);
    while at < file.len() {
        let number = |from: usize| u32::from_le_bytes(file[at + from..at + from + 4].try_into().unwrap());
        let first = u64::from_le_bytes(file[at + 1..at + 9].try_into().unwrap());
        let end = at + HEAD + number(17) as usize;
        let raw = zstd::bulk::decompress(&file[at + HEAD..end], number(13) as usize).unwrap();
        frames.push(Frame { kind: file[at], first, count: number(9), offset: at, raw });
        at = end;
    }
    frames
}

fn seal(frames: &[Frame]) -> Vec<u8> {
    let mut file = b"MUNDIWB1".to_vec();
    let mut chain = Hash::of(&file);
    for frame in frames {
        let stored = zstd::bulk::compress(&frame.raw, 3).unwrap();
        let mut head = vec![frame.kind];
        head.extend_from_slice(&frame.first.to_le_bytes());
        for number in [frame.count as usize, frame.raw.len(), stored.len()] {
            head.extend_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
        }
        chain = Hash::of_parts([&chain.as_bytes()[..], &head, &stored]);
        file.extend_from_slice(&head);
        file.extend_from_slice(chain.as_bytes());
        file.extend_from_slice(&stored);
    }
    file
}

/// Changes what the last frame of a kind holds, and computes every checksum again.
fn forge_frame(file: &[u8], kind: u8, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut frames = frames(file);
    let frame = frames.iter_mut().rfind(|frame| frame.kind == kind).unwrap();
    let mut value = cbor::decode(&frame.raw).unwrap();
    change(&mut value);
    if let (OBJECTS | SNAPSHOTS, Value::Array(items)) = (kind, &value) {
        frame.count = u32::try_from(items.len()).unwrap();
    }
    frame.raw = cbor::encode(&value);
    seal(&frames)
}

fn last_of(list: &mut Value) -> &mut Value {
    let Value::Array(items) = list else { panic!("no list") };
    items.last_mut().unwrap()
}

/// The same kind of value, and another one.
fn forge_leaf(leaf: &mut Value) {
    match leaf {
        Value::Integer(number) => *number = (u64::try_from(i128::from(*number)).unwrap() + 1).into(),
        Value::Bytes(bytes) => bytes[0] ^= 1,
        other => panic!("{other:?}"),
    }
}

/// The last frame counts so many more objects and bytes of them.
fn recount(file: &[u8], objects: u64, object_bytes: u64) -> Vec<u8> {
    forge_frame(file, END, |end| {
        let Value::Array(counts) = end else { panic!("an end is a list") };
        for (count, more) in counts.iter_mut().zip([objects, object_bytes]) {
            let Value::Integer(number) = count else { panic!("a count is a number") };
            *number = (u64::try_from(i128::from(*number)).unwrap() + more).into();
        }
    })
}

/// The records as canonical CBOR byte strings in one array.
fn records_of(raw: &[u8]) -> Vec<Vec<u8>> {
    let Value::Array(items) = cbor::decode(raw).unwrap() else { panic!("records are a list") };
    let bytes = |item| if let Value::Bytes(bytes) = item { bytes } else { panic!("a record is bytes") };
    items.into_iter().map(bytes).collect()
}

/// Changes the records, and the hash of the last one that the header states, and computes every checksum again.
fn forge(file: &[u8], change: impl FnOnce(&mut Vec<Vec<u8>>, &mut Hash)) -> Vec<u8> {
    let mut frames = frames(file);
    let all: Vec<Vec<u8>> =
        frames.iter().filter(|frame| frame.kind == RECORDS).flat_map(|f| records_of(&f.raw)).collect();
    let (mut records, mut chain) = (all.clone(), Hash::of(all.last().unwrap()));
    change(&mut records, &mut chain);
    let Value::Array(mut header) = cbor::decode(&frames[0].raw).unwrap() else { panic!("a header is a list") };
    assert_eq!(frames[0].kind, HEADER);
    header[3] = Value::Integer((records.len() as u64).into());
    header[4] = Value::Bytes(chain.as_bytes().to_vec());
    frames[0].raw = cbor::encode(&Value::Array(header));
    let at = frames.iter().position(|frame| frame.kind == RECORDS).unwrap();
    frames.retain(|frame| frame.kind != RECORDS);
    let mut first = 0;
    for (n, chunk) in records.chunks(256).enumerate() {
        let raw = cbor::encode(&Value::Array(chunk.iter().cloned().map(Value::Bytes).collect()));
        frames
            .insert(at + n, Frame { kind: RECORDS, first, count: u32::try_from(chunk.len()).unwrap(), offset: 0, raw });
        first += chunk.len() as u64;
    }
    let end = frames.last_mut().unwrap();
    let Value::Array(mut counts) = cbor::decode(&end.raw).unwrap() else { panic!("an end is a list") };
    counts[2] = Value::Integer((records.len() as u64).into());
    end.raw = cbor::encode(&Value::Array(counts));
    seal(&frames)
}

fn first_event(file: &[u8]) -> usize {
    let frames = frames(file);
    let records = frames.iter().filter(|frame| frame.kind == RECORDS).flat_map(|frame| records_of(&frame.raw));
    let event = |bytes: Vec<u8>| {
        use mundi_model::record::Input;
        matches!(cbor::decode::<Record>(&bytes).unwrap().body, Body::Ingress(i) if matches!(i.item.input, Input::Event { .. }))
    };
    records.map(event).position(|is| is).unwrap()
}

fn is_receipt(bytes: &[u8]) -> bool {
    use mundi_model::record::Input;
    matches!(cbor::decode::<Record>(bytes).unwrap().body, Body::Ingress(i) if matches!(i.item.input, Input::Receipt(_)))
}

/// The same event, with another value under the same key.
fn alter(bytes: &[u8]) -> Vec<u8> {
    use mundi_model::record::{Input, Payload};
    let mut record: Record = cbor::decode(bytes).unwrap();
    let Body::Ingress(ingress) = &mut record.body else { panic!("an event comes in") };
    let Input::Event { value, .. } = &mut ingress.item.input else { panic!("an event comes in") };
    *value = Payload::Inline(cbor::encode(&Value::from(json!({ "key": "blob", "value": "forged" }))));
    record.seal().0
}

/// Makes heights and links of all records from a place on again; returns the hash of the last one.
fn link(records: &mut [Vec<u8>], from: usize) -> Hash {
    for at in from.max(1)..records.len() {
        let mut record: Record = cbor::decode(&records[at]).unwrap();
        record.height = Height::new(at as u64);
        record.prev = Hash::of(&records[at - 1]);
        records[at] = record.seal().0;
    }
    Hash::of(records.last().unwrap())
}
