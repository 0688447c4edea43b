//! The engine on PostgreSQL beside pgbench, on the same server and in the same run.
//!
//! `cargo run --profile dist -p mundi-engine --features postgres --example postgres_bench -- postgres://user@host/database`
//!
//! With `steady 10` behind the URL: ten minutes of a queue that is filled and emptied, and how large its tables become.
//!
//! A shared machine gives no absolute figure worth keeping; the ratios are what counts. The yardstick is what PostgreSQL does
//! with one durable single-row insert per transaction, at the same number of clients.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "it measures time and prints figures")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use mundi_engine::{CommitError, Engine, EngineError, Postgres, RangeRead, Transaction, postgres::Options};
use std::{
    error::Error,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const SCHEMA: &str = "mundi_bench";
const WORLDS: u64 = 300;
const CAS_KEYS: u64 = 10_000;
/// A server takes a hundred connections unless it is told otherwise.
const PGBENCH_CLIENTS_MAX: u64 = 64;
/// Set for the processes that this one starts: workload, clients, the first client's number, seconds.
const PART: &str = "MUNDI_BENCH_PART";

#[derive(Debug, Clone, Copy)]
enum Workload {
    /// One record of 300 bytes.
    Put,
    /// An inbox item and its counters: what a sent event is.
    Enqueue,
    /// Four keys read, compared and written.
    CompareAndSet,
}

impl Workload {
    const ALL: [(&'static str, Self); 3] =
        [("put", Self::Put), ("enqueue", Self::Enqueue), ("compare-and-set", Self::CompareAndSet)];

    async fn once(self, engine: &Postgres, client: u64, turn: u64) -> Result<(), CommitError> {
        let mut tx = engine.begin().await?;
        let mixed = client.wrapping_mul(1_000_003).wrapping_add(turn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match self {
            Self::Put => {
                let key = [b"p/", &client.to_be_bytes()[..], &turn.to_be_bytes()].concat();
                tx.put(&key, vec![7; 276])?;
            }
            Self::Enqueue => {
                let world = (mixed % WORLDS).to_be_bytes();
                let key = |family: &[u8]| [b"w/", &world[..], family].concat();
                tx.put_stamped(&key(b"/inbox/"), b"", vec![7; 200])?;
                tx.add(&key(b"/items"), 1)?;
                tx.add(&key(b"/bytes"), 200)?;
                tx.add(&key(b"/notify"), 1)?;
            }
            Self::CompareAndSet => {
                for turned in [0, 16, 32, 48] {
                    let key = [b"c/", &(mixed.rotate_left(turned) % CAS_KEYS).to_be_bytes()[..]].concat();
                    let before = tx.get(&key).await?;
                    let before = before.and_then(|value| value[..].try_into().ok()).map_or(0, u64::from_le_bytes);
                    tx.put(&key, (before + 1).to_le_bytes().to_vec())?;
                }
            }
        }
        tx.commit().await.map(drop)
    }
}

#[derive(Default)]
struct Counts {
    done: AtomicU64,
    refused: AtomicU64,
    stop: AtomicBool,
}

/// Commits per second, and the share that was refused.
async fn measure(url: &str, workload: Workload, clients: u64, first: u64, time: Duration) -> Outcome<(f64, f64)> {
    let engine = Postgres::open_with(url, Options { schema: SCHEMA.to_owned(), ..Options::default() }).await?;
    let counts = Arc::new(Counts::default());
    let client = |client: u64| {
        let (engine, counts) = (engine.clone(), counts.clone());
        tokio::spawn(async move {
            let base = u64::from(std::process::id()) << 32; // no two runs write the same keys
            for turn in base.. {
                if counts.stop.load(Relaxed) {
                    break;
                }
                match workload.once(&engine, client, turn).await {
                    Ok(()) => counts.done.fetch_add(1, Relaxed),
                    Err(CommitError::Conflict) => counts.refused.fetch_add(1, Relaxed),
                    Err(CommitError::Engine(error) | CommitError::Unknown(error)) => return Err(error),
                };
            }
            Ok::<(), EngineError>(())
        })
    };
    let tasks: Vec<_> = (first..first + clients).map(client).collect();
    tokio::time::sleep(time / 4).await;
    let (before, begun) = (counts.done.load(Relaxed), Instant::now());
    tokio::time::sleep(time).await;
    let per_second = (counts.done.load(Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
    counts.stop.store(true, Relaxed);
    for task in tasks {
        task.await??;
    }
    let (done, refused) = (counts.done.load(Relaxed) as f64, counts.refused.load(Relaxed) as f64);
    Ok((per_second, refused / (done + refused)))
}

/// Transactions per second of pgbench.
fn pgbench(url: &str, script: &str, clients: u64, time: Duration) -> Outcome<f64> {
    let file = std::env::temp_dir().join(format!("mundi-bench-{}.sql", std::process::id()));
    std::fs::write(&file, script)?;
    let clients = clients.min(PGBENCH_CLIENTS_MAX);
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=1", "--max-tries=100"])
        .args([format!("--client={clients}"), format!("--time={}", time.as_secs().max(1))])
        .arg("--file")
        .arg(&file)
        .arg(url)
        .stderr(Stdio::null())
        .output()?;
    std::fs::remove_file(&file)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    Ok(tps.ok_or_else(|| format!("pgbench said: {text}"))?)
}

const INSERT: &str = "INSERT INTO mundi_bench_yardstick (v) VALUES (repeat('x', 276)::bytea);\n";
const SERIALIZABLE: &str = r"\set a random(1, 10000)
\set b random(1, 10000)
\set c random(1, 10000)
\set d random(1, 10000)
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT v FROM mundi_bench_cas WHERE k IN (:a, :b, :c, :d);
UPDATE mundi_bench_cas SET v = v + 1 WHERE k IN (:a, :b, :c, :d);
COMMIT;
";

async fn prepare(url: &str) -> Outcome {
    let (client, line) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(line);
    let tables = "CREATE TABLE mundi_bench_yardstick (k bigserial PRIMARY KEY, v bytea NOT NULL);
        CREATE TABLE mundi_bench_cas (k bigint PRIMARY KEY, v bigint NOT NULL) WITH (fillfactor = 50);
        INSERT INTO mundi_bench_cas SELECT k, 0 FROM generate_series(1, 10000) AS k";
    let drop =
        format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; DROP TABLE IF EXISTS mundi_bench_yardstick, mundi_bench_cas");
    client.batch_execute(&format!("{drop}; {tables}")).await?;
    Ok(())
}

/// Sixteen writers enqueue, and for each world one reader takes and deletes: does what is dead stay?
async fn steady(url: &str, minutes: u64) -> Outcome {
    prepare(url).await?;
    let engine = Postgres::open_with(url, Options { schema: SCHEMA.to_owned(), ..Options::default() }).await?;
    let counts = Arc::new(Counts::default());
    for client in 0..16 {
        let (writing, done) = (engine.clone(), counts.clone());
        tokio::spawn(async move {
            for turn in 0.. {
                let _again = Workload::Enqueue.once(&writing, client, turn).await;
                if done.stop.load(Relaxed) {
                    return;
                }
            }
        });
        let (reading, done) = (engine.clone(), counts.clone());
        tokio::spawn(async move {
            for world in (client..WORLDS).step_by(16).cycle() {
                let taken = take(&reading, world).await.unwrap_or(0);
                done.done.fetch_add(taken, Relaxed);
                if done.stop.load(Relaxed) {
                    return;
                }
            }
        });
    }
    let (client, line) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(line);
    let sizes = format!(
        "SELECT pg_table_size('{SCHEMA}.kv'), pg_indexes_size('{SCHEMA}.kv'), pg_total_relation_size('{SCHEMA}.commits')"
    );
    println!("{:>8} {:>12} {:>12} {:>12} {:>12}", "minutes", "consumed", "table, kB", "index, kB", "commits, kB");
    for half in 0..=minutes * 2 {
        let row = client.query_one(&sizes, &[]).await?;
        let size = |column: usize| row.get::<_, i64>(column) / 1024;
        let (done, minutes) = (counts.done.load(Relaxed), half as f64 / 2.0);
        println!("{minutes:>8.1} {done:>12} {:>12} {:>12} {:>12}", size(0), size(1), size(2));
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    counts.stop.store(true, Relaxed);
    Ok(())
}

/// Takes up to fifty items from the front of a queue, from where it ended last time; says how many.
async fn take(engine: &Postgres, world: u64) -> Result<u64, CommitError> {
    let world = world.to_be_bytes();
    let (queue, cursor) = ([b"w/", &world[..], b"/inbox/"].concat(), [b"w/", &world[..], b"/cursor"].concat());
    let mut tx = engine.begin().await?;
    let mut read = RangeRead::prefix(&queue, 50);
    if let Some(seen) = tx.get(&cursor).await? {
        read.start = seen;
    }
    let items = tx.range(read).await?.items;
    let Some((last, _)) = items.last() else { return Ok(0) };
    tx.put(&cursor, [&last[..], &[0]].concat())?;
    for (key, _) in &items {
        tx.delete(key)?;
    }
    tx.commit().await?;
    Ok(items.len() as u64)
}

/// The same workload by several processes at once; their sum.
fn by_processes(url: &str, workload: usize, processes: u64, clients: u64, time: Duration) -> Outcome<f64> {
    let this = std::env::current_exe()?;
    let part = |number: u64| {
        let part = format!("{workload} {} {} {}", clients / processes, number * 1_000, time.as_secs());
        Command::new(&this).arg(url).env(PART, part).stdout(Stdio::piped()).spawn()
    };
    let running: Vec<_> = (0..processes).map(part).collect::<Result<_, _>>()?;
    let mut sum = 0.0;
    for child in running {
        sum += String::from_utf8(child.wait_with_output()?.stdout)?.trim().parse::<f64>()?;
    }
    Ok(sum)
}

#[tokio::main]
async fn main() -> Outcome {
    let url = std::env::args().nth(1).ok_or("which database? postgres://user@host/database")?;
    if let Ok(part) = std::env::var(PART) {
        let part: Vec<u64> = part.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let workload = Workload::ALL[usize::try_from(part[0])?].1;
        let (per_second, _) = measure(&url, workload, part[1], part[2], Duration::from_secs(part[3])).await?;
        println!("{per_second}");
        return Ok(());
    }
    if std::env::args().nth(2).as_deref() == Some("steady") {
        let minutes = std::env::args().nth(3).map_or(Ok(10), |text| text.parse())?;
        return steady(&url, minutes).await;
    }
    let time = Duration::from_secs(std::env::args().nth(2).map_or(Ok(5), |text| text.parse())?);
    prepare(&url).await?;
    println!("{:>7}  {:<34} {:>10}  of inserts", "clients", "", "per second");
    for clients in [1, 32, 256] {
        let inserts = pgbench(&url, INSERT, clients, time)?;
        let show = |name: &str, value: f64| println!("{clients:>7}  {name:<34} {value:>10.0}  {:.2}", value / inserts);
        show("pgbench, single-row inserts", inserts);
        for (name, workload) in Workload::ALL {
            let (per_second, refused) = measure(&url, workload, clients, 0, time).await?;
            show(&format!("{name}, {:.1} % refused", refused * 100.0), per_second);
        }
        show("pgbench, SERIALIZABLE, four keys", pgbench(&url, SERIALIZABLE, clients, time)?);
    }
    for processes in [1, 2, 4] {
        let per_second = by_processes(&url, 1, processes, 256, time)?;
        println!("{:>7}  {:<34} {per_second:>10.0}", 256, format!("enqueue, {processes} processes"));
    }
    Ok(())
}
