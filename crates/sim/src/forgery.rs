//! Forged bundles: a good one is changed in a field that the forger chooses, and every checksum is computed again.
//!
//! A bundle's checksums protect against damage. A forger computes them again, so the protection against forgers is that
//! verification proves each field from the records, or that the field means nothing, or that it is reported as not proven. That is what [`check`]
//! holds: a forged bundle is refused; or its records are others, and it does not claim to be the same history; or nothing about it is, beside what
//! the proof names as unproven.
//!
//! The forger knows the format on its own, as a stranger's program would.

use bytes::Bytes;
use mundi_engine::Memory;
use mundi_kernel::Registry;
use mundi_model::{
    Hash, LabelChange, Labels, UniverseId, Value, WorkerId, WorldId, WorldName, cbor,
    child::Lane,
    record::{EffectPolicy, Record},
};
use mundi_runtime::{
    Plane, RuntimeError, Services,
    bundle::{Bundle, FrameSink, export},
    calls::Calls,
    control::Ops,
    effects::usual_retry,
    lifecycle::{ForkAt, NewWorld, create, register_trusted},
    testing::{Executor, call, manifest, register},
    world::{CycleBudget, Progress, WorldHost},
};
use mundi_store::{
    blobs::{Cas, CasConfig, NO_REFS},
    objects,
    protocol::{AcquireLease, CarriedChildren, CreateUniverse, enqueue},
    segments::SegmentStore,
    testing::{CountingEntropy, world_id},
    values::ChildBudget,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Cursor,
    sync::{Arc, LazyLock},
};

const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);
const MAGIC: &[u8; 8] = b"MUNDIWB1";
/// Kind, first height, count, length before compression, length; then the checksum.
const FIELDS_BYTES: usize = 21;
const HEAD_BYTES: usize = FIELDS_BYTES + Hash::LEN;

const HEADER: u8 = 1;
const OBJECTS: u8 = 2;
const SNAPSHOTS: u8 = 5;
const RECORDS: u8 = 6;
const END: u8 = 7;
const CHILDREN: u8 = 8;

type ForgeryPlane = Services<Memory, Cas<Memory>, SegmentStore<Memory>>;

/// The bundle that is forged: a branch of a world, each with snapshots, cells in several nodes, an open effect and a timer.
pub static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let executor = Executor::new(1);
    let plane = plane(&executor);
    #[expect(
        clippy::expect_used,
        reason = "an engine in memory refuses nothing, and without it there is nothing to forge"
    )]
    executor.block_on(async move { grow(&plane).await }).expect("a world in memory")
});

static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| {
    let mut registry = Registry::new();
    register(&mut registry);
    Arc::new(registry)
});

#[expect(clippy::expect_used, reason = "there is always memory to store objects in")]
fn plane(executor: &Executor) -> ForgeryPlane {
    let (engine, objects) = (Memory::new(), objects::open("memory:///").expect("objects in memory"));
    let (clock, entropy) = (Arc::new(executor.clone()), Arc::new(CountingEntropy::default()));
    let blobs = Cas::new(engine.clone(), objects.clone(), clock.clone(), entropy.clone(), CasConfig::default());
    let segments = SegmentStore::new(engine.clone(), objects);
    let (registry, spawner) = (REGISTRY.clone(), Arc::new(executor.node()));
    Services { engine, blobs, segments, clock, entropy, registry, spawner, retry: usual_retry() }
}

async fn grow(plane: &ForgeryPlane) -> Result<Vec<u8>, RuntimeError> {
    plane.run(&CreateUniverse { universe: UNIVERSE, now_ns: 1 }).await?;
    plane.blobs.put(UNIVERSE, Bytes::from(register(&mut Registry::new())), NO_REFS).await?;
    let manifest = plane.blobs.put(UNIVERSE, Bytes::from(manifest().to_bytes()), NO_REFS).await?;
    register_trusted(plane, UNIVERSE, &[manifest]).await?;
    #[expect(clippy::expect_used, reason = "it is a word")]
    let name: WorldName = "genuine".parse().expect("a name");
    let (parent, child) = (world_id(1), name.world(UNIVERSE));
    create(plane, NewWorld { universe: UNIVERSE, world: parent, manifest, inbox: None, now_ns: 1_000 }).await?;
    let cells: Vec<String> = (0..90).map(|n| format!("put cell/{n} {}", "v".repeat(n))).collect();
    let mut host = live(plane, parent, &[&cells.join("\n"), "emit asked"]).await?;
    host.snapshot().await?;
    tell(plane, &mut host, &["fill large 3000\nreply done"]).await?;
    let ops = Ops::new(plane.clone(), UNIVERSE, Calls::default());
    ops.world_fork(parent, child, ForkAt::Height(host.head()), EffectPolicy::Live, 5).await?;
    ops.name_world(name).await?;
    let labels = Labels::new([("tier".to_owned(), "free".to_owned())]).unwrap_or_default();
    ops.label_world(child, LabelChange { set: labels, ..LabelChange::default() }).await?;
    let mut host = live(plane, child, &["timer later 99000000000\nadd n"]).await?;
    host.snapshot().await?;
    tell(plane, &mut host, &["put cell/7 other\nemit again", "add n"]).await?;
    host.snapshot().await?;
    tell(plane, &mut host, &["put tail yes"]).await?;
    let mut file = Vec::new();
    export(plane, UNIVERSE, child, Sink(&mut file)).await?;
    Ok(file)
}

