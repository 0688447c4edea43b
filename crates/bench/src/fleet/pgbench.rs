//! The yardstick, by PostgreSQL's own tools.

use std::{
    error::Error,
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

/// As many bytes as a small event leaves in the journal.
const INSERT: &str = "INSERT INTO mundi_bench_yardstick (v) VALUES (repeat('x', 276)::bytea);\n";

/// Durable single-row inserts per second, one transaction each.
pub(super) fn inserts(url: &str, clients: usize, time: Duration) -> Result<f64, Box<dyn Error>> {
    let table = "DROP TABLE IF EXISTS mundi_bench_yardstick;
        CREATE TABLE mundi_bench_yardstick (k bigserial PRIMARY KEY, v bytea NOT NULL)";
    psql(url, table)?;
    let mut script = tempfile::NamedTempFile::new()?;
    script.write_all(INSERT.as_bytes())?;
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
        .args([format!("--client={clients}"), format!("--time={}", time.as_secs().max(1))])
        .arg("--file")
        .arg(script.path())
        .arg(url)
        .output()
        .map_err(|error| format!("pgbench: {error}"))?;
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let tps = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    psql(url, "DROP TABLE mundi_bench_yardstick")?;
    tps.ok_or_else(|| format!("pgbench said: {said}{why}").into())
}

/// Removes what the last measurement left, and lets the server write out what it has put off: each one begins alike.
pub(super) fn clean(url: &str) -> Result<(), Box<dyn Error>> {
    psql(url, &format!("DROP SCHEMA IF EXISTS {} CASCADE", super::SCHEMA))?;
    psql(url, "CHECKPOINT")
}

fn psql(url: &str, statement: &str) -> Result<(), Box<dyn Error>> {
    ask(url, statement).map(drop)
}

/// The server's answer: columns with a bar between them.
pub(super) fn ask(url: &str, statement: &str) -> Result<String, Box<dyn Error>> {
    let output = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"])
        .args(["--command", statement, url])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("psql: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}
