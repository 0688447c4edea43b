//! The work of clients, and the process that they ask.

use super::{
    database::{Database, DatabaseUse},
    group::{Group, Placed},
};
use crate::{machine::Used, serving::load::drive_all};
use std::{
    error::Error,
    fmt,
    time::{Duration, Instant},
};

pub(super) const WORLDS: &str = "/v1/u/default/worlds";
const BATCH_EVENTS: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Workload {
    /// An event to a counter, journaled, stepped and answered.
    Call,
    /// An event to a counter, acknowledged when it is durable.
    Send,
    /// A hundred events to a counter, acknowledged together when they are durable. Counted are events; and the time until the
    /// last of them is journaled counts, too.
    Batch,
    /// From an event over an intent, a request to an HTTP server on the loopback and its receipt to the reply: what `mundi bench
    /// effect` does.
    Effect,
    /// The same with a put into the content store instead of the request.
    Put,
}

/// Which process a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Reach {
    /// The one that holds the world.
    Holder,
    /// Always the same one, whichever process holds the world.
    Any,
}

impl Workload {
    /// Events of one operation.
    const fn events(self) -> u64 {
        match self {
            Self::Batch => BATCH_EVENTS as u64,
            Self::Call | Self::Send | Self::Effect | Self::Put => 1,
        }
    }

    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Call | Self::Send | Self::Batch => "counter",
            Self::Effect | Self::Put => "bench",
        }
    }

    /// The end of a request's path after the world, and its body.
    fn request(self, outside: &str) -> (&'static str, Vec<u8>) {
        match self {
            Self::Call => ("call/add", b"1".to_vec()),
            Self::Send => ("send/add", b"1".to_vec()),
            Self::Batch => ("events", crate::serving::batch_of(BATCH_EVENTS)),
            Self::Effect => ("call/http", format!("\"{outside}\"").into_bytes()),
            Self::Put => ("call/effect", b"null".to_vec()),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call => "call",
            Self::Send => "send",
            Self::Batch => "send of 100",
            Self::Effect => "effect round trip",
            Self::Put => "put as an effect",
        })
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holder => "holder",
            Self::Any => "any process",
        })
    }
}

/// The result of one measurement.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) cost: Cost,
}

/// The cost of an event, or of a second without requests.
#[derive(Debug, Clone)]
pub(super) struct Cost {
    /// Processor time of our processes.
    pub(super) own_us: f64,
    pub(super) database: Option<DatabaseUse>,
}

/// The resources used up to one moment.
struct Noted {
    own: Used,
    database: Option<DatabaseUse>,
}

impl Noted {
    fn now(group: &Group, database: &Database) -> Result<Self, Box<dyn Error>> {
        Ok(Self { own: group.used(), database: database.used()? })
    }

    fn since(&self, before: &Self, events: f64) -> Cost {
        let database = self.database.as_ref().zip(before.database.as_ref());
        Cost {
            own_us: self.own.cpu_us_since(before.own) / events,
            database: database.map(|(after, before)| after.since(before, events)),
        }
    }
}

/// The cost of a second without requests.
pub(super) fn idle(group: &Group, database: &Database, time: Duration) -> Result<Cost, Box<dyn Error>> {
    let before = Noted::now(group, database)?;
    std::thread::sleep(time);
    Ok(Noted::now(group, database)?.since(&before, time.as_secs_f64()))
}

/// Runs clients for some time, and lets worlds take all that was sent: an event costs what its turn costs, too.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn measure(
    workload: Workload,
    (group, placed, reach): (&Group, &Placed, Reach),
    clients: usize,
    time: Duration,
    outside: &str,
    database: &Database,
) -> Result<Done, Box<dyn Error>> {
    let addresses = group.addresses();
    let processes = addresses.len();
    let reached: Vec<_> = (0..processes).map(|process| placed.reached_by(process, reach)).collect();
    let (path, body) = workload.request(outside);
    let before = Noted::now(group, database)?;
    let begun = Instant::now();
    let driven = drive_all(
        &addresses,
        clients,
        time,
        || (),
        async move |connection, turn| {
            let process = usize::try_from(turn % clients as u64).unwrap_or(0) % processes;
            let worlds = &reached[process];
            // A stride that no client shares keeps them apart, as users are.
            let place = usize::try_from(turn.wrapping_mul(7_919) % worlds.len() as u64).unwrap_or(0);
            connection.post(format_args!("{WORLDS}/{}/{path}", worlds[place]), &body).await?;
            Ok(workload.events())
        },
    )?;
    let mut events = driven.events_in_all as f64;
    if matches!(workload, Workload::Send | Workload::Batch) {
        let worlds = placed.0.concat();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(group.wake(&worlds))?;
        events += worlds.len() as f64;
    }
    let whole = begun.elapsed().as_secs_f64();
    let cost = Noted::now(group, database)?.since(&before, events.max(1.0));
    let per_second = if workload == Workload::Batch { events / whole } else { driven.events as f64 / driven.seconds };
    let [p50_ms, p99_ms] = [0.5, 0.99].map(|share| driven.latencies.below_us(share) / 1e3);
    Ok(Done { per_second, p50_ms, p99_ms, cost })
}
