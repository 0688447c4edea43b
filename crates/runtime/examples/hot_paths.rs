//! The hot paths, so many times over: what `cargo xtask instructions` counts the instructions of.
//!
//! `hot_paths PATH TIMES`; the paths are `call` (an event to a world that this worker holds: one commit, and the reply),
//! `inbox` (the same through the inbox) and `restore` (a world comes back from its journal). Everything is in memory, on one
//! thread, and happens in the same order each time. The engine is the one in memory itself, not the probe that tests put around it: what
//! the probe does is nobody's hot path.

#![expect(clippy::unwrap_used, reason = "a path that fails is not counted")]

use mundi_engine::Memory;
use mundi_model::{
    WorkerId,
    record::{InboxItem, Input, Origin},
};
use mundi_runtime::{
    calls::Calls,
    control::Ops,
    metrics::Metrics,
    testing::{Rig, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::testing::world_id;
use std::{sync::Arc, time::Duration};

const WAIT: Duration = Duration::from_secs(5);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (path, times) = (arguments.next().unwrap(), arguments.next().unwrap().parse().unwrap());
    let rig = Rig::with(1, Memory::new());
    let creating = rig.clone();
    rig.executor.block_on(async move { creating.create(world_id(0)).await.unwrap() });
    match path.as_str() {
        "call" => calls(&rig, times, true),
        "inbox" => calls(&rig, times, false),
        "restore" => restores(&rig, times),
        other => panic!("no such path: {other}"),
    }
}

fn event(script: &str) -> InboxItem {
    let input: Input = script_event(script);
    let origin = Origin { wants_reply: true, ..Origin::new(0) };
    InboxItem { input, origin }
}

/// Calls of a world that is held, handed over in memory or through the inbox.
fn calls(rig: &Rig<Memory>, times: u32, near: bool) {
    let (node, calls) = (rig.executor.node(), Calls::default());
    let config = WorkerConfig::new(rig.universe, WorkerId::new(1).unwrap());
    let worker = WorldWorker::start(rig.on(&node), config, calls.clone(), Arc::new(Metrics::default()));
    let waking = rig.clone();
    rig.executor.block_on(async move { waking.send(world_id(0), vec![script_event("add n")]).await.unwrap() });
    rig.executor.run_for(Duration::from_millis(50));
    let ops = Ops::new(rig.plane.clone(), rig.universe, calls);
    let ops = if near { ops.beside(worker) } else { ops };
    rig.executor.block_on(async move {
        for _ in 0..times {
            ops.call(world_id(0), event("add n\nreply done"), None, WAIT).await.unwrap();
        }
    });
}

/// A world with ten events.
fn restores(rig: &Rig<Memory>, times: u32) {
    let own = rig.clone();
    rig.executor.block_on(async move {
        let worker = WorkerId::new(1).unwrap();
        own.send(world_id(0), vec![script_event("add n"); 10]).await.unwrap();
        own.tell(&mut own.host(world_id(0), worker).await.unwrap(), &[]).await.unwrap();
        let mut host = own.host(world_id(0), worker).await.unwrap();
        own.tell(&mut host, &["add n"]).await.unwrap();
        for _ in 0..times {
            own.host(world_id(0), worker).await.unwrap();
        }
    });
}
