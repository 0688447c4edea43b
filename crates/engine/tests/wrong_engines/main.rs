//! Every property is able to fail: for each there is an engine that is wrong in just that way, and it is caught.
//!
//! A property that no wrong engine violates proves nothing about a right one.

#![expect(clippy::unwrap_used, reason = "the store beneath a wrong engine is right")]
#![expect(clippy::print_stdout, reason = "what each property says about a wrong engine is worth reading")]

#[path = "../support/mod.rs"]
mod support;

mod engine;
mod fault;
mod transaction;

use engine::Wrong;
use fault::{CAUGHT, Fault};
use futures_util::future::BoxFuture;
use mundi_engine::conformance::{Finding, Proof, Property, Subject, properties, run_all};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Some faults are races, which do not show every time.
const ATTEMPTS: usize = 10;

struct WrongSubject {
    fault: Fault,
    now_ms: Arc<AtomicU64>,
}

impl WrongSubject {
    fn new(fault: Fault) -> Self {
        Self { fault, now_ms: Arc::default() }
    }
}

impl Subject for WrongSubject {
    type Engine = Wrong;

    async fn open(&self) -> Wrong {
        let now_ms = self.now_ms.clone();
        Wrong::new(self.fault, Arc::new(move || now_ms.load(Ordering::SeqCst)))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        support::on_a_thread(task);
    }

    async fn time_limit(&self) {
        let wait = if self.fault.is_silence() { Duration::from_secs(2) } else { Duration::from_secs(60) };
        support::after(wait).await;
    }

    fn advance_ms(&self, _engine: &Wrong, passed_ms: u64) -> bool {
        self.now_ms.fetch_add(passed_ms, Ordering::SeqCst);
        true
    }

    async fn crash_and_reopen(&self, engine: Wrong) -> Option<Wrong> {
        Some(engine.crash().await)
    }

    fn seeds(&self) -> u64 {
        400
    }
}

fn property(name: &str) -> Property<WrongSubject> {
    properties().into_iter().find(|property| property.name == name).unwrap_or_else(|| panic!("no property {name}"))
}

fn tried(fault: Fault, name: &str) -> Proof {
    pollster::block_on(property(name).prove(&WrongSubject::new(fault)))
}

/// The complaint about the suite if this property does not notice this fault.
fn missed(fault: Fault, name: &str) -> Option<String> {
    for _ in 0..ATTEMPTS {
        match tried(fault, name) {
            Ok(()) => {}
            Err(Finding::Violation(story)) if story == "it did not come to an end" && !fault.is_silence() => {
                return Some(format!("{name} did not come to an end on {fault:?}"));
            }
            Err(Finding::Violation(story)) => {
                println!("{fault:?} is caught by {name}: {story}");
                return None;
            }
            Err(Finding::NotApplicable(why)) => return Some(format!("{name} was skipped on {fault:?}: {why}")),
        }
    }
    Some(format!("{name} holds on {fault:?}"))
}

#[test]
fn every_wrong_engine_is_caught_by_the_property_that_names_its_fault() {
    let pairs = CAUGHT.iter().flat_map(|(fault, names)| names.iter().map(|name| (*fault, *name)));
    let missed: Vec<String> = pairs.filter_map(|(fault, name)| missed(fault, name)).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_property_is_violated_by_some_wrong_engine() {
    let caught: BTreeSet<&str> = CAUGHT.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let all: BTreeSet<&str> = properties::<WrongSubject>().iter().map(|property| property.name).collect();
    let unproven: Vec<_> = all.difference(&caught).collect();
    assert!(unproven.is_empty(), "no wrong engine violates {unproven:?}");
}

#[test]
fn the_wrapper_without_a_fault_is_right_in_everything() {
    let report = pollster::block_on(run_all(&WrongSubject::new(Fault::None)));
    assert!(report.is_conformant(), "{report}");
}
