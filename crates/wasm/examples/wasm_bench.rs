//! The cost of a component, beside the same program in native Rust.
//!
//! `cargo run --profile dist -p mundi-wasm --example wasm_bench -- --lang rust,ts,python --distinct 1000`
//!
//! The program is the counter of `mundi program new --template handler`, built here. Rounds of what is compared alternate, and the best of each
//! counts, so that a ratio compares like with like on a busy machine. A step includes everything that the kernel does: the
//! schema, the records, their hashes.

#![expect(clippy::disallowed_methods, reason = "a bench measures time")]
#![expect(clippy::print_stdout, reason = "and prints it")]
#![expect(clippy::unwrap_used, reason = "what it measures does not fail")]

use mundi_kernel::{
    MemoryObjects, Registry, World,
    loader::{Loader, Readiness},
    manifest::{Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program, View},
    turn::{Arrival, Arrived, TurnBudget},
};
use mundi_model::{
    Hash, InboxSeq, Stamp, UniverseId, Value, WorldId, cbor,
    record::{Genesis, InboxItem, Input, Origin, Payload},
};
use mundi_wasm::{
    Components, ComponentsConfig,
    build::{Builder, Language, Template, scaffold},
};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Items of one turn: what a worker takes at a time.
const TURN_ITEMS: u64 = 64;

/// The counter of `mundi program new --template handler`.
struct Counter;

impl Program for Counter {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let Cause::Event { value, .. } = event.cause else { return Ok(()) };
        let read = |bytes: &[u8]| cbor::decode::<i64>(bytes).map_err(|error| Failure::new(error.to_string()));
        let count = host.get("count")?.map_or(Ok(0), |bytes| read(&bytes))? + read(value)?;
        host.put("count", &cbor::encode(&count))?;
        Ok(host.reply(event.seq, &cbor::encode(&count))?)
    }

    fn query(&self, view: &mut dyn View, _: &str, _: &[u8]) -> Result<Vec<u8>, Failure> {
        Ok(view.get("count")?.unwrap_or_default())
    }
}

/// A world that counts.
struct Bench {
    objects: MemoryObjects,
    world: World,
    next: u64,
}

impl Bench {
    fn new(registry: Registry, manifest: &Manifest, code: &[u8]) -> Self {
        let mut objects = MemoryObjects::new();
        objects.put(code.to_vec());
        let manifest = objects.put(manifest.to_bytes());
        let (universe, world) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
        let genesis = Genesis { universe, world, manifest, now_ns: 0 };
        let (world, _) = World::create(&objects, Arc::new(registry), genesis).unwrap();
        Self { objects, world, next: 1 }
    }

    fn native() -> Self {
        let mut registry = Registry::new();
        let mut manifest = Manifest::new(registry.register_native("counter", 1, Counter));
        manifest.events.insert("add".to_owned(), Schema(serde_json::json!({ "type": "integer" })));
        manifest.queries.insert("count".to_owned(), Schema::anything());
        Self::new(registry, &manifest, b"")
    }

    fn component(components: &Arc<Components>, code: &[u8]) -> Self {
        let manifest = components.prepare_now(code).unwrap();
        let mut registry = Registry::new();
        registry.set_loader(components.clone());
        Self::new(registry, &manifest, code)
    }

    fn steps(&mut self, turns: u64) -> Duration {
        let began = Instant::now();
        for _ in 0..turns {
            let arrivals: Vec<_> = (self.next..self.next + TURN_ITEMS).map(arrival).collect();
            self.next += TURN_ITEMS;
            let output = self.world.turn(&self.objects, &arrivals, TurnBudget::default()).unwrap().keep();
            assert_eq!(output.replies.len() as u64, TURN_ITEMS);
        }
        began.elapsed()
    }

    fn queries(&self, count: u32) -> Duration {
        let began = Instant::now();
        for _ in 0..count {
            self.world.query(&self.objects, "count", &[0xf6]).unwrap();
        }
        began.elapsed()
    }
}

fn arrival(number: u64) -> Arrival {
    let value = Payload::Inline(cbor::encode(&Value::Integer(1.into())));
    let input = Input::Event { schema: "add".to_owned(), value, key: None };
    let origin = Origin { wants_reply: true, ..Origin::new(0) };
    let item = Arrived::Item(Arc::new(InboxItem { input, origin }));
    Arrival { seq: InboxSeq::new(Stamp::new(number, 0), 0), item, now_ns: number, entropy: [0; 16] }
}

