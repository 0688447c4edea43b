//! The cost of a step, a replay, a snapshot, a diff and a cold start.
//!
//! `cargo run --profile dist -p mundi-kernel --example kernel_bench -- --format table`
//!
//! Options: `--format json|table`, `--only NAME` (one measurement, for a profiler), `--records N`,
//! `--cells N`. Each measurement is the best of several rounds, and rounds of what is compared alternate,
//! so that a ratio compares like with like on a busy machine.

#![expect(clippy::disallowed_methods, reason = "a bench measures time")]
#![expect(clippy::print_stdout, reason = "and prints it")]
#![expect(clippy::unwrap_used, reason = "what it measures does not fail")]

use mundi_kernel::{
    MemoryObjects, Objects, Registry, World,
    cells::{Cells, diff},
    manifest::{Manifest, Schema},
    objects::LoadError,
    program::{Cause, Event, Failure, Host, Program, View},
    registry::native_descriptor,
    replay::Replay,
    turn::{Arrival, Arrived, TurnBudget},
};
use mundi_model::{
    Hash, InboxSeq, Stamp, UniverseId, WorldId,
    record::{Genesis, InboxItem, Input, Origin, Payload, SnapshotNote},
};
use std::{
    cell::Cell,
    collections::BTreeMap,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

const ROUNDS: usize = 5;
/// Items of one turn: what a worker takes at a time.
const TURN_ITEMS: usize = 64;

struct Counter;

impl Program for Counter {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        if let Cause::Message { payload, .. } = event.cause {
            return fill(host, payload);
        }
        let before = host.get("count")?.map_or(0, |bytes| bytes.try_into().map_or(0, u64::from_be_bytes));
        Ok(host.put("count", &(before + 1).to_be_bytes())?)
    }

    fn query(&self, view: &mut dyn View, _: &str, _: &[u8]) -> Result<Vec<u8>, Failure> {
        Ok(view.get("count")?.unwrap_or_default())
    }
}

/// Writes a thousand cells, from the one that the payload names on.
fn fill(host: &mut dyn Host, payload: &[u8]) -> Result<(), Failure> {
    let first = payload.try_into().map_or(0, u32::from_be_bytes);
    (first..first + 1_000).try_for_each(|number| Ok(host.put(&key(number), &u64::from(number).to_be_bytes())?))
}

/// One measurement: what, how much, and compared with what.
struct Line {
    name: String,
    value: f64,
    unit: &'static str,
}

type Measure = fn(&mut Bench);

struct Bench {
    objects: MemoryObjects,
    registry: Arc<Registry>,
    manifest: Hash,
    records: usize,
    cells: u32,
    lines: Vec<Line>,
}

fn main() {
    let option = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
    let number = |name: &str, default: u32| option(name).map_or(default, |text| text.parse().unwrap());
    let mut bench = Bench::new(number("--records", 200_000) as usize, number("--cells", 200_000));
    let all: [(&str, Measure); 5] = [
        ("step", Bench::step),
        ("replay", Bench::replay),
        ("snapshot", Bench::snapshot),
        ("diff", Bench::diff),
        ("cold", Bench::cold_start),
    ];
    let only = option("--only");
    for (name, run) in all {
        if only.as_deref().is_none_or(|only| only == name) {
            run(&mut bench);
        }
    }
    if option("--format").is_some_and(|format| format == "json") { bench.print_json() } else { bench.print_table() }
}

impl Bench {
    fn new(records: usize, cells: u32) -> Self {
        let (mut objects, mut registry) = (MemoryObjects::new(), Registry::new());
        let program = registry.register_native("counter", 1, Counter);
        objects.put(native_descriptor("counter", 1).into_bytes());
        let mut manifest = Manifest::new(program);
        manifest.events.insert("add".into(), Schema::anything());
        let manifest = objects.put(manifest.to_bytes());
        Self { objects, registry: Arc::new(registry), manifest, records, cells, lines: Vec::new() }
    }

    fn world(&self) -> (World, Vec<u8>) {
        let (universe, world) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
        let genesis = Genesis { universe, world, manifest: self.manifest, now_ns: 0 };
        World::create(&self.objects, self.registry.clone(), genesis).unwrap()
    }

