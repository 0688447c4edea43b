//! The ready watcher: watches the ready queue, and wakes the worlds that it finds there.
//!
//! One for all shards: what changed in several of them meanwhile is read at once, and between two passes there is a pause, so that the
//! busier the queue is, the more one look finds.

use super::{Phase, Shared};
use crate::{Plane, RuntimeError, metrics::Metric};
use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, Either, select},
    stream::FuturesUnordered,
};
use mundi_store::{
    keyspace::{Shard, ready_notify},
    protocol::{ReadReady, ReadyPage},
};
use std::{sync::Arc, time::Duration};

/// Hints of a shard per transaction.
const PAGE_ITEMS: usize = 1_000;

/// Each completes with its shard once that has changed.
type Watches = FuturesUnordered<BoxFuture<'static, Shard>>;

pub(super) async fn run<P: Plane>(shared: Arc<Shared<P>>) {
    let mut changed: Vec<Shard> = Shard::all().collect();
    let mut watches = Watches::new();
    let mut rescan_at_ns = rescan_at_ns(&shared);
    loop {
        let version = shared.signal.version(); // first: what ends the worker after the look at its phase changes it
        if shared.phase() != Phase::Running {
            return;
        }
        match scan(&shared, &changed).await {
            Ok(seen) => watches.extend(seen.into_iter().map(|(shard, seen)| watch(&shared, shard, seen))),
            Err(error) => {
                tracing::warn!(%error, "the ready queue could not be read");
                shared.plane.clock().sleep(Duration::from_nanos(shared.config.retry_ns)).await;
                continue;
            }
        }
        changed = match wait(&shared, &mut watches, version, rescan_at_ns).await {
            Some(changed) => changed,
            None => {
                watches.clear();
                rescan_at_ns = self::rescan_at_ns(&shared);
                Shard::all().collect()
            }
        };
    }
}

/// A moment, not a pause: shards that are busy must not put off the look at one that is quiet.
fn rescan_at_ns<P: Plane>(shared: &Shared<P>) -> u64 {
    shared.plane.now_ns().saturating_add(shared.config.rescan_ns)
}

/// Wakes every world of these shards that has a hint. Gives what each shard's counter said before.
async fn scan<P: Plane>(
    shared: &Shared<P>,
    shards: &[Shard],
) -> Result<Vec<(Shard, ready_notify::Seen)>, RuntimeError> {
    let mut seen = Vec::with_capacity(shards.len());
    let mut rest: Vec<_> = shards.iter().map(|shard| (*shard, None)).collect();
    while !rest.is_empty() {
        let read = ReadReady { universe: shared.config.universe, shards: rest, items_max: PAGE_ITEMS };
        let pages = shared.plane.run(&read).await?.output;
        shared.metrics.add(Metric::ReadyScans, 1);
        let now_ns = shared.plane.now_ns();
        let woken = {
            let mut scheduler = shared.scheduler.lock();
            let hints = pages.iter().flat_map(|page| &page.worlds);
            hints.filter(|(priority, world)| scheduler.hint(*world, *priority, now_ns)).count()
        };
        (0..woken).for_each(|_| shared.work.notify_one());
        let after = |page: &ReadyPage| Some((page.shard, Some(*page.worlds.last()?)));
        rest = pages.iter().filter(|page| page.more).filter_map(after).collect();
        for page in pages {
            // Of several pages of a shard, the first was read before all hints.
            if !seen.iter().any(|(shard, _)| *shard == page.shard) {
                seen.push((page.shard, page.seen));
            }
        }
    }
    Ok(seen)
}

fn watch<P: Plane>(shared: &Shared<P>, shard: Shard, seen: ready_notify::Seen) -> BoxFuture<'static, Shard> {
    let changed = ready_notify::changed(shared.plane.engine(), shared.config.universe, shard, seen);
    changed.map(move |_or_failed| shard).boxed() // a look says what went wrong
}

/// Until shards change, the worker ends, or it is time to look at all of them anyway: `None`.
async fn wait<P: Plane>(
    shared: &Shared<P>,
    watches: &mut Watches,
    mut version: u64,
    rescan_at_ns: u64,
) -> Option<Vec<Shard>> {
    let looked_at_ns = shared.plane.now_ns();
    let left_ns = rescan_at_ns.saturating_sub(looked_at_ns).min(shared.config.rescan_ns);
    if left_ns == 0 {
        return None; // shards that change all the time would win against a pause of no time
    }
    let rescan = shared.plane.clock().sleep(Duration::from_nanos(left_ns));
    let mut woken = select(watches.next(), rescan);
    let first = loop {
        match select(woken, shared.signal.changed(version)).await {
            Either::Left((Either::Left((first, _)), _)) => break first,
            Either::Left((Either::Right(_), _)) => break None,
            Either::Right(((), rest)) => woken = rest,
        }
        version = shared.signal.version(); // first: what changes after the look wakes it
        if shared.phase() != Phase::Running {
            return Some(Vec::new());
        }
    };
    let mut changed = vec![first?];
    let since_ns = shared.plane.now_ns().saturating_sub(looked_at_ns);
    let left_ns = shared.config.look_pause_ns.saturating_sub(since_ns);
    if left_ns > 0 {
        let pause = shared.plane.clock().sleep(Duration::from_nanos(left_ns));
        let mut meanwhile = watches.by_ref().take_until(pause);
        while let Some(next) = meanwhile.next().await {
            changed.push(next);
        }
        if let Some(rest) = meanwhile.take_future() {
            rest.await; // all have changed
        }
    }
    while let Some(Some(next)) = watches.next().now_or_never() {
        changed.push(next);
    }
    Some(changed)
}
