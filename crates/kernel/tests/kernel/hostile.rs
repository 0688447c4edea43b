//! Hostile programs: bounded, journaled, and without effect on their neighbours.

use crate::rig::{Rig, event, identity, manifest, refusal};
use mundi_kernel::{
    Registry, World,
    manifest::{Manifest, Schema},
    program::{Event, Failure, Host, Program},
    turn::TurnBudget,
};
use mundi_model::{limits, record::Genesis};
use std::sync::Arc;

/// Does one thing for ever, and ignores every error.
#[derive(Clone, Copy)]
enum Hostile {
    EmitForEver,
    SetTimersForEver,
    ReadForEver,
    ScanWhatItDeleted,
    WriteForEver,
    LogForEver,
    GiganticCell,
    GiganticKey,
    GiganticPayload,
    PanicInMidWrite,
    WriteAfterTheEnd,
}

impl Program for Hostile {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let big = vec![0; limits::CELL_VALUE_BYTES_MAX + 1];
        for n in 0..2_000_000u64 {
            let over = match self {
                Self::EmitForEver => host.emit("http", b"\xf6", &n.to_string()).is_err(),
                Self::SetTimersForEver => host.set_timer(&n.to_string(), n, b"").is_err(),
                Self::ReadForEver => host.scan("", None, 1000).is_err(),
                Self::ScanWhatItDeleted => {
                    n < 50_000 && host.delete(&format!("gone/{n}")).is_err()
                        || n >= 50_000 && host.scan("gone", None, 1).is_err()
                }
                Self::WriteForEver => host.put(&format!("garbage/{n}"), &big[..1000]).is_err(),
                Self::LogForEver => {
                    host.log(mundi_kernel::program::Level::Info, &"x".repeat(10_000));
                    host.charge(1).is_err()
                }
                Self::GiganticCell => host.put("cell", &big).is_err(),
                Self::GiganticKey => host.put(&"k".repeat(513), b"").is_err(),
                Self::GiganticPayload => host.reply(event.seq, &big).is_err(),
                Self::PanicInMidWrite => {
                    host.put("half", b"written")?;
                    host.emit("http", b"\xf6", "half")?;
                    panic!("in mid-write")
                }
                Self::WriteAfterTheEnd => {
                    let _ = host.put(&"k".repeat(513), b"");
                    host.put("after", b"the end").is_err()
                }
            };
            if over {
                break;
            }
        }
        Ok(())
    }
}

/// A world that runs a hostile program, beside one that does not.
fn run(hostile: Hostile) -> (String, Rig) {
    let mut rig = Rig::new();
    let mut registry: Registry = crate::rig::registry();
    let program = registry.register_native("hostile", 1, hostile);
    rig.objects.put(mundi_kernel::registry::native_descriptor("hostile", 1).into_bytes());
    let manifest = rig.store_manifest(&Manifest { program, ..manifest(1) });
    let genesis = Genesis { universe: crate::rig::UNIVERSE, world: crate::rig::CHILD, manifest, now_ns: 0 };
    let (mut world, _) = World::create(&rig.objects, Arc::new(registry), genesis).unwrap();

    rig.run("put neighbour 1");
    let neighbour = identity(&mut rig.world, &rig.objects);
    let items = [rig.arrival(event("")), rig.arrival(event(""))];
    let output = world.turn(&rig.objects, &items, TurnBudget::default()).unwrap().keep();
    assert_eq!(output.consumed, 2, "the world goes on");
    assert!(output.publish.is_empty() && output.timers.is_empty() && output.objects.is_empty());
    let bytes: usize = output.records.iter().map(|record| record.len()).sum();
    assert!(bytes < 10_000, "{bytes} bytes of records");
    let keys = world.query(&rig.objects, "keys", b"\xf6");
    assert!(keys.is_err(), "a hostile program answers nothing");
    assert_eq!(world.written_cells(), 0, "the cells are as they were");
    assert_eq!(identity(&mut rig.world, &rig.objects), neighbour, "and so is the neighbour");
    (refusal(&output), rig)
}

#[test]
fn endless_emission_reading_and_writing_exhaust_a_budget() {
    for hostile in [Hostile::EmitForEver, Hostile::SetTimersForEver, Hostile::ReadForEver, Hostile::WriteForEver] {
        assert_eq!(run(hostile).0, "BUDGET_EXHAUSTED");
    }
    for hostile in [Hostile::LogForEver, Hostile::ScanWhatItDeleted] {
        assert_eq!(run(hostile).0, "BUDGET_EXHAUSTED");
    }
}

#[test]
fn gigantic_cells_keys_and_payloads_are_refused() {
    for hostile in [Hostile::GiganticCell, Hostile::GiganticKey, Hostile::GiganticPayload] {
        assert_eq!(run(hostile).0, "OUTPUT_REFUSED");
    }
}

#[test]
fn a_panic_in_mid_write_leaves_nothing_behind() {
    assert_eq!(run(Hostile::PanicInMidWrite).0, "PROGRAM_PANICKED");
}

#[test]
fn a_program_that_goes_on_after_its_step_is_over_achieves_nothing() {
    assert_eq!(run(Hostile::WriteAfterTheEnd).0, "OUTPUT_REFUSED");
}

#[test]
fn a_failed_step_among_good_ones_leaves_the_good_ones_alone() {
    let mut rig = Rig::new();
    let items = ["put a 1", "put a 2\npanic oh", "put b 3"].map(|script| rig.arrival(event(script)));
    rig.turn(&items);
    assert_eq!((rig.text("a"), rig.text("b")), ("1".into(), "3".into()));
    assert_eq!(rig.kinds()[1..], ["ingress", "ingress", "failed", "reply", "ingress", "digest"]);
    rig.replayed();
}

#[test]
fn an_exponential_schema_is_refused_or_harmless() {
    let mut rig = Rig::new();
    let mut hostile = manifest(1);
    // Takes exponential time on a backtracking engine; the engine for patterns does not backtrack.
    hostile.events.insert("script".into(), Schema(serde_json::json!({"type": "string", "pattern": "^(a+)+$"})));
    let hash = rig.store_manifest(&hostile);
    rig.take(crate::rig::upgrade(hash));
    assert_eq!(refusal(&rig.run(&("a".repeat(5_000) + "!"))), "EVENT_INVALID");
    // And one that reaches for the network.
    hostile.events.insert("script".into(), Schema(serde_json::json!({"$ref": "http://127.0.0.1:1/schema"})));
    let hash = rig.store_manifest(&hostile);
    assert_eq!(refusal(&rig.take(crate::rig::upgrade(hash))), "MANIFEST_INVALID");
}