    fn report(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.lines.push(Line { name: name.into(), value, unit });
    }

    /// Steps of the counter, records encoded and hashed, against the same closure without a kernel.
    fn step(&mut self) {
        let arrivals: Vec<_> = (0..self.records as u64).map(arrival).collect();
        let (mut kernel, mut closure) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            let (mut world, _) = self.world();
            kernel = kernel.min(timed(|| {
                black_box(run(&mut world, &self.objects, &arrivals).len());
            }));
            closure = closure.min(timed(|| bare_closure(&arrivals)));
        }
        let per_second = |time: Duration| self.records as f64 / time.as_secs_f64();
        let (kernel, closure) = (per_second(kernel), per_second(closure));
        self.report("counter steps", kernel, "steps/s");
        self.report("bare closure", closure, "steps/s");
        self.report("closure / kernel", closure / kernel, "x");
    }

    /// Records replayed and verified, on one core.
    fn replay(&mut self) {
        let (mut world, first) = self.world();
        let arrivals: Vec<_> = (0..self.records as u64).map(arrival).collect();
        let journal = run(&mut world, &self.objects, &arrivals);
        let (mut replayed, mut decoded) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            replayed = replayed.min(timed(|| {
                let mut replay = Replay::from_genesis(&self.objects, self.registry.clone(), &first).unwrap();
                replay.run(&self.objects, &journal, None).unwrap();
                assert_eq!(replay.finish().unwrap().chain(), world.chain());
            }));
            decoded = decoded.min(timed(|| {
                for record in &journal {
                    black_box(mundi_model::cbor::decode::<mundi_model::record::Record>(record).unwrap());
                    black_box(Hash::of(record));
                }
            }));
        }
        let per_second = |time: Duration| journal.len() as f64 / time.as_secs_f64();
        let bytes: usize = journal.iter().map(Vec::len).sum();
        let (replayed, decoded) = (per_second(replayed), per_second(decoded));
        self.report("replay", replayed, "records/s");
        self.report("decode and hash alone", decoded, "records/s");
        self.report("replay / decode and hash", decoded / replayed, "x");
        self.report("record size", bytes as f64 / journal.len() as f64, "bytes");
    }

    fn tree(&mut self) -> Option<Hash> {
        let mut cells = Cells::open(None);
        for number in 0..self.cells {
            cells.put(&key(number), u64::from(number).to_be_bytes().to_vec());
        }
        self.save(&mut cells)
    }

    fn save(&mut self, cells: &mut Cells) -> Option<Hash> {
        let root = cells.flush(&self.objects).unwrap();
        let new: Vec<_> = cells.unsaved().collect();
        cells.saved(new.iter().map(|(hash, _)| hash));
        self.objects.extend(new);
        root
    }

    fn changed(&self, root: Option<Hash>, changes: u32) -> Cells {
        let mut cells = Cells::open(root);
        let apart = (self.cells / changes).max(1);
        for index in 0..changes {
            cells.put(&key(index * apart), b"changed".to_vec());
        }
        cells
    }

    /// The tree of a snapshot, by how many cells changed.
    fn snapshot(&mut self) {
        let root = self.tree();
        for changes in [1, 10, 100, 1_000, 10_000] {
            let mut best = (Duration::MAX, 0);
            for _ in 0..ROUNDS {
                let mut cells = self.changed(root, changes);
                let time = timed(|| {
                    black_box(cells.flush(&self.objects).unwrap());
                });
                best = best.min((time, cells.unsaved().count()));
            }
            self.report(format!("snapshot, {changes} of {} cells changed", self.cells), micros(best.0), "us");
            self.report(format!("  nodes written, {changes} changed"), best.1 as f64, "nodes");
        }
    }

    /// The diff of two roots, by how many cells differ.
    fn diff(&mut self) {
        let root = self.tree();
        for changes in [1, 10, 100, 1_000, 10_000] {
            let mut cells = self.changed(root, changes);
            let other = self.save(&mut cells);
            let mut best = (Duration::MAX, 0);
            for _ in 0..ROUNDS {
                let counting = Counting { objects: &self.objects, loads: Cell::new(0) };
                let time = timed(|| assert_eq!(diff(&counting, root, other, |diff| diff.count()), changes as usize));
                best = best.min((time, counting.loads.get()));
            }
            self.report(format!("diff, {changes} of {} cells differ", self.cells), micros(best.0), "us");
            self.report(format!("  nodes read, {changes} differ"), best.1 as f64, "nodes");
        }
    }

    /// A world from its baseline, to its first answer and its first step.
    fn cold_start(&mut self) {
        let (mut world, _) = self.world();
        for first in (0..self.cells).step_by(1_000) {
            let payload = Payload::Inline(first.to_be_bytes().to_vec());
            let input = Input::Message { inbox: "fill".into(), payload, headers: BTreeMap::new() };
            run(&mut world, &self.objects, &[arrive(u64::from(first), input)]);
        }
        let note = self.baseline(&mut world);
        let (mut restored, mut stepped) = (Duration::MAX, Duration::MAX);
        let mut loads = 0;
        for round in 0..ROUNDS as u64 {
            let counting = Counting { objects: &self.objects, loads: Cell::new(0) };
            let start = Instant::now();
            let mut world = World::restore(&counting, self.registry.clone(), &note).unwrap();
            restored = restored.min(start.elapsed());
            run(&mut world, &counting, &[arrival(u64::from(self.cells) + round)]);
            stepped = stepped.min(start.elapsed());
            loads = counting.loads.get();
        }
        self.report(format!("cold start with {} cells: restore", self.cells), micros(restored), "us");
        self.report("cold start: restore and first step", micros(stepped), "us");
        self.report("  objects read", loads as f64, "objects");
    }

    fn baseline(&mut self, world: &mut World) -> SnapshotNote {
        let taken = world.snapshot(&self.objects).unwrap();
        self.objects.extend(taken.objects.iter().cloned());
        world.saved(&taken);
        taken.note
    }

    fn print_table(&self) {
        for line in &self.lines {
            println!("{:<44} {:>16.1} {}", line.name, line.value, line.unit);
        }
    }

    fn print_json(&self) {
        let lines = self
            .lines
            .iter()
            .map(|line| serde_json::json!({ "name": line.name.trim(), "value": line.value, "unit": line.unit }));
        println!("{}", serde_json::Value::Array(lines.collect()));
    }
}

