//! An export under sustained appends does not stall them: the third scale test of the persistence plane.
//!
//! Figures: `cargo test --release -p mundi-store --test export_stall -- --nocapture`

#![expect(clippy::disallowed_methods, reason = "this measures real time")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_engine::Embedded;
use mundi_model::Height;
use mundi_store::{
    Fence,
    objects::{self, Objects},
    protocol::ExportPolicy,
    segments::{Exported, export_segment},
    testing::Fixture,
};
use pollster::block_on;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

const APPENDS: usize = 400;

struct Latencies {
    mean: Duration,
    p99: Duration,
    worst: Duration,
}

/// Appends small batches, one after the other, each synced, and notes how long each took.
fn append(fixture: &Fixture<Embedded>, fence: Fence) -> Latencies {
    let mut took: Vec<Duration> = (0..APPENDS)
        .map(|_| {
            let began = Instant::now();
            block_on(fixture.append(fence, 5)).unwrap();
            began.elapsed()
        })
        .collect();
    took.sort();
    let mean = took.iter().sum::<Duration>() / u32::try_from(APPENDS).unwrap();
    Latencies { mean, p99: took[APPENDS * 99 / 100], worst: took[APPENDS - 1] }
}

fn export_all(fixture: &Fixture<Embedded>, objects: &Objects, fence: Fence) -> u64 {
    let policy = ExportPolicy { margin: 0, records_min: 1_000, ..ExportPolicy::DEFAULT };
    let mut exported = 0;
    loop {
        let pause = Duration::ZERO;
        match block_on(export_segment(&fixture.engine, objects, &fixture.clock, fence, policy, pause)).unwrap() {
            Exported::Idle => return exported,
            Exported::Segment(segment) => exported += segment.end.since(segment.start),
        }
    }
}

#[test]
fn appends_go_on_while_the_same_world_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(folder.path().join("engine")).unwrap();
    let objects = objects::open(&folder.path().join("objects").display().to_string()).unwrap();
    let fixture = block_on(Fixture::new(engine, 1)).unwrap();
    let fence = block_on(fixture.live(1)).unwrap();
    for _ in 0..60 {
        block_on(fixture.append(fence, 500)).unwrap();
    }
    block_on(fixture.snapshot(fence, &fixture.facts(Height::new(30_000)), true)).unwrap();

    let alone = append(&fixture, fence);
    let exporting = AtomicBool::new(true);
    let (with, exported, overlapped) = std::thread::scope(|scope| {
        let exporter = scope.spawn(|| {
            let exported = export_all(&fixture, &objects, fence);
            exporting.store(false, Ordering::SeqCst);
            exported
        });
        let with = append(&fixture, fence);
        let overlapped = exporting.load(Ordering::SeqCst);
        (with, exporter.join().unwrap(), overlapped)
    });
    println!("alone: mean {:?}, p99 {:?}, worst {:?}", alone.mean, alone.p99, alone.worst);
    println!(
        "during an export of {exported} records: mean {:?}, p99 {:?}, worst {:?}",
        with.mean, with.p99, with.worst
    );
    println!("the export was {} than the appends", if overlapped { "longer" } else { "shorter" });
    assert_eq!(exported, 30_000);
    // A stall would be an append that waits for the export. On a busy machine one sync may take long; a second is no sync.
    assert!(with.worst < Duration::from_secs(1) + alone.worst, "an append took {:?}", with.worst);
}
