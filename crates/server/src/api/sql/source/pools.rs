//! Pools, and what they lease: from the list of pools, and by the queries that each shard answers.

use super::{PAGE_ROWS, Problem, Reading, Row, is_gone, row};
use mundi_model::{
    Coded, WorldName,
    pool::{HolderId, LeaseId, ResourceId},
};
use mundi_runtime::control::Pool;
use serde_json::{Value, json};

const LEASE_STATES: [&str; 6] = ["reserved", "active", "revoking", "released", "expired", "revoked"];
const RESOURCE_STATES: [&str; 4] = ["available", "reserved", "active", "revoking"];

impl Reading {
    /// The pools that the conditions name.
    async fn wanted_pools(&self) -> Result<Vec<Pool>, Problem> {
        let all = self.universe.ops().pools().await?.into_iter();
        let wanted = self.given.text("pool");
        let pools = all.filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name));
        let pool = |(name, record): (String, _)| Some(Pool { name: name.parse::<WorldName>().ok()?, record });
        Ok(pools.filter_map(pool).collect())
    }

    pub(super) async fn pools(&mut self) -> Result<Vec<Row>, Problem> {
        self.go_on(None);
        let pool = |Pool { name, record }: Pool| {
            let config: Value = serde_json::from_str(&record.config).unwrap_or(Value::Null);
            let created_at = mundi_model::Moment(record.created_at_ns).to_string();
            row(&json!({ "pool": name.as_str(), "shards": record.shards, "created_at": created_at, "config": config }))
        };
        Ok(self.wanted_pools().await?.into_iter().map(pool).collect())
    }

    /// A page of the first shard that is left.
    pub(super) async fn of_each_shard(&mut self) -> Result<Vec<Row>, Problem> {
        if self.place.shards.is_none() {
            let pools = self.wanted_pools().await?.into_iter();
            let shards = pools.flat_map(|pool| (0..pool.record.shards).map(move |shard| (pool.clone(), shard)));
            let wanted = self.given.number("shard");
            self.place.shards =
                Some(shards.filter(|(_, shard)| wanted.is_none_or(|wanted| wanted == *shard)).collect());
        }
        let Some((pool, shard)) = self.place.shards.as_ref().and_then(|shards| shards.front()).cloned() else {
            self.go_on(None);
            return Ok(Vec::new());
        };
        let (noun, query) = self.shard_query();
        let world = self.universe.ops().pool_world(&pool, shard)?;
        let answer = match self.universe.ops().pool_query(world, (noun, query), None).await {
            // Its pool is deleted meanwhile, or not yet made.
            Err(error) if is_gone(error.code()) => Value::Null,
            answer => answer?,
        };
        self.place.within = answer["next"].as_str().map(str::to_owned);
        if self.place.within.is_none() {
            self.place.shards.as_mut().and_then(|shards| shards.pop_front());
        }
        let items = answer["items"].as_array().into_iter().flatten();
        Ok(items.map(|item| of_shard(item, &pool, shard)).collect())
    }

    /// The query of a shard for the next page.
    fn shard_query(&self) -> (&'static str, Value) {
        let is_lease = self.table.name == "pool_leases";
        let states = if is_lease { &LEASE_STATES[..] } else { &RESOURCE_STATES[..] };
        let mut query = json!({ "limit": PAGE_ROWS });
        // Another word is no state, and in no row.
        if let Some(state) = self.given.text("state").filter(|state| states.contains(state)) {
            query["state"] = state.into();
        }
        if let Some(Ok(holder)) = self.given.text("holder_id").map(str::parse::<HolderId>) {
            query["holder_id"] = json!(holder);
        }
        if let Some(after) = &self.place.within {
            query["after"] = match is_lease {
                true => json!(after.parse::<LeaseId>().ok()),
                false => json!(after.parse::<ResourceId>().ok()),
            };
        }
        (if is_lease { "leases" } else { "resources" }, query)
    }
}

fn of_shard(item: &Value, pool: &Pool, shard: u64) -> Row {
    let mut row = row(item);
    let (state, lease) = (row.get("current_state").cloned(), row.get("current_lease_id").cloned());
    row.extend(state.map(|state| ("state".to_owned(), state)));
    row.extend(lease.map(|lease| ("lease_id".to_owned(), lease)));
    row.insert("pool".to_owned(), pool.name.as_str().into());
    row.insert("shard".to_owned(), shard.into());
    row
}
