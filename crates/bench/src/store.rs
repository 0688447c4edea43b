//! The store workloads: what worlds ask of the persistence plane, beside the raw limit.

use crate::{
    Common,
    clients::{Kind, measure},
    content::{CellBytes, measure_cells, measure_content},
    raw::{Room, measure_raw},
    report::Report,
};
use mundi_engine::Embedded;
use mundi_store::{StoreError, bench::Figure, testing::Workload};
use std::{
    error::Error,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// Record size of the raw limit; an item carries that many bytes less what the journal puts around it.
const RECORD_BYTES: usize = 300;
const ITEM_BYTES: usize = 130;
const WORLDS: usize = 64;
/// Batch sizes of a drain, and how many items each one drains.
const DRAINS: [(usize, usize); 3] = [(1, 20_000), (64, 200_000), (512, 400_000)];
/// How many records lie behind the baseline, or above it.
const HISTORIES: [usize; 3] = [1_000, 10_000, 100_000];

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    #[command(flatten)]
    common: Common,
    /// Only the workloads whose name begins with this: enqueue, drain, replay, content, cells.
    #[arg(long)]
    only: Option<String>,
}

type Outcome = Result<(), Box<dyn Error>>;
type Workloads = fn(&mut Bench, &Path) -> Outcome;

pub(crate) fn run(settings: &Settings) -> Outcome {
    let folder = tempfile::Builder::new().prefix(".mundi-bench-").tempdir_in(&settings.common.dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let mut bench = Bench { settings: settings.clone(), runtime, report: Report::new(), raw: Vec::new() };
    let workloads: [(&str, Workloads); 5] = [
        ("enqueue", Bench::enqueue),
        ("drain", Bench::drain),
        ("replay", Bench::replay),
        ("content", Bench::content),
        ("cells", Bench::cells),
    ];
    for (name, workload) in workloads {
        if settings.only.as_ref().is_none_or(|only| name.starts_with(only.as_str())) {
            let folder = tempfile::tempdir_in(folder.path())?;
            bench.measure_raw(folder.path())?;
            workload(&mut bench, folder.path())?;
        }
    }
    let raw = std::mem::take(&mut bench.raw);
    bench.report.add("raw, preallocated file, 1024 clients", "records/s", raw);
    bench.report.print(settings.common.format);
    Ok(())
}

struct Bench {
    settings: Settings,
    runtime: Runtime,
    report: Report,
    raw: Vec<f64>,
}

impl Bench {
    fn time(&self) -> Duration {
        Duration::from_secs(self.settings.common.seconds)
    }

    /// The raw limit, measured again before each workload: the disk is shared.
    fn measure_raw(&mut self, folder: &Path) -> Outcome {
        self.report.progress("the raw limit");
        for _ in 0..self.settings.common.runs {
            let path = folder.join("raw");
            let done =
                measure_raw(&self.runtime, &path, Room::Preallocated, Kind::Tasks, 1024, self.time(), RECORD_BYTES)?;
            self.raw.push(done.per_second);
        }
        Ok(())
    }

    /// The latest measurement of the raw limit.
    fn raw_now(&self) -> f64 {
        let mut recent: Vec<f64> = self.raw.iter().rev().take(self.settings.common.runs).copied().collect();
        recent.sort_by(f64::total_cmp);
        recent.get(recent.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn workload(&self, path: &Path) -> Result<Arc<Workload<Embedded>>, Box<dyn Error>> {
        let engine = Embedded::open(path)?;
        Ok(Arc::new(self.runtime.block_on(Workload::new(engine, WORLDS, ITEM_BYTES))?))
    }

    fn enqueue(&mut self, folder: &Path) -> Outcome {
        for (clients, batch) in [(1, 1), (64, 1), (1024, 1), (64, 64)] {
            self.report.progress(&format!("enqueue by {clients} clients, {batch} items each"));
            let mut rates = Vec::new();
            for run in 0..self.settings.common.runs {
                let workload = self.workload(&folder.join(format!("{clients}-{batch}-{run}")))?;
                let done = measure(&self.runtime, Kind::Tasks, clients, self.time(), move |client, _| {
                    let workload = workload.clone();
                    // A full inbox is an answer too; it counts as nothing done.
                    async move { workload.enqueue(client, batch).await.unwrap_or(0) }
                });
                rates.push(done.per_second);
            }
            self.report.add(format!("enqueue, {clients} clients, batches of {batch}"), "items/s", rates);
        }
        Ok(())
    }

    fn drain(&mut self, folder: &Path) -> Outcome {
        for (batch, items) in DRAINS {
            self.report.progress(&format!("drain in batches of {batch}"));
            let mut rates = Vec::new();
            for run in 0..self.settings.common.runs {
                let workload = self.workload(&folder.join(format!("{batch}-{run}")))?;
                rates.push(self.drain_all(&workload, batch, items)?);
            }
            let raw = self.raw_now();
            let shares = rates.iter().map(|rate| rate / raw).collect();
            self.report.add(format!("drain, batches of {batch}, {WORLDS} worlds"), "items/s", rates);
            let goal = (batch == 512).then(|| ">= 0.30".to_owned());
            self.report.add(format!("drain / raw, batches of {batch}"), "ratio", shares).goal = goal;
        }
        Ok(())
    }

    /// Fills all inboxes, then drains them side by side; items per second of the draining.
    fn drain_all(&self, workload: &Arc<Workload<Embedded>>, batch: usize, items: usize) -> Result<f64, Box<dyn Error>> {
        self.each_world(workload, move |workload, world| async move { workload.fill(world, items / WORLDS).await })?;
        let start = Instant::now();
        self.each_world(workload, move |workload, world| async move {
            while workload.drain(world, batch).await? > 0 {}
            Ok(())
        })?;
        Ok(per_second(items / WORLDS * WORLDS, start))
    }

    fn each_world<F, Fut>(&self, workload: &Arc<Workload<Embedded>>, action: F) -> Outcome
    where
        F: Fn(Arc<Workload<Embedded>>, usize) -> Fut,
        Fut: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let spawn = |world| self.runtime.spawn(action(workload.clone(), world));
        let tasks: Vec<_> = (0..WORLDS).map(spawn).collect();
        for task in tasks {
            self.runtime.block_on(task)??;
        }
        Ok(())
    }

    /// Replay by the length of the history; restore by what lies behind the baseline, which it must not feel.
    fn replay(&mut self, folder: &Path) -> Outcome {
        for records in HISTORIES {
            self.report.progress(&format!("replay and restore of {records} records"));
            let (mut replayed, mut restored) = (Vec::new(), Vec::new());
            for run in 0..self.settings.common.runs {
                let workload = self.workload(&folder.join(format!("{records}-{run}")))?;
                self.runtime.block_on(grow(&workload, records))?;
                let start = Instant::now();
                let count = self.runtime.block_on(workload.replay(0))?;
                replayed.push(per_second(usize::try_from(count)?, start));
                self.runtime.block_on(async {
                    workload.promote(0).await?;
                    grow(&workload, 100).await
                })?;
                let start = Instant::now();
                self.runtime.block_on(workload.restore(0))?;
                restored.push(start.elapsed().as_secs_f64() * 1e3);
            }
            self.report.add(format!("replay, {records} records"), "records/s", replayed);
            let name = format!("restore, {records} records behind the baseline, 100 above");
            self.report.add(name, "ms", restored);
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Bench {
    /// Content store at three sizes, and segments.
    fn content(&mut self, folder: &Path) -> Outcome {
        self.report.progress("the content store and segments");
        let mut runs = Vec::new();
        for run in 0..self.settings.common.runs {
            runs.push(measure_content(&folder.join(format!("{run}")))?);
        }
        for (index, figure) in runs[0].iter().enumerate() {
            let rate = |run: &Vec<Figure>| run[index].operations as f64 / run[index].took.as_secs_f64();
            self.report.add(figure.name.clone(), "per second", runs.iter().map(rate).collect());
        }
        Ok(())
    }

    /// The bytes of a snapshot of a world with a million cells, whole and after a hundred changes.
    fn cells(&mut self, _: &Path) -> Outcome {
        self.report.progress("a snapshot of 1,000,000 cells");
        let CellBytes { full, changed, increment } = measure_cells(1_000_000, 100)?;
        self.report.add("snapshot of 1,000,000 cells", "B written", vec![full as f64]);
        self.report.add(format!("snapshot after {changed} changed"), "B written", vec![increment as f64]);
        let share = increment as f64 / full as f64;
        self.report.add("snapshot, changed / full", "ratio", vec![share]).goal = Some("<= 0.01".to_owned());
        Ok(())
    }
}

/// Adds records to the first world.
async fn grow(workload: &Workload<Embedded>, records: usize) -> Result<(), StoreError> {
    let mut left = records;
    while left > 0 {
        let some = left.min(50_000);
        workload.fill(0, some).await?;
        while workload.drain(0, 512).await? > 0 {}
        left -= some;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per_second(count: usize, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}
