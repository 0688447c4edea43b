//! PostgreSQL: a resource is a row, taken with `FOR UPDATE SKIP LOCKED`. A number that rises with each change of hands is the fence, which each
//! later step compares. By `pgbench`, whose clients cost nearly nothing; three transactions a cycle. What it writes is its write-ahead log.

use super::{COMMANDS, Cycles};
use crate::{latency::Latencies, machine::Used};
use std::{
    error::Error,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const SCRIPT: &str = "\
\\set holder random(1, 1000000000)
WITH free AS (SELECT id FROM mundi_bench_pool WHERE state = 0 LIMIT 1 FOR UPDATE SKIP LOCKED) \
UPDATE mundi_bench_pool r SET state = 1, holder = :holder, epoch = r.epoch + 1 FROM free WHERE r.id = free.id \
RETURNING r.id AS id, r.epoch AS epoch \\gset
UPDATE mundi_bench_pool SET state = 2 WHERE id = :id AND holder = :holder AND epoch = :epoch AND state = 1;
UPDATE mundi_bench_pool SET state = 0, holder = NULL, epoch = epoch + 1 WHERE id = :id AND holder = :holder AND epoch = :epoch;
";

pub(super) fn measure(url: &str, resources: usize, clients: usize, time: Duration) -> Result<Cycles, Box<dyn Error>> {
    psql(
        url,
        &format!(
            "DROP TABLE IF EXISTS mundi_bench_pool;
             CREATE TABLE mundi_bench_pool (id bigint PRIMARY KEY, state int NOT NULL, holder bigint, epoch bigint NOT NULL)
                 WITH (fillfactor = 50);
             INSERT INTO mundi_bench_pool SELECT n, 0, NULL, 0 FROM generate_series(1, {resources}) n;
             CREATE INDEX ON mundi_bench_pool (id) WHERE state = 0;
             ANALYZE mundi_bench_pool;
             CHECKPOINT"
        ),
    )?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("cycle.sql");
    fs::write(&script, SCRIPT)?;
    let (before, wal_before) = (used(), wal_bytes(url)?);
    let output = Command::new("pgbench")
        .current_dir(folder.path())
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2", "--log", "--log-prefix=cycles"])
        .args([format!("--client={clients}"), format!("--time={}", time.as_secs().max(1)), "--file".to_owned()])
        .arg(&script)
        .arg(url)
        .output()
        .map_err(|error| format!("pgbench: {error}"))?;
    let (after, wal_after) = (used(), wal_bytes(url)?);
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("pgbench said: {said}{why}").into());
    }
    let (latencies, cycles) = latencies(folder.path())?;
    psql(url, "DROP TABLE mundi_bench_pool")?;
    let measured = Cycles::of(cycles, time.as_secs_f64().max(1.0), &latencies, [before, after]);
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let written = (wal_after - wal_before) / (cycles.max(1) as f64 * COMMANDS);
    Ok(Cycles { written_bytes_per_command: written, ..measured })
}

/// The length of the write-ahead log. What backends wrote that have ended is told nowhere else.
fn wal_bytes(url: &str) -> Result<f64, Box<dyn Error>> {
    let statement = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')";
    let mut command = Command::new("psql");
    command.args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", statement, url]);
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("psql: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

/// The resources of all processes of the server, and of those that have ended and were waited for.
fn used() -> Used {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_server =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "postgres");
    numbers.filter(is_server).map(Used::with_children).sum()
}

/// Each line of the logs: client, number, microseconds, and more.
fn latencies(folder: &Path) -> Result<(Latencies, u64), Box<dyn Error>> {
    let (latencies, mut cycles) = (Latencies::default(), 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("cycles.") {
            continue;
        }
        for line in fs::read_to_string(entry.path())?.lines() {
            let Some(us) = line.split(' ').nth(2).and_then(|us| us.parse().ok()) else { continue };
            latencies.note(Duration::from_micros(us));
            cycles += 1;
        }
    }
    Ok((latencies, cycles))
}

fn psql(url: &str, statements: &str) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new("psql");
    command.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url]);
    for statement in statements.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        command.args(["--command", statement]);
    }
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("psql: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
}
