//! The same journal in real processes, with other thread counts and other hash seeds.
//!
//! Each process replays for itself and reports what it got; a program that is not deterministic is run the
//! same way and must be caught, or the comparison would prove nothing.

use crate::rig::{Rig, UNIVERSE, WORLD, event, identity, manifest};
use mundi_kernel::{
    MemoryObjects, Registry, World,
    manifest::Manifest,
    program::{Event, Failure, Host, Program},
    replay::Replay,
};
use mundi_model::{cbor, record::Genesis};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

const JOURNAL: &str = "MUNDI_TEST_JOURNAL";
const THREADS: &str = "MUNDI_TEST_THREADS";

/// Writes the order in which a hash map gives its keys: another one in each process.
struct HashOrder;

impl Program for HashOrder {
    fn handle(&self, host: &mut dyn Host, _: &Event<'_>) -> Result<(), Failure> {
        #[expect(clippy::disallowed_types, reason = "it is the mistake that must be found")]
        let map: std::collections::HashMap<u32, ()> = (0..64).map(|n| (n, ())).collect();
        let order: Vec<u8> = map.into_keys().flat_map(u32::to_be_bytes).collect();
        Ok(host.put("order", &order)?)
    }
}

fn registry() -> Arc<Registry> {
    let mut registry = crate::rig::registry();
    registry.register_native("hash-order", 1, HashOrder);
    Arc::new(registry)
}

/// A journal and the objects that it needs, in a file of its own.
fn write(name: &str, journal: &[Vec<u8>], objects: &[Vec<u8>]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let as_values =
        |list: &[Vec<u8>]| mundi_model::Value::Array(list.iter().cloned().map(mundi_model::Value::Bytes).collect());
    let both = mundi_model::Value::Array(vec![as_values(journal), as_values(objects)]);
    std::fs::write(&path, cbor::encode(&both)).unwrap();
    path
}

fn read(path: &Path) -> (Vec<Vec<u8>>, MemoryObjects) {
    let bytes = std::fs::read(path).unwrap();
    let mundi_model::Value::Array(both) = cbor::decode(&bytes).unwrap() else { panic!() };
    let list = |value: &mundi_model::Value| -> Vec<Vec<u8>> {
        let mundi_model::Value::Array(items) = value else { panic!() };
        let bytes = |item: &mundi_model::Value| match item {
            mundi_model::Value::Bytes(bytes) => bytes.clone(),
            _ => panic!(),
        };
        items.iter().map(bytes).collect()
    };
    let mut objects = MemoryObjects::new();
    for object in list(&both[1]) {
        objects.put(object);
    }
    (list(&both[0]), objects)
}

fn replay(journal: &[Vec<u8>], objects: &MemoryObjects) -> String {
    let result = Replay::from_genesis(objects, registry(), &journal[0]).and_then(|mut replay| {
        replay.run(objects, &journal[1..], None)?;
        replay.finish()
    });
    match result {
        Ok(mut world) => format!("{} {:?}", world.digest(), identity(&mut world, objects)),
        Err(error) => format!("{:?}", mundi_model::Coded::code(&error)),
    }
}

/// Runs in a process of its own.
#[test]
#[ignore = "the other tests of this file start it"]
fn child() {
    let (Some(path), Some(threads)) = (std::env::var_os(JOURNAL), std::env::var(THREADS).ok()) else { return };
    let (journal, objects) = read(Path::new(&path));
    let threads: usize = threads.parse().unwrap();
    let results = std::thread::scope(|scope| {
        let replays: Vec<_> = (0..threads).map(|_| scope.spawn(|| replay(&journal, &objects))).collect();
        replays.into_iter().map(|replay| replay.join().unwrap()).collect::<std::collections::BTreeSet<_>>()
    });
    for result in results {
        println!("result {result}");
    }
    println!("process {} seed {:x}", std::process::id(), hash_seed());
}

/// A number that depends on this process's hash seed.
fn hash_seed() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "to show that the seeds differ")]
    let state = std::hash::RandomState::new();
    std::hash::BuildHasher::hash_one(&state, 0)
}

/// The report of a process with so many threads: its results, and its identity.
fn process(path: &Path, threads: usize) -> (Vec<String>, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "determinism::child", "--ignored", "--nocapture"])
        .env(JOURNAL, path)
        .env(THREADS, threads.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // The harness may put its own words before ours on a line.
    let after = |marker: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.split_once(marker)).map(|(_, rest)| rest.to_owned()).collect()
    };
    (after("result "), after("process ").concat())
}

#[test]
fn the_same_journal_gives_the_same_world_in_every_process() {
    let mut rig = Rig::new();
    for round in 0..40 {
        let items: Vec<_> = (0..10)
            .map(|n| {
                rig.arrival(event(&format!(
                    "add n\nrandom r/{n}\nfill f/{round} {}\nemit http e{n}\ncancel e{n}",
                    n * 300
                )))
            })
            .collect();
        rig.turn(&items);
    }
    let objects: Vec<Vec<u8>> =
        vec![manifest(1).to_bytes(), mundi_kernel::registry::native_descriptor("script", 1).into_bytes()];
    let path = write("deterministic.journal", &rig.journal, &objects);
    let live = format!("{} {:?}", rig.world.digest(), identity(&mut rig.world, &rig.objects));

    let (one, first) = process(&path, 1);
    let (many, second) = process(&path, 7);
    assert_ne!(first, second, "two processes with their own hash seeds");
    assert_eq!((one, many), (vec![live.clone()], vec![live]));
}

#[test]
fn a_program_that_depends_on_the_hash_seed_is_caught_in_another_process() {
    let mut objects = MemoryObjects::new();
    let descriptor = mundi_kernel::registry::native_descriptor("hash-order", 1).into_bytes();
    let program = objects.put(descriptor.clone());
    let manifest = Manifest { program, ..manifest(1) };
    let hash = objects.put(manifest.to_bytes());
    let genesis = Genesis { universe: UNIVERSE, world: WORLD, manifest: hash, now_ns: 0 };
    let (mut world, first) = World::create(&objects, registry(), genesis).unwrap();
    let mut rig = Rig::new();
    let item = rig.arrival(event(""));
    let output = world.turn(&objects, &[item], Default::default()).unwrap().keep();
    let rest = output.records.iter().map(|record| record.to_vec());
    let journal: Vec<Vec<u8>> = std::iter::once(first).chain(rest).collect();
    let path = write("hash-order.journal", &journal, &[manifest.to_bytes(), descriptor]);
    let (results, _) = process(&path, 2);
    assert_eq!(results, ["ReplayDiverged"]);
}
