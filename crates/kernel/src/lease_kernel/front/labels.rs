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
use std::collections::{BTreeMap, BTreeSet};

/// The resources of a label that became available in a record or ceased to be, with the LSN of their entries.
#[derive(Default)]
struct Moved {
    added: Vec<(Height, ResourceId)>,
    removed: Vec<(Height, ResourceId)>,
}

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

    /// Brings the indexes up to what the kernel did: each label is counted once, however many of its resources changed.
    pub(in super::super) fn index_changes(&mut self) -> Result<(), Stop> {
        let mut of_labels: BTreeMap<String, Moved> = BTreeMap::new();
        for (resource, is_available) in std::mem::take(&mut self.changed) {
            let key = cell::labelled(resource);
            let Some(mut labelled) = self.get::<Labelled>(&key)? else { continue };
            if is_available == labelled.free_since.is_some() {
                continue;
            }
            let since = labelled.free_since.unwrap_or(self.lsn);
            for label in labelled.all() {
                let moved = of_labels.entry(label.to_owned()).or_default();
                let entries = if is_available { &mut moved.added } else { &mut moved.removed };
                entries.push((since, resource));
            }
            labelled.free_since = Some(since).filter(|_| is_available);
            self.put(&key, &labelled)?;
        }
        // All are counted before the first entry is deleted: a scan costs more the more the step has deleted.
        for (label, moved) in &of_labels {
            self.count_moved(label, moved)?;
        }
        for (label, Moved { added, removed }) in &of_labels {
            for (since, resource) in added {
                self.host.put(&cell::free(label, *since, *resource), &[])?;
            }
            for (since, resource) in removed {
                self.host.delete(&cell::free(label, *since, *resource))?;
            }
        }
        Ok(())
    }

    /// The count of a label, and where its index begins: no lower than the first entry that stays, so that a scan does not pass over those
    /// that are gone.
    fn count_moved(&mut self, label: &str, Moved { added, removed }: &Moved) -> Result<(), Stop> {
        let mut count = self.label_count(label)?;
        let stays = count.free > removed.len() as u64;
        if stays && removed.iter().any(|(since, _)| since.get() == count.free_from) {
            let after = format!("{}{:016x}", cell::free_of(label), count.free_from);
            let found = self.host.scan(&cell::free_of(label), Some(&after), removed.len() + 1)?;
            let gone: BTreeSet<String> =
                removed.iter().map(|(since, resource)| cell::free(label, *since, *resource)).collect();
            let first = found.iter().find(|(key, _)| !gone.contains(key));
            let lsn = first.and_then(|(key, _)| u64::from_str_radix(key.rsplit('/').nth(1)?, 16).ok());
            count.free_from = lsn.unwrap_or(count.free_from);
        }
        if !stays && !added.is_empty() {
            count.free_from = self.lsn.get();
        }
        count.free = (count.free + added.len() as u64).saturating_sub(removed.len() as u64);
        self.put(&cell::label_count(label), &count)
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
