//! The engine workloads: what the layers above will ask of an engine, beside the raw limit.

use crate::{
    Common,
    clients::{Done, Kind, measure},
    raw::{Room, measure_raw},
    report::Report,
};
use mundi_engine::{CommitError, Committed, Embedded, Engine, RangeRead, Transaction};
use std::{
    error::Error,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// Record size of the raw limit; a put has a key of 24 bytes and fills the rest.
const RECORD_BYTES: usize = 300;
const KEY_BYTES: usize = 24;
/// The number of items that a worker claims at a time when there are enough.
const CLAIM_BATCH: usize = 16;
/// Items that a shard is filled with for each second of claiming: more than can be claimed.
const QUEUED_PER_SECOND: u64 = 2_000;
/// Worlds that the queue workloads spread over.
const WORLDS: usize = 64;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    #[command(flatten)]
    common: Common,
    /// How many clients put and enqueue at a time.
    #[arg(long, value_delimiter = ',', default_value = "1,64,1024")]
    clients: Vec<usize>,
    /// Without the raw limit beside it: for a profiler.
    #[arg(long)]
    alone: bool,
    /// Seconds of the sustained workload, in six parts.
    #[arg(long, default_value_t = 60)]
    sustained_seconds: u64,
    /// Keys in the stores whose opening is timed.
    #[arg(long, value_delimiter = ',', default_value = "1000000,10000000")]
    open_keys: Vec<u64>,
    /// Only the workloads whose name begins with this: put, enqueue, drain, claim, sustained, scan, open.
    #[arg(long)]
    only: Option<String>,
}

