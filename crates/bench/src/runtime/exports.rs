//! The effect of exports of old records on calls: with a fast object store, and with one that takes a second for
//! each request. The records are exported by the worker that runs the worlds, as in production.

use super::{Bench, Outcome, Serving, counted, create};
use crate::{
    clients::{Done, Kind, measure},
    program,
};
use mundi_engine::Embedded;
use mundi_model::{Value, WorkerId};
use mundi_runtime::{metrics::Metric, world::SnapshotPolicy};
use mundi_server::node::{Node, NodeConfig, SystemClock};
use mundi_store::{
    objects::Objects,
    testing::{Fault, FaultyObjects},
};
use std::{error::Error, path::Path, sync::Arc, time::Duration};

/// Few enough that each of them is exported again and again.
const WORLDS: usize = 8;
/// A snapshot, and with it an export, after so many records.
const SNAPSHOT_RECORDS: u64 = 3_000;
/// More than a measurement makes.
const REQUESTS_MAX: u64 = 100_000;

impl Bench {
    /// Calls to a few worlds whose old records leave for an object store meanwhile.
    pub(super) fn exports(&mut self, folder: &Path) -> Outcome {
        let clients = self.settings.clients;
        let mut p99 = Vec::new();
        for (name, delay) in [("at once", Duration::ZERO), ("after 1 s", Duration::from_secs(1))] {
            let name = format!("call beside exports, objects answer {name}");
            let (mut done, mut segments) = (Vec::new(), Vec::new());
            for run in 0..self.settings.common.runs {
                self.report.progress(&format!("{name}, by {clients} clients"));
                let path = folder.join(format!("{}-{run}", delay.as_millis()));
                let (measured, exported) = self.export(&path, delay, clients)?;
                p99.push((delay, measured.latency_us[2]));
                (done, segments) = ([done, vec![measured]].concat(), [segments, vec![exported]].concat());
            }
            self.figures(&name, &done);
            self.report.add(format!("{name}, exported"), "segments", segments);
        }
        let mean = |of: fn(Duration) -> bool| {
            let chosen: Vec<f64> = p99.iter().filter(|(delay, _)| of(*delay)).map(|(_, us)| *us).collect();
            chosen.iter().sum::<f64>() / chosen.len().max(1) as f64
        };
        let ratio = mean(|delay| !delay.is_zero()) / mean(|delay| delay.is_zero());
        let name = "call beside exports, p99 with slow objects / with fast ones";
        self.report.add(name, "ratio", vec![ratio]).goal = Some("< 2".to_owned());
        Ok(())
    }

    fn export(&self, folder: &Path, delay: Duration, clients: usize) -> Result<(Done, f64), Box<dyn Error>> {
        let served = self.runtime.block_on(serve_slow(folder, delay))?;
        let created = self.runtime.block_on(create(&served.universe, "counter", WORLDS))?;
        let universe = served.universe.clone();
        let done = measure(&self.runtime, Kind::Tasks, clients, self.time(), move |client, _| {
            let (universe, world) = (universe.clone(), created[client % WORLDS]);
            counted(async move { universe.call(world, "add", Value::Integer(1.into())).await.map(drop) })
        });
        let exported = served.node.metrics().get(Metric::SegmentsExported);
        self.runtime.block_on(served.node.stop());
        Ok((done, exported as f64))
    }
}

async fn serve_slow(folder: &Path, delay: Duration) -> Result<Serving, Box<dyn Error>> {
    std::fs::create_dir_all(folder.join("objects"))?;
    let objects = FaultyObjects::in_folder(&folder.join("objects"))?.with_clock(Arc::new(SystemClock));
    if !delay.is_zero() {
        (0..REQUESTS_MAX).for_each(|request| objects.script(request, Fault::Slow(delay)));
    }
    let snapshots = SnapshotPolicy { records: SNAPSHOT_RECORDS, ..SnapshotPolicy::default() };
    let config = NodeConfig { worker: WorkerId::new(1), snapshots, ..NodeConfig::default() };
    let engine = Embedded::open(folder.join("engine"))?;
    let node = Node::start(engine, Objects::new(Arc::new(objects)), program::programs(), config).await?;
    let universe = node.universe("default").ok_or("the default universe is missing")?;
    Ok(Serving { node, universe })
}
