//! The states of pools for `/metrics`: resources and leases by state, and the length of queues.
//!
//! A shard is asked again only if its journal has grown since. What is not answered in time is shown as it was.

use super::{exposition::Scrape, pools};
use crate::node::Universe;
use mundi_model::limits;
use mundi_runtime::{RuntimeError, control::Pool, metrics::Family};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;

/// By universe and pool, shard by shard.
#[derive(Debug, Default)]
pub(super) struct PoolGauges(Mutex<BTreeMap<(String, String), BTreeMap<u64, ShardState>>>);

/// A shard, or a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ShardState {
    /// The height at which it was so.
    height: u64,
    resources: [u64; 4],
    leases: [u64; 4],
    waiting: u64,
}

const RESOURCE_STATES: [&str; 4] = ["available", "reserved", "active", "revoking"];
const LEASE_STATES: [&str; 4] = ["reserved", "active", "revoking", "ended"];

impl ShardState {
    /// From what the pool answers about itself.
    fn read(height: u64, answer: &Value) -> Self {
        let counts = &answer["counts"];
        let of = |name: &str| counts[name].as_u64().unwrap_or(0);
        let by = |name: &str| counts["by_state"][name].as_u64().unwrap_or(0);
        let taken = ["resources_reserved", "resources_active", "resources_revoking"].map(by);
        let available = of("resources").saturating_sub(taken.iter().sum());
        let ended = of("leases").saturating_sub(of("live"));
        Self {
            height,
            resources: [available, taken[0], taken[1], taken[2]],
            leases: [by("leases_reserved"), by("leases_active"), by("leases_revoking"), ended],
            waiting: of("waiting"),
        }
    }

    fn plus(self, other: Self) -> Self {
        let sum = |a: [u64; 4], b: [u64; 4]| std::array::from_fn(|at| a[at] + b[at]);
        Self {
            height: self.height,
            resources: sum(self.resources, other.resources),
            leases: sum(self.leases, other.leases),
            waiting: self.waiting + other.waiting,
        }
    }
}

impl PoolGauges {
    /// Looks at the pools of a universe.
    pub(super) async fn refresh(&self, universe: &Universe) -> Result<(), RuntimeError> {
        let (ops, of) = (universe.ops(), universe.name().to_owned());
        let pools: Vec<_> = ops.pools().await?.into_iter().take(limits::POOL_GAUGES_MAX).collect();
        let is_there = |pool: &str| pools.iter().any(|(name, _)| name == pool);
        self.0.lock().retain(|(universe, pool), _| *universe != of || is_there(pool));
        let mut shards = 0;
        for (name, record) in pools {
            let Ok(parsed) = pools::name_of(&name) else { continue };
            let pool = Pool { name: parsed, record };
            for shard in 0..pool.record.shards {
                shards += 1;
                if shards > limits::POOL_GAUGE_SHARDS_MAX {
                    return Ok(());
                }
                let world = ops.pool_world(&pool, shard)?;
                let Some(position) = ops.seen_head(world).await?.position else { continue };
                let (height, key) = (position.head.height.get(), (of.clone(), name.clone()));
                let known = self.0.lock().get(&key).and_then(|shards| shards.get(&shard).copied());
                if known.is_some_and(|known| known.height == height) {
                    continue;
                }
                let answer = ops.pool_query(world, ("pool", Value::Null), None).await?;
                self.0.lock().entry(key).or_default().insert(shard, ShardState::read(height, &answer));
            }
        }
        Ok(())
    }

    pub(super) fn add_to(&self, scrape: &mut Scrape) {
        let pools: Vec<(String, String, ShardState)> = {
            let known = self.0.lock();
            let total = |shards: &BTreeMap<u64, ShardState>| {
                shards.values().fold(ShardState::default(), |total, shard| total.plus(*shard))
            };
            known.iter().map(|((universe, pool), shards)| (universe.clone(), pool.clone(), total(shards))).collect()
        };
        let labels = |universe: &str, pool: &str| vec![("universe", universe.to_owned()), ("pool", pool.to_owned())];
        let mut add = |family, states: [&'static str; 4], of: &dyn Fn(&ShardState) -> [u64; 4]| {
            let samples = pools.iter().flat_map(|(universe, pool, state)| {
                states.into_iter().zip(of(state)).map(|(name, count)| {
                    let state = [("state", name.to_owned())];
                    (labels(universe, pool).into_iter().chain(state).collect::<Vec<_>>(), count)
                })
            });
            scrape.add_numbers(family, samples.collect::<Vec<_>>());
        };
        add(Family::POOL_RESOURCES, RESOURCE_STATES, &|state| state.resources);
        add(Family::POOL_LEASES, LEASE_STATES, &|state| state.leases);
        let queues = pools.iter().map(|(universe, pool, state)| (labels(universe, pool), state.waiting));
        scrape.add_numbers(Family::POOL_QUEUE, queues);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shards_of_a_pool_are_added_up_and_every_state_is_shown() {
        let counts = json!({ "counts": {
            "resources": 10, "leases": 7, "live": 4, "waiting": 2,
            "by_state": {
                "leases_reserved": 1, "leases_active": 2, "leases_revoking": 1,
                "resources_reserved": 1, "resources_active": 3, "resources_revoking": 1,
            },
        } });
        let gauges = PoolGauges::default();
        let shard = ShardState::read(5, &counts);
        let shards = BTreeMap::from([(0, shard), (1, shard)]);
        gauges.0.lock().insert(("default".to_owned(), "gpus".to_owned()), shards);
        let mut scrape = Scrape::default();
        gauges.add_to(&mut scrape);
        let text = scrape.text();
        for line in [
            "mundi_pool_resources{universe=\"default\",pool=\"gpus\",state=\"available\"} 10",
            "mundi_pool_resources{universe=\"default\",pool=\"gpus\",state=\"active\"} 6",
            "mundi_pool_leases{universe=\"default\",pool=\"gpus\",state=\"revoking\"} 2",
            "mundi_pool_leases{universe=\"default\",pool=\"gpus\",state=\"ended\"} 6",
            "mundi_pool_queue_length{universe=\"default\",pool=\"gpus\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
