//! Labels: which available resources there are of a kind, the one that became available first in front.
//!
//! For each label an index of available resources by the LSN at which each became available, and a count. The empty label has all of
//! them. A choice costs what is chosen, whatever the size of the pool.

use super::super::{
    command::NewResource,
    core::Core,
    records::{LabelCount, Labelled, cell},
    result::{Outcome, Refused, ResultCode},
};
use crate::program::Stop;
use mundi_model::{
    Height,
    pool::{HolderId, ResourceId},
};

impl Core<'_> {
    pub(in super::super) fn create_labelled(&mut self, new: &[NewResource]) -> Result<Outcome, Refused> {
        let ids: Vec<ResourceId> = new.iter().map(|new| new.resource_id).collect();
        let outcome = self.create_resources(&ids)?;
        for new in new {
            let mut labels = new.labels.clone();
            labels.sort();
            let labelled = Labelled { name: new.name.clone(), labels, free_since: None };
            self.put(&cell::labelled(new.resource_id), &labelled)?;
            self.count_labels(&labelled, |count| count.total += 1)?;
        }
        Ok(outcome)
    }

    /// Reserves so many available resources of a label. Nobody overtakes those who wait.
    pub(in super::super) fn reserve_any(
        &mut self,
        (label, count): (&str, u32),
        holder: HolderId,
        ttl_slots: u64,
    ) -> Result<Outcome, Refused> {
        self.check_terms(count.into(), ttl_slots)?;
        if self.counts.waiting > 0 {
            return Err(ResultCode::ResourceBusy.into());
        }
        let ids = self.choose(label, count)?;
        self.reserve_bundle(&ids, holder, ttl_slots)
    }

    /// The first available resources of a label.
    pub(super) fn choose(&mut self, label: &str, count: u32) -> Result<Vec<ResourceId>, Refused> {
        let of_label = self.label_count(label)?;
        if of_label.total < u64::from(count) {
            return Err(ResultCode::ResourceNotFound.into());
        }
        if of_label.free < u64::from(count) {
            return Err(ResultCode::ResourceBusy.into());
        }
        let after = format!("{}{:016x}", cell::free_of(label), of_label.free_from);
        let found = self.host.scan(&cell::free_of(label), Some(&after), count as usize)?;
        let last = |key: &str| key.rsplit('/').next().and_then(|id| id.parse().ok());
        let ids: Vec<ResourceId> = found.iter().filter_map(|(key, _)| last(key)).collect();
        if ids.len() != count as usize {
            return Err(Refused::Stop(self.host.refuse("the index of a label has fewer resources than are counted")));
        }
        Ok(ids)
    }

    /// Brings the indexes up to what the kernel did.
    pub(in super::super) fn index_changes(&mut self) -> Result<(), Stop> {
        for (resource, is_available) in std::mem::take(&mut self.changed) {
            let key = cell::labelled(resource);
            let Some(mut labelled) = self.get::<Labelled>(&key)? else { continue };
            match (is_available, labelled.free_since) {
                (true, None) => self.index(resource, &mut labelled)?,
                (false, Some(since)) => self.unindex(resource, &mut labelled, since)?,
                _ => continue,
            }
            self.put(&key, &labelled)?;
        }
        Ok(())
    }

    fn index(&mut self, resource: ResourceId, labelled: &mut Labelled) -> Result<(), Stop> {
        let since = self.lsn;
        labelled.free_since = Some(since);
        for label in labelled.all() {
            self.host.put(&cell::free(label, since, resource), &[])?;
        }
        self.count_labels(labelled, |count| {
            count.free_from = if count.free == 0 { since.get() } else { count.free_from };
            count.free += 1;
        })
    }

    fn unindex(&mut self, resource: ResourceId, labelled: &mut Labelled, since: Height) -> Result<(), Stop> {
        labelled.free_since = None;
        for label in labelled.all() {
            self.host.delete(&cell::free(label, since, resource))?;
            self.advance_front(label, since)?;
        }
        self.count_labels(labelled, |count| count.free -= 1)
    }

    /// The index begins no lower than its first entry, so that a scan does not pass over those that are gone.
    fn advance_front(&mut self, label: &str, removed: Height) -> Result<(), Stop> {
        let key = cell::label_count(label);
        let Some(mut count) = self.get::<LabelCount>(&key)? else { return Ok(()) };
        if count.free_from != removed.get() {
            return Ok(());
        }
        let after = format!("{}{:016x}", cell::free_of(label), count.free_from);
        let first = self.host.scan(&cell::free_of(label), Some(&after), 1)?;
        let lsn = first.first().and_then(|(key, _)| u64::from_str_radix(key.rsplit('/').nth(1)?, 16).ok());
        count.free_from = lsn.unwrap_or(count.free_from);
        self.put(&key, &count)
    }

    pub(super) fn label_count(&mut self, label: &str) -> Result<LabelCount, Stop> {
        Ok(self.get(&cell::label_count(label))?.unwrap_or_default())
    }

    fn count_labels(&mut self, labelled: &Labelled, change: impl Fn(&mut LabelCount)) -> Result<(), Stop> {
        for label in labelled.all() {
            let mut count = self.label_count(label)?;
            change(&mut count);
            self.put(&cell::label_count(label), &count)?;
        }
        Ok(())
    }
}

impl Labelled {
    /// Its labels, and the one that all resources have.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once("").chain(self.labels.iter().map(String::as_str))
    }
}
