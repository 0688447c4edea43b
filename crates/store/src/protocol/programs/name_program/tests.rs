//! The protocol against a model of what names mean, and its bounds.

use super::*;
use crate::{keyspace::registered::Registered, protocol::Register, testing::ManualClock};
use mundi_engine::{Engine, Memory};
use mundi_model::{Code, Coded};
use pollster::block_on;
use proptest::prelude::*;

const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);
const MANIFESTS: u8 = 4;

fn manifest(number: u8) -> Hash {
    Hash::of(&[number])
}

fn program(number: u8) -> Hash {
    Hash::of(&[number, number])
}

fn naming(name: &str, version: Option<u32>, number: u8) -> NameProgram {
    let (manifest, program) = (manifest(number), program(number));
    NameProgram { universe: UNIVERSE, name: name.to_owned(), version, manifest, program, now_ns: 7 }
}

async fn run<P: Protocol>(engine: &Memory, protocol: &P) -> Result<P::Output, Code> {
    let done = crate::run(engine, &ManualClock::default(), protocol).await;
    done.map(|done| done.output).map_err(|error| error.code())
}

async fn registered() -> Memory {
    let engine = Memory::new();
    let entry = |number| {
        let registered = Registered { hash: manifest(number), needs: vec![program(number)], at_ns: 1 };
        (RegisteredKind::Manifest, registered)
    };
    run(&engine, &Register { universe: UNIVERSE, entries: (0..MANIFESTS).map(entry).collect() }).await.unwrap();
    engine
}