async fn live(plane: &ForgeryPlane, world: WorldId, scripts: &[&str]) -> Result<WorldHost<ForgeryPlane>, RuntimeError> {
    #[expect(clippy::expect_used, reason = "one is a number of a worker")]
    let worker = WorkerId::new(1).expect("a worker");
    let now_ns = plane.now_ns();
    let acquire = AcquireLease { universe: UNIVERSE, world, worker, now_ns, ttl_ns: u64::MAX / 2, opening: None };
    let fence = plane.run(&acquire).await?.output.fence;
    let mut host = WorldHost::restore(plane.clone(), fence).await?;
    tell(plane, &mut host, scripts).await?;
    Ok(host)
}

async fn tell(plane: &ForgeryPlane, host: &mut WorldHost<ForgeryPlane>, scripts: &[&str]) -> Result<(), RuntimeError> {
    for script in scripts {
        enqueue(&plane.engine, &*plane.clock, &plane.blobs, UNIVERSE, host.id(), vec![call(script)], 1).await?;
        while host.turn(&CycleBudget::default()).await? != Progress::Idle {}
    }
    Ok(())
}

struct Sink<'a>(&'a mut Vec<u8>);

impl FrameSink for Sink<'_> {
    async fn write(&mut self, frame: Bytes) -> Result<(), RuntimeError> {
        self.0.extend_from_slice(&frame);
        Ok(())
    }
}

/// A frame as a forger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    kind: u8,
    first: u64,
    count: u32,
    raw: Vec<u8>,
}

/// The frames of a file whose checksums hold; `None` for anything else.
fn frames(file: &[u8]) -> Option<Vec<Frame>> {
    let (mut frames, mut rest) = (Vec::new(), file.strip_prefix(MAGIC)?);
    while !rest.is_empty() {
        let (head, after) = rest.split_at_checked(HEAD_BYTES)?;
        let number = |at: usize| Some(u32::from_le_bytes(*head.get(at..)?.first_chunk()?));
        let (stored, after) = after.split_at_checked(number(17)? as usize)?;
        let raw = zstd::bulk::decompress(stored, number(13)? as usize).ok()?;
        let first = u64::from_le_bytes(*head.get(1..)?.first_chunk()?);
        frames.push(Frame { kind: head[0], first, count: number(9)?, raw });
        rest = after;
    }
    Some(frames)
}

/// Computes every length and every checksum.
fn seal(frames: &[Frame]) -> Vec<u8> {
    let (mut file, mut chain) = (MAGIC.to_vec(), Hash::of(MAGIC));
    for frame in frames {
        let stored = zstd::bulk::compress(&frame.raw, 3).unwrap_or_default();
        let mut head = vec![frame.kind];
        head.extend_from_slice(&frame.first.to_le_bytes());
        for number in [frame.count as usize, frame.raw.len(), stored.len()] {
            head.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
        }
        chain = Hash::of_parts([&chain.as_bytes()[..], &head, &stored]);
        file.extend_from_slice(&head);
        file.extend_from_slice(chain.as_bytes());
        file.extend_from_slice(&stored);
    }
    file
}

/// A bundle with its header changed, and all checksums computed again; `None` for anything but a bundle.
pub fn with_header(file: &[u8], change: impl FnOnce(&mut Vec<Value>)) -> Option<Vec<u8>> {
    let mut frames = frames(file)?;
    let header = frames.iter_mut().find(|frame| frame.kind == HEADER)?;
    let Ok(Value::Array(mut fields)) = cbor::decode(&header.raw) else { return None };
    change(&mut fields);
    header.raw = cbor::encode(&Value::Array(fields));
    Some(seal(&frames))
}

