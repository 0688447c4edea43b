//! A scout: watches one shard of the ready queue, and wakes the worlds that it finds there.

use super::{Phase, Shared};
use crate::{Plane, RuntimeError, metrics::Metric};
use futures_util::future::{Either, select};
use mundi_store::{
    keyspace::{Shard, ready_notify},
    protocol::ReadReady,
};
use std::{pin::pin, sync::Arc, time::Duration};

/// Hints per transaction.
const PAGE_ITEMS: usize = 1_000;

pub(super) async fn run<P: Plane>(shared: Arc<Shared<P>>, shard: Shard) {
    while shared.phase() == Phase::Running {
        let version = shared.signal.version();
        let seen = match scan(&shared, shard).await {
            Ok(seen) => seen,
            Err(error) => {
                tracing::warn!(%error, ?shard, "the ready queue could not be read");
                shared.plane.clock().sleep(Duration::from_nanos(shared.config.retry_ns)).await;
                continue;
            }
        };
        wait(&shared, shard, seen, version).await;
    }
}

/// Wakes every world that has a hint.
async fn scan<P: Plane>(shared: &Shared<P>, shard: Shard) -> Result<ready_notify::Seen, RuntimeError> {
    let (mut first, mut after) = (None, None);
    loop {
        let read = ReadReady { universe: shared.config.universe, shard, after, items_max: PAGE_ITEMS };
        let page = shared.plane.run(&read).await?.output;
        shared.metrics.add(Metric::ReadyScans, 1);
        let now_ns = shared.plane.now_ns();
        let woken = {
            let mut table = shared.table.lock();
            page.worlds.iter().filter(|(priority, world)| table.hint(*world, *priority, now_ns)).count()
        };
        (0..woken).for_each(|_| shared.work.notify_one());
        let seen = first.get_or_insert(page.seen).clone();
        after = page.worlds.last().copied();
        if !page.more || after.is_none() {
            return Ok(seen);
        }
    }
}

/// Until the shard changes, the worker ends, or it is time to look again anyway.
async fn wait<P: Plane>(shared: &Shared<P>, shard: Shard, seen: ready_notify::Seen, mut version: u64) {
    let rescan = shared.plane.clock().sleep(Duration::from_nanos(shared.config.rescan_ns));
    let changed = pin!(ready_notify::changed(shared.plane.engine(), shared.config.universe, shard, seen));
    let mut woken = select(changed, rescan);
    while shared.phase() == Phase::Running {
        match select(woken, shared.signal.changed(version)).await {
            Either::Left(_) => return,
            Either::Right(((), rest)) => woken = rest,
        }
        version = shared.signal.version();
    }
}