#[derive(Debug, Clone)]
enum Step {
    Name(&'static str, Option<u32>, u8),
    Unname(&'static str, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = prop_oneof![Just("todo"), Just("todo-2")];
    let step = prop_oneof![
        3 => (name.clone(), prop::option::of(1..5u32), 0..=MANIFESTS).prop_map(|(name, version, number)| Step::Name(name, version, number)),
        1 => (name, 1..5u32).prop_map(|(name, version)| Step::Unname(name, version)),
    ];
    prop::collection::vec(step, 1..24)
}

/// A reference model of names, as plain as can be.
#[derive(Default)]
struct Model {
    versions: BTreeMap<(String, u32), u8>,
    highest: BTreeMap<String, u32>,
}

impl Model {
    fn newest(&self, name: &str) -> Option<(u32, u8)> {
        let of_name = self.versions.iter().filter(|((found, _), _)| found == name);
        of_name.map(|((_, version), number)| (*version, *number)).max()
    }

    fn name(&mut self, name: &str, version: Option<u32>, number: u8) -> Result<ProgramNamed, Code> {
        if number == MANIFESTS {
            return Err(Code::ManifestNotRegistered);
        }
        let version = match (version, self.newest(name)) {
            (Some(version), _) => version,
            (None, Some((version, newest))) if newest == number => version,
            (None, _) => self.highest.get(name).copied().unwrap_or(0) + 1,
        };
        match self.versions.get(&(name.to_owned(), version)) {
            Some(there) if *there == number => return Ok(ProgramNamed { version, before: true }),
            Some(_) => return Err(Code::ProgramVersionTaken),
            None => {}
        }
        self.versions.insert((name.to_owned(), version), number);
        let highest = self.highest.entry(name.to_owned()).or_default();
        *highest = version.max(*highest);
        Ok(ProgramNamed { version, before: false })
    }

    fn unname(&mut self, name: &str, version: u32) -> bool {
        let was = self.versions.remove(&(name.to_owned(), version)).is_some();
        if self.newest(name).is_none() {
            self.highest.remove(name);
        }
        was
    }

    /// The name that a list of worlds shows for a manifest.
    fn shown(&self, number: u8) -> Option<(String, u32)> {
        let of_manifest = self.versions.iter().filter(|(_, found)| **found == number);
        of_manifest.map(|((name, version), _)| (*version, name.clone())).max().map(|(version, name)| (name, version))
    }
}

proptest! {
    #[test]
    fn whatever_is_named_and_deleted_names_mean_what_the_model_says(steps in steps()) {
        block_on(async {
            let (engine, mut model) = (registered().await, Model::default());
            for step in steps {
                match step {
                    Step::Name(name, version, number) => {
                        let done = run(&engine, &naming(name, version, number)).await;
                        prop_assert_eq!(done, model.name(name, version, number));
                    }
                    Step::Unname(name, version) => {
                        let unname = UnnameProgram { universe: UNIVERSE, name: name.to_owned(), version };
                        prop_assert_eq!(run(&engine, &unname).await, Ok(model.unname(name, version)));
                    }
                }
                let listed = run(&engine, &ListPrograms { universe: UNIVERSE, versions_max: limits::PROGRAM_VERSIONS_MAX }).await.unwrap();
                let flat: BTreeMap<_, _> = listed.iter().flat_map(|(name, (record, versions))| {
                    assert_eq!(record.versions as usize, versions.len(), "{name}");
                    assert!(versions.is_sorted_by_key(|found| std::cmp::Reverse(found.version)), "the newest first");
                    versions.iter().map(|found| ((name.clone(), found.version), found.manifest))
                }).collect();
                let expected = model.versions.iter().map(|(at, number)| (at.clone(), manifest(*number))).collect();
                prop_assert_eq!(&flat, &expected);
                let names = NamesOfManifests { universe: UNIVERSE, manifests: (0..=MANIFESTS).map(manifest).collect() };
                let shown = run(&engine, &names).await.unwrap();
                for number in 0..=MANIFESTS {
                    prop_assert_eq!(shown.get(&manifest(number)).cloned(), model.shown(number));
                }
                for name in ["todo", "todo-2"] {
                    let find = |version| FindProgram { universe: UNIVERSE, name: name.to_owned(), version };
                    let newest = run(&engine, &find(None)).await.unwrap().map(|found| (found.version, found.manifest));
                    prop_assert_eq!(newest, model.newest(name).map(|(version, number)| (version, manifest(number))));
                    if let Some((version, _)) = newest {
                        let found = run(&engine, &find(Some(version))).await.unwrap();
                        prop_assert_eq!(found.map(|found| (found.version, found.manifest)), newest);
                    }
                }
            }
            Ok(())
        })?;
    }
}

#[test]
fn two_that_name_at_once_get_two_versions() {
    block_on(async {
        let engine = registered().await;
        let (mut first, mut second) = (engine.begin().await.unwrap(), engine.begin().await.unwrap());
        assert_eq!(naming("todo", None, 1).run(&mut first).await.unwrap().version, 1);
        assert_eq!(naming("todo", None, 2).run(&mut second).await.unwrap().version, 1);
        first.commit().await.unwrap();
        assert!(second.commit().await.is_err(), "or one would have overwritten the other");
        assert_eq!(run(&engine, &naming("todo", None, 2)).await.unwrap().version, 2);
    });
}

#[test]
fn a_universe_has_so_many_names_and_a_name_so_many_versions() {
    block_on(async {
        let engine = registered().await;
        for number in 0..limits::PROGRAM_NAMES_MAX {
            run(&engine, &naming(&format!("program-{number}"), None, 1)).await.unwrap();
        }
        assert_eq!(run(&engine, &naming("one-more", None, 1)).await, Err(Code::ProgramNamesFull));
        // Names that are there still take versions, until they have all that they may.
        for version in 2..=u32::try_from(limits::PROGRAM_VERSIONS_MAX).unwrap() {
            run(&engine, &naming("program-0", Some(version), 2)).await.unwrap();
        }
        assert_eq!(run(&engine, &naming("program-0", None, 1)).await, Err(Code::ProgramNamesFull));
        assert!(run(&engine, &naming("program-0", None, 2)).await.unwrap().before, "what is there is still answered");
        let unname = UnnameProgram { universe: UNIVERSE, name: "program-0".to_owned(), version: 2 };
        assert!(run(&engine, &unname).await.unwrap());
        run(&engine, &naming("program-0", None, 1)).await.unwrap();
    });
}