/// A bundle with so many objects more of some 4 MB each, which take no space in the file.
pub fn bomb(file: &[u8], count: usize) -> Option<Vec<u8>> {
    let mut frames = frames(file)?;
    let at = frames.iter().position(|frame| frame.kind == HEADER)? + 1;
    for number in 0..count {
        let mut bytes = vec![0; 4_000_000];
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let objects = Value::Array(vec![Value::Array(vec![Value::Array(Vec::new()), Value::Bytes(bytes)])]);
        frames.insert(at, Frame { kind: OBJECTS, first: 0, count: 1, raw: cbor::encode(&objects) });
    }
    count_again(&mut frames);
    Some(seal(&frames))
}

/// The decisions of a forger, one byte after the other; zero when there are no more.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn below(&mut self, max: usize) -> usize {
        let mut take = || match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                usize::from(*byte)
            }
            None => 0,
        };
        let wide = if max > 256 { take() << 8 | take() } else { take() };
        wide % max.max(1)
    }
}

/// Changes a good bundle as the bytes say, and makes all checksums hold.
pub fn forge(choices: &[u8]) -> Vec<u8> {
    let (mut choices, mut frames) = (Choices(choices), frames(&GOOD).unwrap_or_default());
    let hashes = hashes(&frames);
    for _ in 0..=choices.below(2) {
        let at = choices.below(frames.len());
        match choices.below(16) {
            0 => frames[at].first = choices.below(300) as u64,
            1 => frames[at].count = u32::try_from(choices.below(300)).unwrap_or(0),
            2 => frames[at].kind = u8::try_from(choices.below(9)).unwrap_or(0),
            3 => drop(frames.remove(at)),
            4 => {
                let (to, frame) = (choices.below(frames.len()), frames[at].clone());
                frames.insert(to, frame);
            }
            5 => {
                let other = choices.below(frames.len());
                frames.swap(at, other);
            }
            6 if choices.below(4) == 0 => add_children(&mut frames, &mut choices),
            6 => add_object(&mut frames, &mut choices, &hashes),
            _ if frames[at].kind == RECORDS => forge_record(&mut frames, at, &mut choices, &hashes),
            _ => {
                if let Ok(mut value) = cbor::decode(&frames[at].raw) {
                    change(&mut value, &mut choices, &hashes);
                    frames[at].raw = cbor::encode(&value);
                    recount(&mut frames[at]);
                }
            }
        }
        if frames.is_empty() {
            break;
        }
    }
    if choices.below(4) > 0 {
        count_again(&mut frames);
    }
    seal(&frames)
}

