//! The cost of one more process: nodes on one PostgreSQL server, or on a FoundationDB cluster, in one process and in several.
//!
//! A machine with two cores cannot show that throughput grows with processes. It can show what an event costs: processor time of our processes and
//! of the database, and what the database writes. Every process is a whole node in all roles; worlds are spread over all of them. Clients are
//! connections of the process that measures, so their own time counts nowhere. They ask the process that holds a world, or any.
//!
//! The yardstick of throughput is one durable single-row insert per transaction, by as many clients; a cluster has none.

mod database;
mod failover;
mod group;
mod part;
mod pgbench;
mod workload;

use crate::{Common, report::Report, serving::loopback};
use database::Database;
pub(crate) use failover::FailoverSettings;
use group::{Group, GroupConfig};
use part::Part;
use std::{error::Error, time::Duration};
use workload::{Cost, Done, Reach, Workload, idle, measure};

pub(crate) const SCHEMA: &str = "mundi_bench";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    #[command(flatten)]
    common: Common,
    /// The database: `postgres://user@host/name`, whose schema `mundi_bench` is dropped and made again; or `foundationdb://FILE?prefix=NAME`, where each
    /// measurement leaves a deployment whose name begins so.
    #[arg(long)]
    database: String,
    /// How many clients there are, for all processes together.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256])]
    clients: Vec<usize>,
    /// How many worlds they call.
    #[arg(long, default_value_t = 300)]
    worlds: usize,
    /// How many processes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    processes: Vec<usize>,
    /// Only these workloads: call, send, batch, effect or put.
    #[arg(long, value_delimiter = ',', value_enum, default_values = ["call", "send", "effect"])]
    only: Vec<Workload>,
    /// Which process clients ask: the one that holds the world, or any.
    #[arg(long, value_delimiter = ',', value_enum, default_values = ["holder", "any"])]
    reach: Vec<Reach>,
}

/// One row of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    workload: Workload,
    clients: usize,
    processes: usize,
    reach: Reach,
}

#[derive(Default)]
struct Measured {
    rows: Vec<(Row, Done)>,
    idle: Vec<(usize, Cost)>,
    inserts: Vec<(usize, f64)>,
}

pub(crate) fn run(settings: &Settings) -> Result<(), Box<dyn Error>> {
    if let Some(part) = Part::given()? {
        return part.run();
    }
    let mut measured = Measured::default();
    let outside = loopback::start()?;
    for run in 1..=settings.common.runs {
        measured.take(settings, run, &outside)?;
    }
    measured.report(settings).print(settings.common.format);
    Ok(())
}

/// From the death of a process to the next turns of its worlds.
pub(crate) fn failover(settings: &FailoverSettings) -> Result<(), Box<dyn Error>> {
    match Part::given()? {
        Some(part) => part.run(),
        None => failover::run(settings),
    }
}

fn is_cluster(database: &str) -> bool {
    database.starts_with("foundationdb://")
}

/// An empty store in the database: the URL for its processes, and what is asked for its costs.
fn open(database: &str, deployment: &str) -> Result<(String, Database), Box<dyn Error>> {
    if is_cluster(database) {
        return Ok((format!("{database}-{}-{deployment}", std::process::id()), Database::Cluster));
    }
    pgbench::clean(database)?;
    Ok((database.to_owned(), Database::Postgres(database.to_owned())))
}

impl Measured {
    fn take(&mut self, settings: &Settings, run: usize, outside: &str) -> Result<(), Box<dyn Error>> {
        let time = Duration::from_secs(settings.common.seconds);
        let progress = |what: String| eprintln!("measuring {what}, run {run} …");
        for &clients in settings.clients.iter().filter(|_| !is_cluster(&settings.database)) {
            progress(format!("pgbench by {clients} clients"));
            self.inserts.push((clients, pgbench::inserts(&settings.database, clients, time)?));
        }
        for &workload in &settings.only {
            for &processes in &settings.processes {
                progress(format!("{workload} in {processes} processes"));
                let (url, database) = open(&settings.database, &format!("{run}-{workload:?}-{processes}"))?;
                let group = Group::start(GroupConfig::new(processes), &url)?;
                let placed = group.place(workload, settings.worlds)?;
                if settings.only.first() == Some(&workload) {
                    self.idle.push((processes, idle(&group, &database, time)?));
                }
                for &clients in &settings.clients {
                    // A single process holds all worlds.
                    for &reach in settings.reach.iter().take(if processes == 1 { 1 } else { usize::MAX }) {
                        let reach = if processes == 1 { Reach::Holder } else { reach };
                        let done = measure(workload, (&group, &placed, reach), clients, time, outside, &database)?;
                        self.rows.push((Row { workload, clients, processes, reach }, done));
                    }
                }
            }
        }
        Ok(())
    }

