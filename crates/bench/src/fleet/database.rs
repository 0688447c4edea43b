//! The resources of the database, as far as it runs on this machine and reports them.

use super::pgbench::ask;
use crate::machine::{Used, children_of, parent_of};
use std::{error::Error, fs};

/// WAL bytes, transactions, and one process of the server.
const COUNTERS: &str = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn,
    (SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database),
    (SELECT min(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid())";

/// The database that is measured.
pub(super) enum Database {
    Postgres(String),
    /// It says nothing about its costs.
    Cluster,
}

/// The resources of a database up to one moment, or for one event.
#[derive(Debug, Clone, Default)]
pub(super) struct DatabaseUse {
    /// `None` on another machine.
    pub(super) cpu_us: Option<f64>,
    pub(super) wal_bytes: f64,
    pub(super) transactions: f64,
}

impl Database {
    pub(super) fn used(&self) -> Result<Option<DatabaseUse>, Box<dyn Error>> {
        let Self::Postgres(url) = self else { return Ok(None) };
        let said = ask(url, COUNTERS)?;
        let mut numbers = said.trim().split('|').map(str::parse::<f64>);
        let mut next = || numbers.next().ok_or("the server says too little")?.map_err(Box::<dyn Error>::from);
        let (wal_bytes, transactions) = (next()?, next()?);
        let pid = said.trim().rsplit('|').next().and_then(|pid| pid.parse().ok());
        let cpu = pid.and_then(server_of).map(server_used);
        Ok(Some(DatabaseUse { cpu_us: cpu.map(|cpu| cpu.cpu_us_since(Used::default())), wal_bytes, transactions }))
    }
}

impl DatabaseUse {
    pub(super) fn since(&self, before: &Self, events: f64) -> Self {
        Self {
            cpu_us: self.cpu_us.zip(before.cpu_us).map(|(after, before)| (after - before) / events),
            wal_bytes: (self.wal_bytes - before.wal_bytes) / events,
            transactions: (self.transactions - before.transactions) / events,
        }
    }
}

/// The server that a process of PostgreSQL belongs to, if it runs on this machine.
fn server_of(pid: u32) -> Option<u32> {
    let is_postgres = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim().starts_with("postgres"))
    };
    Some(pid).filter(is_postgres).and_then(parent_of).filter(is_postgres)
}

/// Of the server and of all its processes, also of those that have ended.
fn server_used(server: u32) -> Used {
    children_of(server).into_iter().map(Used::of).chain([Used::with_children(server)]).sum()
}