/// Hashes of all kinds that stand in the bundle: a forger exchanges one for another.
fn hashes(frames: &[Frame]) -> Vec<Vec<u8>> {
    fn walk(value: &Value, found: &mut BTreeSet<Vec<u8>>) {
        match value {
            Value::Bytes(bytes) if bytes.len() == Hash::LEN => drop(found.insert(bytes.clone())),
            Value::Bytes(bytes) => {
                if let Ok(inner) = cbor::decode(bytes) {
                    walk(&inner, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    frames.iter().filter_map(|frame| cbor::decode(&frame.raw).ok()).for_each(|value: Value| walk(&value, &mut found));
    found.into_iter().collect()
}

/// Changes one leaf of a value, or the form of a list.
fn change(value: &mut Value, choices: &mut Choices<'_>, hashes: &[Vec<u8>]) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            let at = choices.below(items.len());
            match choices.below(12) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, items[at].clone()),
                2 => {
                    let other = choices.below(items.len());
                    items.swap(at, other);
                }
                _ => change(&mut items[at], choices, hashes),
            }
        }
        Value::Integer(number) => {
            let before = u64::try_from(i128::from(*number)).unwrap_or(0);
            let after = [before.wrapping_add(1), before.wrapping_sub(1), 0, before ^ 1 << choices.below(63)];
            *number = after[choices.below(4)].into();
        }
        Value::Bytes(bytes) if bytes.len() == Hash::LEN && choices.below(2) == 0 && !hashes.is_empty() => {
            bytes.clone_from(&hashes[choices.below(hashes.len())]);
        }
        Value::Bytes(bytes) if !bytes.is_empty() => {
            let at = choices.below(bytes.len());
            bytes[at] ^= 1 << choices.below(8);
        }
        Value::Map(entries) if !entries.is_empty() => {
            let at = choices.below(entries.len());
            if let Some(value) = entries.values_mut().nth(at) {
                change(value, choices, hashes);
            }
        }
        Value::Text(text) => text.push('x'),
        Value::Bool(is) => *is = !*is,
        Value::Null => *value = Value::Integer((choices.below(300) as u64).into()),
        other => *other = Value::Null,
    }
}

/// Changes a record, perhaps makes all links above it again, and perhaps says so in the header.
fn forge_record(frames: &mut [Frame], at: usize, choices: &mut Choices<'_>, hashes: &[Vec<u8>]) {
    let Some(mut records) = sealed(&frames[at]) else { return };
    let place = choices.below(records.len());
    let Ok(mut value) = cbor::decode(&records[place]) else { return };
    change(&mut value, choices, hashes);
    records[place] = cbor::encode(&value);
    frames[at].raw = cbor::encode(&Value::Array(records.into_iter().map(Value::Bytes).collect()));
    if choices.below(4) > 0 {
        link(frames);
    }
}

fn sealed(frame: &Frame) -> Option<Vec<Vec<u8>>> {
    let Ok(Value::Array(items)) = cbor::decode(&frame.raw) else { return None };
    let bytes = |item| if let Value::Bytes(bytes) = item { Some(bytes) } else { None };
    items.into_iter().map(bytes).collect()
}

/// Links every record to the one below it, and the header to the last one.
fn link(frames: &mut [Frame]) {
    let mut prev = Record::CHAIN_START;
    for frame in frames.iter_mut().filter(|frame| frame.kind == RECORDS) {
        let Some(mut records) = sealed(frame) else { return };
        for bytes in &mut records {
            if let Ok(mut record) = cbor::decode::<Record>(bytes) {
                record.prev = prev;
                *bytes = record.seal().0;
            }
            prev = Hash::of(bytes);
        }
        frame.raw = cbor::encode(&Value::Array(records.into_iter().map(Value::Bytes).collect()));
    }
    if let Some(header) = frames.iter_mut().find(|frame| frame.kind == HEADER)
        && let Ok(Value::Array(mut fields)) = cbor::decode(&header.raw)
        && let Some(chain) = fields.get_mut(4)
    {
        *chain = Value::Bytes(prev.as_bytes().to_vec());
        header.raw = cbor::encode(&Value::Array(fields));
    }
}

/// One more object, that refers to one which is there, or to none.
fn add_object(frames: &mut [Frame], choices: &mut Choices<'_>, hashes: &[Vec<u8>]) {
    let Some(frame) = frames.iter_mut().rfind(|frame| frame.kind == OBJECTS) else { return };
    let Ok(Value::Array(mut objects)) = cbor::decode(&frame.raw) else { return };
    let refs = if choices.below(2) == 0 { vec![] } else { vec![hashes[choices.below(hashes.len())].clone()] };
    let bytes = vec![0xf5; choices.below(300)];
    objects.push(Value::Array(vec![Value::Array(refs.into_iter().map(Value::Bytes).collect()), Value::Bytes(bytes)]));
    frame.raw = cbor::encode(&Value::Array(objects));
    recount(frame);
}

/// Children that the world never had: counters, and budgets of three lanes.
fn add_children(frames: &mut Vec<Frame>, choices: &mut Choices<'_>) {
    let number = |n: usize| Value::Integer((n as u64).into());
    if let Some(header) = frames.iter_mut().find(|frame| frame.kind == HEADER)
        && let Ok(Value::Array(mut fields)) = cbor::decode(&header.raw)
    {
        fields[0] = number(2);
        header.raw = cbor::encode(&Value::Array(fields));
    }
    let carried = CarriedChildren {
        next_queue_seq: choices.below(9) as u64,
        next_dispatch_seq: choices.below(9) as u64 + 1,
        budgets: vec![ChildBudget { total: choices.below(300) as u64, ..ChildBudget::default() }; Lane::ALL.len()],
        ended: Vec::new(),
    };
    let at = frames.len().saturating_sub(1);
    frames.insert(at, Frame { kind: CHILDREN, first: 0, count: 1, raw: cbor::encode(&carried) });
}

/// A list says in its frame's head how long it is.
fn recount(frame: &mut Frame) {
    if [OBJECTS, SNAPSHOTS, RECORDS].contains(&frame.kind)
        && let Ok(Value::Array(items)) = cbor::decode(&frame.raw)
    {
        frame.count = u32::try_from(items.len()).unwrap_or(u32::MAX);
    }
}

/// The last frame counts what there is.
fn count_again(frames: &mut [Frame]) {
    let meaning = Meaning::of(frames);
    let bytes: usize = meaning.objects.values().map(|(bytes, _)| bytes.len()).sum();
    let counts = [meaning.objects.len(), bytes, meaning.records.len()].map(|n| Value::Integer((n as u64).into()));
    if let Some(end) = frames.iter_mut().find(|frame| frame.kind == END) {
        end.raw = cbor::encode(&Value::Array(counts.to_vec()));
    }
}

/// The bytes of an object, and the hashes that it says it refers to.
type Object = (Vec<u8>, BTreeSet<Vec<u8>>);

/// Everything that a bundle says.
#[derive(Debug, Clone, PartialEq, Default)]
struct Meaning {
    header: Vec<Value>,
    objects: BTreeMap<Hash, Object>,
    notes: Vec<Value>,
    records: Vec<Vec<u8>>,
    children: Option<Value>,
}

impl Meaning {
    fn of(frames: &[Frame]) -> Self {
        let mut meaning = Self::default();
        for frame in frames {
            match (frame.kind, cbor::decode(&frame.raw)) {
                (HEADER, Ok(Value::Array(fields))) => meaning.header = fields,
                (SNAPSHOTS, Ok(Value::Array(notes))) => meaning.notes = notes,
                (RECORDS, Ok(_)) => meaning.records.extend(sealed(frame).unwrap_or_default()),
                (CHILDREN, Ok(children)) => meaning.children = Some(children),
                (OBJECTS, Ok(Value::Array(objects))) => meaning.objects.extend(objects.iter().filter_map(object)),
                _ => {}
            }
        }
        meaning
    }

    fn chain(&self) -> Option<&Value> {
        self.header.get(4)
    }
}

fn object(value: &Value) -> Option<(Hash, Object)> {
    let Value::Array(fields) = value else { return None };
    let [Value::Array(refs), Value::Bytes(bytes)] = &fields[..] else { return None };
    let bytes_of = |value: &Value| if let Value::Bytes(bytes) = value { Some(bytes.clone()) } else { None };
    Some((Hash::of(bytes), (bytes.clone(), refs.iter().filter_map(bytes_of).collect())))
}

/// The result of a forgery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Refused,
    /// It is believed, and nothing that it says differs from the good one in a way that anyone could notice later.
    SameMeaning,
    /// The same, but for parts that the proof says are not proven.
    Unproven,
    /// It is believed to be another history: its records have another hash, and it says so.
    OtherHistory,
}

