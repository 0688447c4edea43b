//! The benches: the layers of Mundi beside the raw limit of the disk, in one run.
//!
//! A machine that is shared with others gives no absolute figure worth keeping. What it gives are ratios
//! between things measured in turns, and processor time per operation.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod clients;
mod content;
mod engine;
mod fleet;
mod latency;
mod machine;
mod page;
mod program;
mod raw;
mod report;
mod runtime;
mod scale;
mod serving;
mod store;
mod suite;

use clap::{Subcommand, ValueEnum};
use std::{error::Error, path::PathBuf, process::Command};

/// Begins the bench command again, in a process of its own.
pub type Again<'a> = &'a dyn Fn() -> Command;

/// One measurement, or all of them, and how to take it.
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    suite: suite::SuiteSettings,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Calls over HTTP: an event to one of many counters, journaled, stepped and answered.
    Call(serving::CallSettings),
    /// Sends over HTTP: an event to one of many counters, acknowledged when it is durable.
    Send(serving::SendSettings),
    /// Calls that ask an HTTP server on the loopback and reply when its answer is journaled.
    Effect(serving::CallSettings),
    /// Calls that send a message to another world and reply when it is durable there.
    Message(serving::CallSettings),
    /// The first call to worlds (1,000) that are in no memory, beside the second.
    Cold(ColdSettings),
    /// Calls and sends through the library, without HTTP.
    Embedded(Common),
    /// Timers (100,000 of them), all due at one moment.
    Timers(Counted),
    /// Forks of a state of 1 MiB and of a large one (1,000 MiB).
    Fork(Counted),
    /// A world with many events (100,000): proven from its beginning, and restored.
    Replay(Counted),
    /// Worlds that nobody talks to (100,000): memory, start, first event.
    Idle(Counted),
    /// `kill -9` after many events (10,000), and the first reply after it.
    Kill(Counted),
    /// The targets of lease renewal, inbox to journal and dispatch to receipt, as the server's own histograms say.
    Targets(Common),
    /// Two tenants with the same quota, under full load: what each gets of its share.
    Tenants(Common),
    /// Endless loops in one universe: what calls of another one, and `/livez`, wait beside them.
    Loops(Common),
    /// Many worlds (100,000) and a long journal (100,000 records): what a page, a count and SQL cost, beside a tenth of them.
    Find(serving::FindSettings),
    /// Pools: cycles of reserve, activate and release on one shard and on several, beside PostgreSQL and etcd.
    Pool(serving::PoolSettings),
    /// Children that do nothing, of 1, 32 and 256 parents: from spawn to end, with what they commit beside their parents' turns.
    Child(runtime::ChildSettings),
    /// The embedded engine: puts, queues, scans, opening; beside a raw synced log.
    Engine(engine::Settings),
    /// The persistence plane: enqueue, drain, replay, restore; beside a raw synced log.
    Store(store::Settings),
    /// The runtime plane: calls through full turns, effects, timers, forks, memory, hand-over; beside a raw synced log.
    Runtime(runtime::Settings),
    /// The cost of one more process: processor time of ours and of the database per call, send and effect, in one process and in several.
    Fleet(fleet::Settings),
    /// From `kill -9` of one process of a fleet to the next turn of each world that it held.
    Failover(fleet::FailoverSettings),
    /// Fleets that are larger than this machine: their bounds by arithmetic, from costs that `fleet` measured. Measures nothing.
    Scale(scale::Settings),
    /// The server that the workloads talk to: as `mundi dev`, with the program of the benches.
    #[command(hide = true)]
    Node(serving::NodeSettings),
    /// Makes many worlds and a long journal in the folder of a server that is not running.
    #[command(hide = true)]
    Fill(serving::FillSettings),
    /// The least that calls over HTTP can cost: a bare counter with a synced log.
    #[command(hide = true)]
    Floor(serving::NodeSettings),
}

impl BenchArgs {
    /// Measures and prints. Servers that are measured are processes of their own.
    pub fn run(&self, again: Again<'_>) -> Result<(), Box<dyn Error>> {
        match &self.what {
            None => self.suite.run(again),
            Some(What::Call(settings)) => serving::call(settings, again),
            Some(What::Send(settings)) => serving::send(settings, again),
            Some(What::Effect(settings)) => serving::effect(settings, again),
            Some(What::Message(settings)) => serving::message(settings, again),
            Some(What::Cold(ColdSettings { counted: Counted { common, count }, peer })) => {
                reported(common, |report| serving::cold(report, common, count.unwrap_or(1_000), peer.as_deref(), again))
            }
            Some(What::Embedded(common)) => reported(common, |report| runtime::embedded(report, common)),
            Some(What::Timers(Counted { common, count })) => {
                reported(common, |report| serving::timers(report, common, count.unwrap_or(100_000), again))
            }
            Some(What::Fork(Counted { common, count })) => {
                reported(common, |report| runtime::forks(report, common, &[1, count.unwrap_or(1_000) as u64]))
            }
            Some(What::Replay(Counted { common, count })) => {
                reported(common, |report| serving::replay(report, common, count.unwrap_or(100_000), again))
            }
            Some(What::Idle(Counted { common, count })) => {
                reported(common, |report| serving::idle(report, common, count.unwrap_or(100_000), again))
            }
            Some(What::Kill(Counted { common, count })) => {
                reported(common, |report| serving::kill(report, common, count.unwrap_or(10_000), again))
            }
            Some(What::Targets(common)) => reported(common, |report| {
                serving::targets(report, common, again)?;
                runtime::renewals(report, common)
            }),
            Some(What::Tenants(common)) => reported(common, |report| serving::tenants(report, common, again)),
            Some(What::Loops(common)) => reported(common, |report| serving::loops(report, common, again)),
            Some(What::Pool(settings)) => serving::pool(settings, again),
            Some(What::Child(settings)) => runtime::children(settings),
            Some(What::Engine(settings)) => engine::run(settings),
            Some(What::Store(settings)) => store::run(settings),
            Some(What::Runtime(settings)) => runtime::run(settings),
            Some(What::Fleet(settings)) => fleet::run(settings),
            Some(What::Failover(settings)) => fleet::failover(settings),
            Some(What::Scale(settings)) => {
                scale::run(settings);
                Ok(())
            }
            Some(What::Find(settings)) => serving::find(settings, again),
            Some(What::Fill(settings)) => serving::fill(settings),
            Some(What::Node(settings)) => serving::node(settings),
            Some(What::Floor(settings)) => serving::floor(settings),
        }
    }
}

fn reported(
    common: &Common,
    measure: impl FnOnce(&mut report::Report) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut report = report::Report::new();
    measure(&mut report)?;
    report.print(common.format);
    Ok(())
}

/// So many of something.
#[derive(Debug, Clone, clap::Args)]
struct Counted {
    #[command(flatten)]
    common: Common,
    /// How many: events, timers or worlds; for a fork, MiB of state.
    #[arg(long)]
    count: Option<usize>,
}

#[derive(Debug, Clone, clap::Args)]
struct ColdSettings {
    #[command(flatten)]
    counted: Counted,
    /// The folder of a peer, such as `bench/peers/restate`: it gets the same calls.
    #[arg(long)]
    peer: Option<PathBuf>,
}

/// How figures are printed. Public because `mundi` has the same option for all its commands, and the two are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs: one document, whose fields are stable.
    Json,
}

/// Where to measure, and how to tell.
#[derive(Debug, Clone, clap::Args)]
struct Common {
    /// Folder on the disk to measure; a temporary one below it is used and removed.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Seconds per measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Runs per measurement; the median is reported, with the lowest and the highest.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// How to print the figures.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}