pub(crate) fn run(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::Builder::new().prefix(".mundi-bench-").tempdir_in(&settings.common.dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let mut bench = Bench { settings: settings.clone(), runtime, report: Report::new() };
    let workloads: [(&str, Workload); 7] = [
        ("put", Bench::puts),
        ("enqueue", Bench::enqueue),
        ("drain", Bench::drain),
        ("claim", Bench::claim_and_acknowledge),
        ("sustained", Bench::sustained),
        ("scan", Bench::scans),
        ("open", Bench::openings),
    ];
    for (name, workload) in workloads {
        if settings.only.as_ref().is_none_or(|only| name.starts_with(only.as_str())) {
            let folder = tempfile::tempdir_in(folder.path())?;
            workload(&mut bench, folder.path())?;
        }
    }
    bench.report.print(settings.common.format);
    Ok(())
}

type Workload = fn(&mut Bench, &Path) -> Outcome;
type Outcome = Result<(), Box<dyn Error>>;

struct Bench {
    settings: Settings,
    runtime: Runtime,
    report: Report,
}

impl Bench {
    fn time(&self) -> Duration {
        Duration::from_secs(self.settings.common.seconds)
    }

    /// Single puts, in turns with the raw limit; clients as tasks and as threads.
    fn puts(&mut self, folder: &Path) -> Outcome {
        let counts = self.settings.clients.clone();
        let who =
            [Kind::Tasks, Kind::Threads].into_iter().flat_map(|kind| counts.iter().map(move |&count| (kind, count)));
        for (kind, clients) in who {
            let who = format!("{clients} {}", if kind == Kind::Tasks { "tasks" } else { "threads" });
            self.report.progress(&format!("single puts by {who}, in turns with the raw limit"));
            let (mut growing, mut raw, mut put) = (Vec::new(), Vec::new(), Vec::new());
            for run in 0..self.settings.common.runs {
                if !self.settings.alone {
                    growing.push(self.raw(&folder.join("growing"), Room::Growing, kind, clients)?);
                    raw.push(self.raw(&folder.join("preallocated"), Room::Preallocated, kind, clients)?);
                }
                let path = folder.join(format!("engine-{run}"));
                let engine = Embedded::open(&path)?;
                put.push(measure(&self.runtime, kind, clients, self.time(), move |client, turn| {
                    put_one(engine.clone(), client, turn)
                }));
                std::fs::remove_dir_all(path)?;
            }
            let shares = put.iter().zip(&raw).map(|(put, raw)| put.per_second / raw.per_second).collect();
            self.rates_and_cpu(&format!("raw, growing file, {who}"), &growing);
            self.rates_and_cpu(&format!("raw, preallocated file, {who}"), &raw);
            self.rates(&format!("put, {who}"), &put);
            let goal = match clients {
                64 => Some(">= 0.85".to_owned()),
                1024 => Some(">= 0.60".to_owned()),
                _ => None,
            };
            self.report.add(format!("put / raw, {who}"), "ratio", shares).goal = goal;
            let cpu = put.iter().map(|done| done.cpu_us).collect();
            let goal = (clients == 1024).then(|| "<= 8".to_owned());
            self.report.add(format!("put, {who}, processor time"), "us/record", cpu).goal = goal;
        }
        Ok(())
    }

    fn raw(&self, path: &Path, room: Room, kind: Kind, clients: usize) -> Result<Done, Box<dyn Error>> {
        measure_raw(&self.runtime, path, room, kind, clients, self.time(), RECORD_BYTES)
    }

    fn rates(&mut self, name: &str, done: &[Done]) {
        self.report.add(name, "records/s", done.iter().map(|done| done.per_second).collect());
        let written = done.iter().map(|done| done.written_bytes).collect();
        self.report.add(format!("{name}, written"), "B/record", written);
    }

    fn rates_and_cpu(&mut self, name: &str, done: &[Done]) {
        self.rates(name, done);
        let cpu = done.iter().map(|done| done.cpu_us).collect();
        self.report.add(format!("{name}, processor time"), "us/record", cpu);
    }

    /// An item into an inbox: a stamped put, the counter of the inbox and the counter that is watched.
    fn enqueue(&mut self, folder: &Path) -> Outcome {
        for clients in self.settings.clients.clone() {
            self.report.progress(&format!("enqueue by {clients} clients"));
            let mut done = Vec::new();
            for run in 0..self.settings.common.runs {
                let engine = Embedded::open(folder.join(format!("{clients}-{run}")))?;
                done.push(measure(&self.runtime, Kind::Tasks, clients, self.time(), move |client, _| {
                    let engine = engine.clone();
                    async move { enqueue_one(&engine, client % WORLDS).await }
                }));
            }
            self.rates_and_cpu(&format!("enqueue, {clients} clients"), &done);
        }
        Ok(())
    }

    /// Inbox to journal in batches: items after the cursor become records, head and cursor move.
    fn drain(&mut self, folder: &Path) -> Outcome {
        for batch in [1usize, 64, 512] {
            self.report.progress(&format!("drain in batches of {batch}"));
            let mut done = Vec::new();
            for run in 0..self.settings.common.runs {
                let engine = Embedded::open(folder.join(format!("{batch}-{run}")))?;
                let items = if batch == 1 { 2_000 } else { 16 * batch as u64 };
                self.runtime.block_on(fill_inboxes(&engine, items))?;
                done.push(measure(&self.runtime, Kind::Tasks, WORLDS, self.time(), move |world, turn| {
                    let engine = engine.clone();
                    async move { drain_one(&engine, world, turn, batch, items).await }
                }));
            }
            self.rates_and_cpu(&format!("drain, batches of {batch}, {WORLDS} worlds"), &done);
        }
        Ok(())
    }

    /// Items of a queue, claimed from a low-water mark and then acknowledged one by one; at first, and after many were.
    fn claim_and_acknowledge(&mut self, folder: &Path) -> Outcome {
        for batch in [1, CLAIM_BATCH] {
            let (mut early, mut late) = (Vec::new(), Vec::new());
            for run in 0..self.settings.common.runs {
                self.report.progress(&format!("claims of {batch}, each item acknowledged"));
                let queue = Arc::new(WorkQueue::new(Embedded::open(folder.join(format!("{batch}-{run}")))?));
                let measured = |queue: Arc<WorkQueue>| {
                    self.runtime.block_on(queue.fill(QUEUED_PER_SECOND * self.settings.common.seconds))?;
                    let clients = queue.clone();
                    let done = measure(&self.runtime, Kind::Tasks, WORLDS, self.time(), move |shard, _| {
                        let queue = clients.clone();
                        async move { queue.claim_acknowledge(shard, batch).await }
                    });
                    Ok::<_, Box<dyn Error>>(done)
                };
                early.push(measured(queue.clone())?);
                measured(queue.clone())?;
                late.push(measured(queue)?);
            }
            for (when, done) in [("at first", &early), ("after many", &late)] {
                let name = format!("claims of {batch}, acknowledged, {when}");
                self.rates(&name, done);
                let cpu = done.iter().map(|done| done.cpu_us).collect();
                let goal = Some("<= 30".to_owned());
                self.report.add(format!("{name}, processor time"), "us/item", cpu).goal = goal;
            }
        }
        Ok(())
    }

    /// Produced, claimed and deleted for a minute: throughput must not decay.
    fn sustained(&mut self, folder: &Path) -> Outcome {
        let queue = Arc::new(WorkQueue::new(Embedded::open(folder.join("store"))?));
        let part = Duration::from_secs(self.settings.sustained_seconds) / 6;
        let mut rates = Vec::new();
        for number in 1..=6 {
            self.report.progress(&format!("sustained queue traffic, part {number} of 6"));
            let queue = queue.clone();
            let done = measure(&self.runtime, Kind::Tasks, WORLDS, part, move |shard, _| {
                let queue = queue.clone();
                async move { queue.produce_claim_acknowledge(shard).await }
            });
            self.report.add(format!("sustained, part {number} of 6"), "items/s", vec![done.per_second]);
            rates.push(done.per_second);
        }
        let ratio = rates[5] / rates[0];
        self.report.add("sustained, last part / first part", "ratio", vec![ratio]).goal = Some(">= 0.80".to_owned());
        Ok(())
    }

    fn scans(&mut self, folder: &Path) -> Outcome {
        const KEYS: u64 = 1_000_000;
        self.report.progress("scans of 1,000 items over 1,000,000 keys");
        let engine = Embedded::open(folder.join("store"))?;
        self.runtime.block_on(fill(&engine, KEYS))?;
        for reverse in [false, true] {
            let mut done = Vec::new();
            for _ in 0..self.settings.common.runs {
                let engine = engine.clone();
                done.push(measure(&self.runtime, Kind::Tasks, 2, self.time(), move |client, turn| {
                    let engine = engine.clone();
                    async move { scan_one(&engine, (client as u64 * 7919 + turn * 104_729) % KEYS, reverse).await }
                }));
            }
            let name = if reverse { "scan, downwards" } else { "scan, upwards" };
            let rates = done.iter().map(|done| done.per_second).collect();
            self.report.add(name, "items/s", rates);
            self.report.add(
                format!("{name}, processor time"),
                "us/item",
                done.iter().map(|done| done.cpu_us).collect(),
            );
        }
        Ok(())
    }

    fn openings(&mut self, folder: &Path) -> Outcome {
        for keys in self.settings.open_keys.clone() {
            self.report.progress(&format!("opening a store of {keys} keys"));
            let path = folder.join(format!("{keys}"));
            self.runtime.block_on(fill(&Embedded::open(&path)?, keys))?;
            let mut seconds = Vec::new();
            for _ in 0..self.settings.common.runs {
                let start = Instant::now();
                let engine = Embedded::open(&path)?;
                seconds.push(start.elapsed().as_secs_f64() * 1e3);
                drop(engine);
            }
            self.report.add(format!("opening a store of {keys} keys"), "ms", seconds);
            std::fs::remove_dir_all(&path)?;
        }
        Ok(())
    }
}

async fn put_one(engine: Embedded, client: usize, turn: u64) -> u64 {
    let put = async {
        let mut tx = engine.begin().await?;
        tx.put(&key_of(b'p', client as u64, turn), vec![7; RECORD_BYTES - KEY_BYTES])?;
        tx.commit().await
    };
    counted(put.await)
}

/// One for a transaction that came to its end; a conflict counts nothing.
fn counted(outcome: Result<Committed, CommitError>) -> u64 {
    match outcome {
        Ok(_) => 1,
        Err(CommitError::Conflict) => 0,
        Err(error) => {
            eprintln!("a commit failed: {error}");
            0
        }
    }
}

fn key_of(kind: u8, first: u64, second: u64) -> [u8; KEY_BYTES] {
    let mut key = [kind; KEY_BYTES];
    key[8..16].copy_from_slice(&first.to_be_bytes());
    key[16..].copy_from_slice(&second.to_be_bytes());
    key
}

fn inbox_prefix(world: usize) -> [u8; 16] {
    let key = key_of(b'i', world as u64, 0);
    std::array::from_fn(|index| key[index])
}

async fn enqueue_one(engine: &Embedded, world: usize) -> u64 {
    let enqueue = async {
        let mut tx = engine.begin().await?;
        tx.put_stamped(&inbox_prefix(world), &[0, 0], vec![7; 200])?;
        tx.add(&key_of(b'n', world as u64, 0), 1)?;
        tx.add(&key_of(b'c', world as u64, 0), 1)?;
        tx.commit().await
    };
    counted(enqueue.await)
}

async fn fill_inboxes(engine: &Embedded, items: u64) -> Result<(), Box<dyn Error>> {
    for world in 0..WORLDS {
        for chunk in 0..items.div_ceil(1_000) {
            let mut tx = engine.begin().await?;
            for item in chunk * 1_000..(items).min((chunk + 1) * 1_000) {
                tx.put(&key_of(b'i', world as u64, item), vec![7; 200])?;
            }
            tx.commit().await?;
        }
    }
    Ok(())
}

/// Reads items from the cursor, appends them as records, moves head and cursor. The inbox is a ring, so
/// that the measurement is of draining only.
async fn drain_one(engine: &Embedded, world: usize, turn: u64, batch: usize, items: u64) -> u64 {
    let (world_key, from) = (world as u64, turn * batch as u64 % items);
    let drain = async {
        let mut tx = engine.begin().await?;
        let start = key_of(b'i', world_key, from).to_vec();
        let page = tx.range(RangeRead::new(start, key_of(b'i', world_key, u64::MAX).to_vec(), batch)).await?;
        tx.get(&key_of(b'h', world_key, 0)).await?;
        for (index, (_, value)) in page.items.iter().enumerate() {
            tx.put(&key_of(b'j', world_key, turn * batch as u64 + index as u64), value.clone())?;
        }
        tx.put(&key_of(b'h', world_key, 0), turn.to_be_bytes().to_vec())?;
        tx.put(&key_of(b'o', world_key, 0), turn.to_be_bytes().to_vec())?;
        tx.commit().await
    };
    counted(drain.await) * batch as u64
}

/// A sharded queue. The low-water mark of a shard is a key that each claim moves, so that no claim looks at consumed items.
struct WorkQueue {
    engine: Embedded,
    produced: Vec<AtomicU64>,
}

impl WorkQueue {
    fn new(engine: Embedded) -> Self {
        Self { engine, produced: (0..WORLDS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Puts so many items into each shard.
    async fn fill(&self, items: u64) -> Result<(), Box<dyn Error>> {
        for (shard, produced) in self.produced.iter().enumerate() {
            let first = produced.fetch_add(items, Relaxed);
            for chunk in 0..items.div_ceil(1_000) {
                let mut tx = self.engine.begin().await?;
                for number in chunk * 1_000..items.min((chunk + 1) * 1_000) {
                    tx.put(&key_of(b'q', shard as u64, first + number), vec![7; 200])?;
                }
                tx.commit().await?;
            }
        }
        Ok(())
    }

    /// Three durable transactions: produce an item, claim the head of the shard, acknowledge it.
    async fn produce_claim_acknowledge(&self, shard: usize) -> u64 {
        let number = self.produced[shard].fetch_add(1, Relaxed);
        let produce = async {
            let mut tx = self.engine.begin().await?;
            tx.put(&key_of(b'q', shard as u64, number), vec![7; 200])?;
            tx.commit().await
        };
        counted(produce.await).min(self.claim_acknowledge(shard, 1).await)
    }

    /// Claims some items at the head of the shard in one transaction, and acknowledges each in another.
    async fn claim_acknowledge(&self, shard: usize, batch: usize) -> u64 {
        let claimed = match self.claim(shard as u64, batch).await {
            Ok(claimed) => claimed,
            Err(error) => return counted(Err(error)),
        };
        let mut done = 0;
        for inflight in claimed {
            let acknowledge = async {
                let mut tx = self.engine.begin().await?;
                tx.get(&inflight).await?;
                tx.delete(&inflight)?;
                tx.put(&key_of(b'r', shard as u64, 0), vec![7; 64])?;
                tx.commit().await
            };
            done += counted(acknowledge.await);
        }
        done
    }

    async fn claim(&self, shard: u64, batch: usize) -> Result<Vec<Vec<u8>>, CommitError> {
        let mut tx = self.engine.begin().await?;
        let (mark_key, end) = (key_of(b'm', shard, 0), key_of(b'q', shard, u64::MAX));
        let mark = tx.get_snapshot(&mark_key).await?.unwrap_or_else(|| key_of(b'q', shard, 0).to_vec().into());
        let page = tx.range(RangeRead::new(mark, end.to_vec(), batch)).await?;
        let mut claimed = Vec::new();
        for (key, value) in page.items {
            let mut inflight = key.to_vec();
            inflight[..8].fill(b'f');
            tx.delete(&key)?;
            tx.put(&inflight, value)?;
            tx.put(&mark_key, key)?;
            claimed.push(inflight);
        }
        tx.commit().await?;
        Ok(claimed)
    }
}

async fn fill(engine: &Embedded, keys: u64) -> Result<(), Box<dyn Error>> {
    for chunk in 0..keys.div_ceil(1_000) {
        let mut tx = engine.begin().await?;
        for number in chunk * 1_000..keys.min((chunk + 1) * 1_000) {
            tx.put(&key_of(b's', 0, number), vec![7; 100])?;
        }
        tx.commit().await?;
    }
    Ok(())
}

async fn scan_one(engine: &Embedded, from: u64, reverse: bool) -> u64 {
    let scan = async {
        let mut tx = engine.begin().await?;
        let (start, middle, end) = (key_of(b's', 0, 0), key_of(b's', 0, from), key_of(b's', 0, u64::MAX));
        let read = match reverse {
            false => RangeRead::new(middle.to_vec(), end.to_vec(), 1_000),
            true => RangeRead::new(start.to_vec(), middle.to_vec(), 1_000).reverse(),
        };
        tx.range(read.snapshot()).await
    };
    scan.await.map_or(0, |page| page.items.len() as u64)
}
