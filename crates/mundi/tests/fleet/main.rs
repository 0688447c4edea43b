//! A fleet of real processes on one database, under load, while everything around it goes wrong.
//!
//! Each trouble once, with a few worlds, in about a minute; `cargo xtask failover` runs it with 300 worlds for ten minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod checks;
mod children;
mod deadline;
mod forwarding;
mod load;
mod member;
#[path = "../../../engine/tests/support/proxy.rs"]
mod proxy;
mod verbs;

use checks::Witness;
use load::Load;
use member::{Fleet, Member};
use proxy::{Act, Proxy};
use std::time::{Duration, Instant};

/// The term of a lease in this test.
const LEASE: Duration = Duration::from_secs(3);
/// A process that is stopped or cut off for so long has lost its worlds.
const PAST_THE_LEASE: Duration = Duration::from_secs(6);

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

/// The faults, one after the other, over and over. A worker crashes every few seconds.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    KillAWorldWorker,
    StopOnePastItsLease,
    RestartTheDatabase,
    CutOneOff,
    KillAnAdapter,
    KillTheTimer,
    KillAnApi,
    DrainOne,
}

const TROUBLES: [Trouble; 10] = [
    Trouble::KillAWorldWorker,
    Trouble::StopOnePastItsLease,
    Trouble::KillAnAdapter,
    Trouble::RestartTheDatabase,
    Trouble::KillAWorldWorker,
    Trouble::CutOneOff,
    Trouble::KillTheTimer,
    Trouble::KillAnApi,
    Trouble::KillAWorldWorker,
    Trouble::DrainOne,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "it lasts a time of the wall")]
async fn a_fleet_loses_nothing_and_doubles_nothing_whatever_dies() {
    let (seconds, worlds) = (setting("MUNDI_FAILOVER_SECONDS", 0), setting("MUNDI_FAILOVER_WORLDS", 16));
    let fleet = Fleet::start(LEASE);
    let line = match fleet.database.server() {
        Some(server) => Some(Proxy::to(server.port()).await),
        None => None,
    };
    let minute_ms = 60_000;
    // On a cluster the fastest clock holds, so none is faster than the one that times are compared with.
    let ahead_ms = if line.is_some() { minute_ms } else { 0 };
    // One world worker is a minute ahead, one a minute behind, one behind a line that can be cut; the timer is ahead.
    let behind_a_line = match &line {
        Some(line) => fleet.member("world").through(&line.url()),
        None => fleet.member("world"),
    };
    let mut workers = [
        fleet.member("world,orchestrator").skewed(ahead_ms),
        fleet.member("world,orchestrator").skewed(-minute_ms),
        behind_a_line,
    ];
    let mut adapters = [fleet.member("adapter"), fleet.member("adapter")];
    let mut timer = fleet.member("timer").skewed(ahead_ms);
    let mut apis = [fleet.member("api"), fleet.member("api")];
    let members = workers.iter_mut().chain(&mut adapters).chain([&mut timer]).chain(&mut apis);
    members.for_each(|member| fleet.launch(member));
    let mut witness = Witness::new(&fleet, LEASE).await;
    let mut load = Load::start(&apis, worlds).await;
    witness.sees_worlds_on(&workers, &load.ids).await;

    let (end, mut round) = (Instant::now() + Duration::from_secs(seconds), 0);
    while Instant::now() < end || round < TROUBLES.len() {
        let (trouble, one) = (TROUBLES[round % TROUBLES.len()], round / TROUBLES.len() % 2);
        eprintln!("{} {trouble:?}", witness.age());
        match trouble {
            Trouble::KillAWorldWorker => {
                let one = &mut workers[round % 3];
                witness.sees_the_death_of(one, &load.ids).await;
                one.kill();
                fleet.launch(one);
            }
            Trouble::StopOnePastItsLease => {
                workers[1 - one].signal("-STOP");
                tokio::time::sleep(PAST_THE_LEASE).await;
                workers[1 - one].signal("-CONT"); // a zombie: whatever it still wants to write is fenced
            }
            Trouble::RestartTheDatabase => {
                if let Some(server) = fleet.database.server() {
                    server.down(if one == 0 { "fast" } else { "immediate" });
                    server.up();
                }
            }
            Trouble::CutOneOff => {
                if let Some(line) = &line {
                    line.decide(|_| Act::Hold);
                    tokio::time::sleep(PAST_THE_LEASE).await;
                    line.decide(|_| Act::Pass);
                    line.cut();
                }
            }
            Trouble::KillAnAdapter => restart(&fleet, &mut adapters[one]),
            Trouble::KillTheTimer => restart(&fleet, &mut timer),
            Trouble::KillAnApi => {
                restart(&fleet, &mut apis[one]);
                load.moved(&apis);
            }
            Trouble::DrainOne => {
                workers[one].drain().await;
                fleet.launch(&mut workers[one]);
            }
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
        round += 1;
    }
    eprintln!("{} enough", witness.age());
    let acknowledged = load.stop().await;
    eprintln!("{} all clients have stopped", witness.age());
    witness.settle(&load.ids, &acknowledged).await;
    eprintln!("{} settled", witness.age());
    apis[0].proves_every_world(worlds);
    witness.report();
}

fn restart(fleet: &Fleet, member: &mut Member) {
    member.kill();
    fleet.launch(member);
}