    fn runs(&self, row: Row) -> Vec<&Done> {
        self.rows.iter().filter(|(of, _)| *of == row).map(|(_, done)| done).collect()
    }

    fn report(&self, settings: &Settings) -> Report {
        let mut report = Report::new();
        for &clients in &settings.clients {
            let inserts: Vec<_> = self.inserts.iter().filter(|(by, _)| *by == clients).map(|it| it.1).collect();
            if !inserts.is_empty() {
                report.add(format!("pgbench, {clients} clients"), "inserts/s", inserts);
            }
        }
        for &processes in &settings.processes {
            let runs: Vec<_> = self.idle.iter().filter(|(of, _)| *of == processes).map(|it| &it.1).collect();
            add_costs(&mut report, &format!("idle, {processes} processes"), "second", &runs);
        }
        let mut seen = Vec::new();
        for (row, _) in &self.rows {
            if !seen.contains(row) {
                seen.push(*row);
                self.report_row(&mut report, *row);
            }
        }
        report
    }

    fn report_row(&self, report: &mut Report, row: Row) {
        let (runs, Row { workload, clients, processes, reach }) = (self.runs(row), row);
        let name = format!("{workload}, {clients} clients, {processes} processes, {reach}");
        report.add(&name, "events/s", runs.iter().map(|done| done.per_second).collect());
        report.add(format!("{name}, p50"), "ms", runs.iter().map(|done| done.p50_ms).collect());
        report.add(format!("{name}, p99"), "ms", runs.iter().map(|done| done.p99_ms).collect());
        let inserts: Vec<_> = self.inserts.iter().filter(|(by, _)| *by == clients).map(|it| it.1).collect();
        if !inserts.is_empty() {
            let ratio = runs.iter().zip(&inserts).map(|(done, inserts)| done.per_second / inserts).collect();
            report.add(format!("{name}, of pgbench's inserts/s"), "ratio", ratio);
        }
        let costs: Vec<_> = runs.iter().map(|done| &done.cost).collect();
        add_costs(report, &name, "event", &costs);
        if processes == 1 {
            return;
        }
        let alone = self.runs(Row { processes: 1, reach: Reach::Holder, ..row });
        let ratio = |of: fn(&Cost) -> Option<f64>| -> Vec<f64> {
            let pairs = runs.iter().zip(&alone);
            pairs.filter_map(|(more, alone)| Some(of(&more.cost)? / of(&alone.cost)?)).collect()
        };
        let own = ratio(|cost| Some(cost.own_us));
        if !own.is_empty() {
            let goal = if reach == Reach::Holder { "at most 1.3" } else { "at most 2" };
            report.add(format!("{name}, own time to one process"), "ratio", own).goal = Some(goal.to_owned());
        }
        let database = ratio(|cost| cost.database.as_ref()?.cpu_us);
        if !database.is_empty() {
            let figure = report.add(format!("{name}, database time to one process"), "ratio", database);
            figure.goal = Some("at most 1.3".to_owned());
        }
    }
}

fn add_costs(report: &mut Report, name: &str, per: &str, runs: &[&Cost]) {
    if runs.is_empty() {
        return;
    }
    let unit = if per == "event" { "us" } else { "us/s" };
    report.add(format!("{name}, own time per {per}"), unit, runs.iter().map(|cost| cost.own_us).collect());
    let database: Vec<_> = runs.iter().filter_map(|cost| cost.database.as_ref()).collect();
    let times: Vec<_> = database.iter().filter_map(|used| used.cpu_us).collect();
    if !times.is_empty() {
        report.add(format!("{name}, database time per {per}"), unit, times);
    }
    if !database.is_empty() {
        let (bytes, count) = if per == "event" { ("B", "1") } else { ("B/s", "1/s") };
        let wal = database.iter().map(|used| used.wal_bytes).collect();
        report.add(format!("{name}, WAL per {per}"), bytes, wal);
        let transactions = database.iter().map(|used| used.transactions).collect();
        report.add(format!("{name}, database transactions per {per}"), count, transactions);
    }
}
