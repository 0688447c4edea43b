//! The runtime on PostgreSQL, in one process and in several, beside what pgbench reaches on the same server in the same run; or on a FoundationDB
//! cluster.
//!
//! The yardstick is one durable single-row insert per transaction, by as many clients; a cluster has none. Every process is a whole node in all roles
//! that brings its own clients; worlds are placed on all of them, so most calls of several processes go through another one.

mod part;
mod pgbench;

use crate::{Common, report::Report, serving::loopback};
use part::{Part, Workload};
use std::{error::Error, time::Duration};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    #[command(flatten)]
    common: Common,
    /// The database: `postgres://user@host/name`, whose schema `mundi_bench` is dropped and made again; or `foundationdb://FILE?prefix=NAME`, where each
    /// measurement leaves a deployment whose name begins so.
    #[arg(long)]
    database: String,
    /// How many clients there are, in all processes together.
    #[arg(long, value_delimiter = ',', default_values_t = [32, 256])]
    clients: Vec<usize>,
    /// How many worlds they call.
    #[arg(long, default_value_t = 300)]
    worlds: usize,
    /// How many processes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    processes: Vec<usize>,
    /// Only this workload: call, send, batch, effect or put.
    #[arg(long)]
    only: Option<Workload>,
}

pub(crate) fn run(settings: &Settings) -> Result<(), Box<dyn Error>> {
    if let Some(part) = Part::given()? {
        return part.run();
    }
    let is_cluster = settings.database.starts_with("foundationdb://");
    let mut deployments = 0;
    let time = Duration::from_secs(settings.common.seconds);
    let outside = loopback::start()?;
    let mut report = Report::new();
    for &clients in &settings.clients {
        let mut inserts = Vec::new();
        let mut measured = Vec::new();
        for run in 1..=settings.common.runs {
            if !is_cluster {
                report.progress(&format!("pgbench by {clients} clients, run {run}"));
                inserts.push(pgbench::inserts(&settings.database, clients, time)?);
            }
            for workload in Workload::ALL.into_iter().filter(|one| settings.only.is_none_or(|only| only == *one)) {
                for &processes in &settings.processes {
                    report.progress(&format!("{workload} by {clients} clients of {processes} processes, run {run}"));
                    let database = if is_cluster {
                        deployments += 1;
                        format!("{}-{}-{deployments}", settings.database, std::process::id())
                    } else {
                        pgbench::clean(&settings.database)?;
                        settings.database.clone()
                    };
                    let (worlds, seconds) = (settings.worlds, settings.common.seconds);
                    let done = part::together(workload, processes, clients, worlds, seconds, &outside, &database)?;
                    measured.push((workload, processes, done));
                }
            }
        }
        if !is_cluster {
            report.add(format!("pgbench, {clients} clients"), "inserts/s", inserts.clone());
        }
        for workload in Workload::ALL {
            for &processes in &settings.processes {
                let runs = measured.iter().filter(|(of, by, _)| (*of, *by) == (workload, processes));
                let runs: Vec<_> = runs.map(|(_, _, done)| *done).collect();
                if runs.is_empty() {
                    continue;
                }
                let name = format!("{workload}, {clients} clients, {processes} processes");
                report.add(&name, "events/s", runs.iter().map(|done| done.per_second).collect());
                report.add(format!("{name}, p50"), "ms", runs.iter().map(|done| done.p50_ms).collect());
                report.add(format!("{name}, p99"), "ms", runs.iter().map(|done| done.p99_ms).collect());
                if !is_cluster {
                    let ratio = runs.iter().zip(&inserts).map(|(done, inserts)| done.per_second / inserts).collect();
                    report.add(format!("{name}, of pgbench's inserts/s"), "ratio", ratio).goal = Some("> 1".to_owned());
                }
            }
        }
    }
    report.print(settings.common.format);
    Ok(())
}