fn line(name: &str, value: f64, unit: &str) {
    println!("{name:<44} {value:>14.2} {unit}");
}

fn per(duration: Duration, count: u64) -> f64 {
    duration.as_secs_f64() * 1e6 / count as f64
}

/// The component under another name: a section that nobody reads, with a number in it.
fn distinct(component: &[u8], number: u32) -> Vec<u8> {
    let section = [&[0, 9, 4], &b"nr.."[..], &number.to_be_bytes()].concat();
    [component, &section].concat()
}

fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0
}

fn main() {
    let option = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
    let languages = option("--lang").unwrap_or_else(|| "rust".to_owned());
    let count: u32 = option("--distinct").map_or(1_000, |count| count.parse().unwrap());
    let rounds: u32 = option("--rounds").map_or(100, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("compiled");
    for language in languages.split(',') {
        let language: Language = language.parse().unwrap();
        let code = build(folder.path(), language);
        steps(language, &code, rounds);
        starts(language, &code, &cache);
        if language == Language::Rust && count > 0 {
            many(&code, count, &cache);
        }
    }
}

fn build(folder: &Path, language: Language) -> Vec<u8> {
    let project = folder.join(format!("counter-{}", language.to_string().to_lowercase()));
    scaffold(&project, language, Template::Handler).unwrap();
    Builder { install: true, ..Builder::default() }.build(&project).unwrap().component
}

/// Native and component in turns, the best round of each.
fn steps(language: Language, code: &[u8], rounds: u32) {
    let components = Arc::new(Components::open(ComponentsConfig::default()).unwrap());
    let (mut native, mut component) = (Bench::native(), Bench::component(&components, code));
    // Rounds of milliseconds: on a busy machine some of them are not interrupted.
    let turns = if language == Language::Rust { 4 } else { 1 };
    let (mut best, queries) = ([Duration::MAX; 4], 50);
    for _ in 0..rounds {
        let round = [native.steps(4), component.steps(turns), native.queries(queries), component.queries(queries)];
        best.iter_mut().zip(round).for_each(|(best, took)| *best = took.min(*best));
    }
    let (native_us, component_us) = (per(best[0], 4 * TURN_ITEMS), per(best[1], turns * TURN_ITEMS));
    line(&format!("{language}: component"), code.len() as f64 / 1e3, "kB");
    line(&format!("{language}: native step"), native_us, "us");
    line(&format!("{language}: component step, fresh instance"), component_us, "us");
    line(&format!("{language}: of native steps/s"), 100.0 * native_us / component_us, "%");
    let added = per(best[3], queries.into()) - per(best[2], queries.into());
    line(&format!("{language}: a query more than native: an instance"), added, "us");
}

/// Compiled for the first time, and found on disk.
fn starts(language: Language, code: &[u8], cache: &Path) {
    let open = || {
        let config = ComponentsConfig { cache: Some(cache.to_owned()), ..ComponentsConfig::default() };
        Components::open(config).unwrap()
    };
    for name in ["compiled for the first time", "found on disk"] {
        let components = open();
        let began = Instant::now();
        components.prepare_now(code).unwrap();
        line(&format!("{language}: {name}"), began.elapsed().as_secs_f64() * 1e3, "ms");
    }
}

/// Many components at once, each one used.
fn many(code: &[u8], count: u32, cache: &Path) {
    let config = ComponentsConfig { cache: Some(cache.to_owned()), ..ComponentsConfig::default() };
    let components = Arc::new(Components::open(config).unwrap());
    let (before, began) = (resident_bytes(), Instant::now());
    let mut worlds: Vec<_> = (0..count).map(|number| Bench::component(&components, &distinct(code, number))).collect();
    line(&format!("{count} distinct components, until ready"), began.elapsed().as_secs_f64(), "s");
    line("memory per resident component and its world", (resident_bytes() - before) / f64::from(count) / 1e3, "kB");
    let took: Duration = worlds.iter_mut().map(|world| world.steps(1)).sum();
    line("a step, one component after the other", per(took, u64::from(count) * TURN_ITEMS), "us");
    let hash = Hash::of(&distinct(code, 0));
    assert!(matches!(components.prepare(hash, None), Readiness::Ready(_)));
}