/// Opens and verifies a bundle, and holds it against the good one.
///
/// # Panics
///
/// If a forgery is believed.
pub fn check(file: &[u8]) -> Verdict {
    let proven = Bundle::open(Cursor::new(file)).and_then(|bundle| bundle.verify(&REGISTRY));
    let Ok(proof) = proven else { return Verdict::Refused };
    let (good, found) = (frames(&GOOD).unwrap_or_default(), frames(file).unwrap_or_default());
    let (good, found) = (Meaning::of(&good), Meaning::of(&found));
    if found.chain() != good.chain() {
        assert_eq!(Some(&Value::Bytes(proof.from_genesis.chain.as_bytes().to_vec())), found.chain());
        assert_ne!(found.records, good.records);
        return Verdict::OtherHistory;
    }
    assert_eq!(found.records, good.records, "the same chain, and other records");
    let proven = |header: &[Value]| header.get(1..6).map(<[Value]>::to_vec);
    assert_eq!(proven(&found.header), proven(&good.header), "a forged header is believed");
    let field = |meaning: &Meaning, at: usize| meaning.header.get(at).cloned().unwrap_or(Value::Null);
    let is_forged = [
        ("name", field(&found, 7) != field(&good, 7)),
        ("labels", field(&found, 8) != field(&good, 8)),
        ("children", found.children != good.children || field(&found, 0) != field(&good, 0)),
    ];
    let mut verdict = Verdict::SameMeaning;
    for (part, _) in is_forged.into_iter().filter(|(_, is_forged)| *is_forged) {
        assert!(proof.unproven.contains(&part), "a forged {part} is believed");
        verdict = Verdict::Unproven;
    }
    // Which of its snapshots it names is its exporter's choice; what it says of each is not.
    let foreign = found.notes.iter().chain(found.header.get(6)).find(|note| !good.notes.contains(note));
    assert_eq!(foreign, None, "a forged note is believed");
    for (hash, (_, refs)) in &found.objects {
        let Some((_, genuine)) = good.objects.get(hash) else { panic!("{hash} was smuggled in") };
        let is_dropped = |needed: &&Vec<u8>| !refs.contains(*needed);
        assert_eq!(genuine.iter().find(is_dropped), None, "{hash} does not keep what it needs");
    }
    let lost = good.objects.keys().find(|hash| !found.objects.contains_key(hash));
    assert_eq!(lost, None, "an object is missing, and nobody noticed");
    verdict
}