fn arrival(number: u64) -> Arrival {
    arrive(number, Input::Event { schema: "add".into(), value: Payload::Inline(vec![1]), key: None })
}

fn arrive(number: u64, input: Input) -> Arrival {
    let origin = Origin::new(number);
    let seq = InboxSeq::new(Stamp::new(number + 1, 0), 0);
    let mut entropy = [0; 16];
    entropy[..8].copy_from_slice(&number.to_be_bytes());
    Arrival { seq, item: Arrived::Item(Arc::new(InboxItem { input, origin })), now_ns: number * 1_000, entropy }
}

/// Takes the items turn by turn, and returns the journal.
fn run(world: &mut World, objects: &dyn Objects, arrivals: &[Arrival]) -> Vec<Vec<u8>> {
    let mut journal = Vec::new();
    for items in arrivals.chunks(TURN_ITEMS) {
        journal.extend(
            world
                .turn(objects, items, TurnBudget::default())
                .unwrap()
                .keep()
                .records
                .into_iter()
                .map(|record| record.to_vec()),
        );
    }
    journal
}

/// The counter's work, with a map for cells and nothing else.
fn bare_closure(arrivals: &[Arrival]) {
    let mut cells: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut handle = |_: &Arrival| {
        let before = cells.get("count").map_or(0, |bytes| bytes.as_slice().try_into().map_or(0, u64::from_be_bytes));
        cells.insert("count".to_owned(), (before + 1).to_be_bytes().to_vec());
    };
    arrivals.iter().for_each(&mut handle);
    black_box(cells.len());
}

struct Counting<'a> {
    objects: &'a MemoryObjects,
    loads: Cell<usize>,
}

impl Objects for Counting<'_> {
    fn load(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
        self.loads.set(self.loads.get() + 1);
        self.objects.load(hash)
    }

    fn contains(&self, hash: &Hash) -> Result<bool, LoadError> {
        Ok(self.objects.contains(hash))
    }
}

fn key(number: u32) -> String {
    format!("cell/{number:08}")
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
