//! `create_resource`: resources are made once and never removed, and never change their shard.

use super::{
    super::{
        records::{Resource, ResourceState, cell},
        result::{Outcome, Refused, ResultCode},
    },
    Core,
};
use mundi_model::pool::ResourceId;
use std::collections::BTreeSet;

impl Core<'_> {
    pub(in super::super) fn create_resources(&mut self, ids: &[ResourceId]) -> Result<Outcome, Refused> {
        let mut seen = BTreeSet::new();
        for id in ids {
            if !seen.insert(*id) || self.host.get(&cell::resource(*id))?.is_some() {
                return Err(Refused::At(ResultCode::AlreadyExists, *id));
            }
        }
        if ids.len() as u64 > self.config().resources_max.saturating_sub(self.counts.resources) {
            return Err(ResultCode::ResourceTableFull.into());
        }
        for id in ids {
            let resource = Resource {
                resource_id: *id,
                current_state: ResourceState::Available,
                current_lease_id: None,
                version: 1,
            };
            self.put(&cell::resource(*id), &resource)?;
            self.changed.push((*id, true));
        }
        self.counts.resources += ids.len() as u64;
        Ok(self.outcome(ResultCode::Ok))
    }
}
