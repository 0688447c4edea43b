//! How long the renewal of many leases in one transaction takes: alone, and beside the traffic that it must keep alive.

use super::{Bench, Outcome, Served, counted, create, serve};
use crate::{
    clients::{Kind, measure},
    latency::Latencies,
};
use mundi_model::{Value, WorkerId, WorldId};
use mundi_runtime::Plane;
use mundi_store::{Fence, protocol::RenewLeases};
use std::{
    error::Error,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Leases that one transaction renews.
const LEASES: usize = 512;
/// Far longer than a measurement: none expires on the way.
const TTL: Duration = Duration::from_secs(3_600);
/// Between two renewals. A worker renews every few seconds; here it is the traffic that shall fill the engine, not the renewals.
const PAUSE: Duration = Duration::from_millis(5);
/// Worlds that are called meanwhile.
const CALLED: usize = 1_000;
/// Nobody else here has this number.
const HOLDER: u64 = 77;

impl Bench {
    /// Renews the leases of 512 worlds again and again; first alone, then while clients call other worlds.
    pub(super) fn renewals(&mut self, folder: &Path) -> Outcome {
        for (name, clients) in [("", 0), (", beside calls", self.settings.clients)] {
            let name = format!("renewal of {LEASES} leases{name}");
            let mut runs = Vec::new();
            for run in 0..self.settings.common.runs {
                self.report.progress(&format!("{name}, by {clients} clients"));
                runs.push(self.renew(&folder.join(format!("{clients}-{run}")), clients)?);
            }
            for (index, share) in ["p50", "p95", "p99"].into_iter().enumerate() {
                let ms = runs.iter().map(|run| run[index]).collect();
                let figure = self.report.add(format!("{name}, {share}"), "ms", ms);
                // What a healthy cluster is held to.
                figure.goal = (share == "p95").then(|| "< 50".to_owned());
            }
        }
        Ok(())
    }

    /// One run: what half, 95 % and 99 % of the renewals stayed below, in milliseconds.
    fn renew(&self, folder: &Path, clients: usize) -> Result<[f64; 3], Box<dyn Error>> {
        let served = self.runtime.block_on(serve(folder))?;
        let universe = served.universe.clone();
        let holder = WorkerId::new(HOLDER).ok_or("a worker has a number")?;
        let fences = self.runtime.block_on(acquire(&universe, holder))?;
        let called = self.runtime.block_on(create(&universe, "counter", if clients > 0 { CALLED } else { 0 }))?;
        let (took, over) = (Arc::new(Latencies::default()), Arc::new(AtomicBool::new(false)));
        let renewing = self.runtime.spawn(renew_until(universe.clone(), holder, fences, took.clone(), over.clone()));
        if clients == 0 {
            std::thread::sleep(self.time());
        } else {
            // How fast they are is another figure.
            let _calls = measure(&self.runtime, Kind::Tasks, clients, self.time(), move |client, turn| {
                counted(call(universe.clone(), called.clone(), client as u64 + turn * clients as u64))
            });
        }
        over.store(true, Relaxed);
        self.runtime.block_on(renewing)??;
        self.runtime.block_on(served.node.stop());
        Ok([0.5, 0.95, 0.99].map(|share| took.below_us(share) / 1e3))
    }
}

async fn acquire(universe: &Served, holder: WorkerId) -> Result<Vec<Fence>, Box<dyn Error>> {
    let mut fences = Vec::with_capacity(LEASES);
    for world in create(universe, "counter", LEASES).await?.iter() {
        fences.push(universe.ops().acquire_lease(*world, holder, TTL).await?);
    }
    Ok(fences)
}

async fn call(universe: Served, worlds: Arc<Vec<WorldId>>, turn: u64) -> Result<(), String> {
    let world = worlds[usize::try_from(turn).unwrap_or(0) % worlds.len()];
    universe.call(world, "add", Value::Integer(1.into())).await.map(drop).map_err(|error| error.to_string())
}

async fn renew_until(
    universe: Served,
    worker: WorkerId,
    fences: Vec<Fence>,
    took: Arc<Latencies>,
    over: Arc<AtomicBool>,
) -> Result<(), String> {
    let ttl_ns = u64::try_from(TTL.as_nanos()).unwrap_or(u64::MAX);
    while !over.load(Relaxed) {
        let renewal = RenewLeases { worker, fences: fences.clone(), now_ns: universe.plane().now_ns(), ttl_ns };
        let begun = Instant::now();
        let renewed = universe.plane().run(&renewal).await.map_err(|error| error.to_string())?.output;
        took.note(begun.elapsed());
        if renewed.renewed.len() != fences.len() {
            return Err(format!("{} leases were lost", renewed.lost.len()));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
