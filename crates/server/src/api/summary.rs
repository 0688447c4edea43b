//! How a universe is doing, in a few numbers.

use super::{
    Problem,
    extract::{READ, UniverseScope},
};
use axum::Json;
use mundi_model::limits;
use mundi_store::{
    protocol::{WorldFilter, WorldSummary},
    values::{ListedState, Queue, WorldState},
};
use serde::Serialize;
use utoipa::ToSchema;

/// Counts of a universe. Those of queues stop at 1000.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct Summary {
    worlds: WorldCounts,
    /// Effects that were never tried.
    effects_pending: u64,
    /// Effects that wait for another attempt.
    effects_waiting: u64,
    /// Effects that are carried out now.
    effects_claimed: u64,
    timers: u64,
    dead_letters: u64,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct WorldCounts {
    /// All that are not deleted.
    total: u64,
    /// Those of them that a worker has in memory.
    held: u64,
    on_hold: u64,
    paused: u64,
    /// Worlds that wait for an effect, a timer or a child.
    waiting: u64,
    /// There are more items in the queues than are looked at to count them: 20,000.
    waiting_more: bool,
    /// A step failed since they were last upgraded, resumed, retried or skipped.
    failed: u64,
    archived: u64,
    /// Forks of other worlds.
    forks: u64,
    /// There are more worlds than are counted: 20,000.
    more: bool,
}

impl WorldCounts {
    fn add(&mut self, WorldSummary { meta, lease, failure, .. }: &WorldSummary) {
        self.total += 1;
        self.held += u64::from(lease.is_some());
        self.on_hold += u64::from(meta.hold.is_some());
        self.paused += u64::from(meta.listed_state() == ListedState::Paused);
        self.failed += u64::from(failure.is_some());
        self.archived += u64::from(meta.state == WorldState::Archived);
        self.forks += u64::from(meta.lineage.is_some());
    }
}

/// How many worlds there are and how they are, and how much waits in queues. It is counted anew for each request.
#[utoipa::path(get, path = "/v1/u/{universe}/summary", tag = "universes", responses((status = 200, body = Summary)))]
pub(super) async fn summary(UniverseScope { universe, .. }: UniverseScope<READ>) -> Result<Json<Summary>, Problem> {
    let (mut worlds, mut after) = (WorldCounts::default(), None);
    loop {
        let page = universe.ops().list_worlds(WorldFilter::default(), after, limits::LIST_ITEMS_MAX).await?;
        page.items.iter().for_each(|found| worlds.add(found));
        after = page.next;
        if after.is_none() {
            break;
        }
        if worlds.total >= limits::SUMMARY_WORLDS_MAX {
            worlds.more = true;
            break;
        }
    }
    (worlds.waiting, worlds.waiting_more) = universe.ops().count_waiting_worlds().await?;
    let depths = universe.ops().queue_depths().await?;
    let inboxes = universe.ops().list_dead_letters(Queue::Inboxes, None, None, limits::LIST_ITEMS_MAX).await?;
    let [effects_pending, effects_waiting, effects_claimed] = depths.effects;
    let (timers, dead_letters) = (depths.timers, depths.dead_letters.iter().sum::<u64>() + inboxes.items.len() as u64);
    Ok(Json(Summary { worlds, effects_pending, effects_waiting, effects_claimed, timers, dead_letters }))
}
