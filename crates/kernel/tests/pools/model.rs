//! The kernel as a plain data structure: no cells, no indexes, no marks.

use crate::rig::SHARD;
use mundi_kernel::lease_kernel::{
    command::Command,
    config::PoolConfig,
    records::{LeaseState, ResourceState},
    result::ResultCode,
};
use mundi_model::{
    Height,
    pool::{ClientId, HolderId, LeaseId, OperationId, ResourceId},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) result: ResultCode,
    pub(crate) lease: Option<(LeaseId, u64)>,
    pub(crate) resources: Vec<ResourceId>,
    pub(crate) ticket: Option<LeaseId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelLease {
    pub(crate) holder: HolderId,
    pub(crate) state: LeaseState,
    pub(crate) epoch: u64,
    pub(crate) deadline: u64,
    /// The timer looks at it, if it is still reserved.
    expires: bool,
    pub(crate) released: Height,
    pub(crate) retire_after: Option<u64>,
    pub(crate) members: Vec<ResourceId>,
}

impl ModelLease {
    fn is_expiring(&self) -> bool {
        self.state == LeaseState::Reserved && self.expires
    }
}

#[derive(Debug, Clone)]
struct Kept {
    command: Command,
    answer: Answer,
    until: u64,
}

#[derive(Debug, Clone)]
struct Waiting {
    ticket: LeaseId,
    holder: HolderId,
    label: String,
    count: u32,
    ttl: u64,
}

/// An entry that is removed when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Lease(LeaseId),
    Operation(ClientId, OperationId),
    Ticket(LeaseId),
}

#[derive(Debug, Clone)]
pub(crate) struct ModelResource {
    pub(crate) state: ResourceState,
    pub(crate) lease: Option<LeaseId>,
    pub(crate) version: u64,
    labels: Vec<String>,
    free_since: (u64, ResourceId),
}

pub(crate) struct Model {
    config: PoolConfig,
    pub(crate) resources: BTreeMap<ResourceId, ModelResource>,
    pub(crate) leases: BTreeMap<LeaseId, ModelLease>,
    operations: BTreeMap<(ClientId, OperationId), Kept>,
    endings: BTreeSet<(u64, Ending)>,
    queue: VecDeque<Waiting>,
    ended_tickets: BTreeMap<LeaseId, (HolderId, u64)>,
    evidence: BTreeMap<LeaseId, usize>,
    watermark: u64,
    slot: u64,
    lsn: Height,
    made_lease: bool,
    closed: bool,
}

impl Model {
    pub(crate) fn new(config: PoolConfig) -> Self {
        Self {
            config,
            resources: BTreeMap::new(),
            leases: BTreeMap::new(),
            operations: BTreeMap::new(),
            endings: BTreeSet::new(),
            queue: VecDeque::new(),
            ended_tickets: BTreeMap::new(),
            evidence: BTreeMap::new(),
            watermark: 0,
            slot: 0,
            lsn: Height::GENESIS,
            made_lease: false,
            closed: false,
        }
    }

    fn begin(&mut self, slot: u64, lsn: Height) {
        (self.slot, self.lsn, self.made_lease) = (slot, lsn, false);
        // A command removes at most eight records whose time is over, the oldest first.
        for _ in 0..8 {
            let Some((at, ending)) = self.endings.first().copied().filter(|(at, _)| *at <= slot) else { break };
            self.endings.remove(&(at, ending));
            match ending {
                Ending::Lease(id) => {
                    self.leases.remove(&id);
                    self.watermark = self.watermark.max(id.lsn().get());
                }
                Ending::Operation(client, operation) => {
                    if self.operations.get(&(client, operation)).is_some_and(|kept| kept.until == at) {
                        self.operations.remove(&(client, operation));
                    }
                }
                Ending::Ticket(id) => drop(self.ended_tickets.remove(&id)),
            }
        }
    }

    pub(crate) fn command(
        &mut self,
        (slot, lsn): (u64, Height),
        (client, operation): (ClientId, OperationId),
        command: &Command,
    ) -> Answer {
        self.begin(slot, lsn);
        let answer = self.once((client, operation), command);
        self.grant();
        answer
    }

    pub(crate) fn timer(&mut self, slot: u64, lsn: Height, label: &str) {
        self.begin(slot, lsn);
        if label == "expire" {
            let reserved = self.leases.iter().filter(|(_, lease)| lease.is_expiring());
            let mut due: Vec<_> = reserved.map(|(id, lease)| (lease.deadline, *id)).collect();
            due.sort();
            for (_, id) in due.into_iter().filter(|(deadline, _)| *deadline <= slot).take(64) {
                if self.end(id, LeaseState::Expired).is_err() {
                    self.leases.get_mut(&id).unwrap().expires = false;
                }
            }
        }
        self.grant();
    }

    fn once(&mut self, key: (ClientId, OperationId), command: &Command) -> Answer {
        match self.operations.get(&key) {
            Some(kept) if kept.until > self.slot && kept.command == *command => return kept.answer.clone(),
            Some(kept) if kept.until > self.slot => return refused(ResultCode::OperationConflict),
            None if self.operations.len() as u64 >= self.config.operations_max => {
                return refused(ResultCode::OperationTableFull);
            }
            _ => {}
        }
        let Some(until) = self.slot.checked_add(self.config.operation_slots) else {
            return refused(ResultCode::SlotOverflow);
        };
        let answer = self.execute(command).unwrap_or_else(|refusal| refusal);
        self.operations.insert(key, Kept { command: command.clone(), answer: answer.clone(), until });
        self.endings.insert((until, Ending::Operation(key.0, key.1)));
        answer
    }

    fn execute(&mut self, command: &Command) -> Result<Answer, Answer> {
        let reserves = matches!(
            command,
            Command::Reserve { .. }
                | Command::ReserveBundle { .. }
                | Command::ReserveAny { .. }
                | Command::EnqueueReserve { .. }
        );
        if reserves && self.closed {
            return Err(refused(ResultCode::InvalidState));
        }
        match command {
            Command::Configure { .. } => unreachable!("the model has none"),
            Command::Close {} => {
                if !self.queue.is_empty() || self.leases.values().any(|lease| !lease.state.is_terminal()) {
                    return Err(refused(ResultCode::InvalidState));
                }
                self.closed = true;
                Ok(refused(ResultCode::Ok))
            }
            Command::Open {} => {
                self.closed = false;
                Ok(refused(ResultCode::Ok))
            }
            Command::CreateResource { resources } => {
                for (index, new) in resources.iter().enumerate() {
                    let twice = resources[..index].iter().any(|other| other.resource_id == new.resource_id);
                    if twice || self.resources.contains_key(&new.resource_id) {
                        return Err(refused_at(ResultCode::AlreadyExists, new.resource_id));
                    }
                }
                if (self.resources.len() + resources.len()) as u64 > self.config.resources_max {
                    return Err(refused(ResultCode::ResourceTableFull));
                }
                for new in resources {
                    let resource = ModelResource {
                        state: ResourceState::Available,
                        lease: None,
                        version: 1,
                        labels: new.labels.clone(),
                        free_since: (self.lsn.get(), new.resource_id),
                    };
                    self.resources.insert(new.resource_id, resource);
                }
                Ok(refused(ResultCode::Ok))
            }
            Command::Reserve { resource_id, holder_id, ttl_slots } => {
                self.not_overtaking(&[*resource_id])?;
                self.reserve(&[*resource_id], holder_id.unwrap(), *ttl_slots)
            }
            Command::ReserveBundle { resource_ids, holder_id, ttl_slots } => {
                self.terms(resource_ids.len(), *ttl_slots)?;
                self.not_overtaking(resource_ids)?;
                self.reserve(resource_ids, holder_id.unwrap(), *ttl_slots)
            }
            Command::ReserveAny { label, count, holder_id, ttl_slots } => {
                self.terms(*count as usize, *ttl_slots)?;
                if !self.queue.is_empty() {
                    return Err(refused(ResultCode::ResourceBusy));
                }
                let ids = self.choose(label, *count).map_err(refused)?;
                self.reserve(&ids, holder_id.unwrap(), *ttl_slots)
            }
            Command::EnqueueReserve { label, count, holder_id, ttl_slots, .. } => {
                self.terms(*count as usize, *ttl_slots)?;
                if u64::from(*count) > self.config.members_max {
                    return Err(refused(ResultCode::BundleTooLarge));
                }
                self.history_end()?;
                if self.labelled(label).count() < *count as usize {
                    return Err(refused(ResultCode::ResourceNotFound));
                }
                if self.queue.len() as u64 >= self.config.queue_max {
                    return Err(refused(ResultCode::QueueFull));
                }
                let (ticket, holder) = (LeaseId::new(SHARD, self.lsn), holder_id.unwrap());
                let (label, count, ttl) = (label.clone(), *count, *ttl_slots);
                self.queue.push_back(Waiting { ticket, holder, label, count, ttl });
                Ok(Answer { ticket: Some(ticket), ..refused(ResultCode::Ok) })
            }
            Command::CancelEnqueue { ticket, holder_id } => self.cancel(*ticket, holder_id.unwrap()),
            Command::Activate { lease_id, holder_id, lease_epoch } => {
                let lease = self.held(*lease_id, holder_id.unwrap(), *lease_epoch)?;
                match lease.state {
                    LeaseState::Reserved => Ok(self.to(*lease_id, LeaseState::Active)),
                    _ => Err(refused(ResultCode::InvalidState)),
                }
            }
            Command::Release { lease_id, holder_id, lease_epoch } => {
                let lease = self.held(*lease_id, holder_id.unwrap(), *lease_epoch)?;
                match lease.state {
                    LeaseState::Reserved | LeaseState::Active => self.end(*lease_id, LeaseState::Released),
                    _ => Err(refused(ResultCode::InvalidState)),
                }
            }
            Command::Evidence { lease_id, .. } => match self.answering(*lease_id)?.state {
                LeaseState::Active => {
                    let kept = self.evidence.entry(*lease_id).or_insert(0);
                    let is_kept = *kept < mundi_model::limits::POOL_EVIDENCE_MAX;
                    *kept += usize::from(is_kept);
                    Ok(refused(if is_kept { ResultCode::Ok } else { ResultCode::Noop }))
                }
                state if state.is_terminal() => Err(refused(ResultCode::LeaseRetired)),
                _ => Err(refused(ResultCode::InvalidState)),
            },
            Command::Revoke { lease_id, .. } => match self.answering(*lease_id)?.state {
                LeaseState::Active => Ok(self.to(*lease_id, LeaseState::Revoking)),
                state if state.is_terminal() => Err(refused(ResultCode::LeaseRetired)),
                _ => Err(refused(ResultCode::InvalidState)),
            },
            Command::Reclaim { lease_id } => match self.answering(*lease_id)?.state {
                LeaseState::Revoking => self.end(*lease_id, LeaseState::Revoked),
                state if state.is_terminal() => Err(refused(ResultCode::LeaseRetired)),
                _ => Err(refused(ResultCode::InvalidState)),
            },
        }
    }

    fn cancel(&mut self, ticket: LeaseId, holder: HolderId) -> Result<Answer, Answer> {
        if let Some(at) = self.queue.iter().position(|waiting| waiting.ticket == ticket) {
            if self.queue[at].holder != holder {
                return Err(refused(ResultCode::HolderMismatch));
            }
            let until = self.history_end()?;
            self.queue.remove(at);
            self.end_ticket(ticket, holder, until);
            return Ok(Answer { ticket: Some(ticket), ..refused(ResultCode::Ok) });
        }
        match self.ended_tickets.get(&ticket) {
            Some((_, until)) if *until <= self.slot => Err(refused(ResultCode::TicketNotFound)),
            Some((of, _)) if *of != holder => Err(refused(ResultCode::HolderMismatch)),
            Some(_) => Err(refused(ResultCode::InvalidState)),
            None => Err(refused(ResultCode::TicketNotFound)),
        }
    }

    fn history_end(&self) -> Result<u64, Answer> {
        self.slot.checked_add(self.config.history_slots).ok_or_else(|| refused(ResultCode::SlotOverflow))
    }

    fn end_ticket(&mut self, ticket: LeaseId, holder: HolderId, until: u64) {
        self.ended_tickets.insert(ticket, (holder, until));
        self.endings.insert((until, Ending::Ticket(ticket)));
    }

    fn terms(&self, members: usize, ttl: u64) -> Result<u64, Answer> {
        if members == 0 || members as u64 > self.config.bundle_max {
            return Err(refused(ResultCode::BundleTooLarge));
        }
        if ttl == 0 || ttl > self.config.ttl_slots_max {
            return Err(refused(ResultCode::TtlOutOfRange));
        }
        self.slot.checked_add(ttl).ok_or_else(|| refused(ResultCode::SlotOverflow))
    }

    fn labelled<'a>(&'a self, label: &'a str) -> impl Iterator<Item = &'a ModelResource> {
        self.resources.values().filter(move |it| label.is_empty() || it.labels.iter().any(|other| other == label))
    }

    fn choose(&self, label: &str, count: u32) -> Result<Vec<ResourceId>, ResultCode> {
        if self.labelled(label).count() < count as usize {
            return Err(ResultCode::ResourceNotFound);
        }
        let free = self.labelled(label).filter(|it| it.state == ResourceState::Available);
        let mut free: Vec<_> = free.map(|it| it.free_since).collect();
        free.sort();
        if free.len() < count as usize {
            return Err(ResultCode::ResourceBusy);
        }
        Ok(free.into_iter().take(count as usize).map(|(_, id)| id).collect())
    }

    fn not_overtaking(&self, ids: &[ResourceId]) -> Result<(), Answer> {
        let Some(first) = self.queue.front() else { return Ok(()) };
        for id in ids {
            let waits_for = |it: &ModelResource| first.label.is_empty() || it.labels.contains(&first.label);
            if self.resources.get(id).is_some_and(waits_for) {
                return Err(refused_at(ResultCode::ResourceBusy, *id));
            }
        }
        Ok(())
    }

    fn reserve(&mut self, ids: &[ResourceId], holder: HolderId, ttl: u64) -> Result<Answer, Answer> {
        let deadline = self.terms(ids.len(), ttl)?;
        for (index, id) in ids.iter().enumerate() {
            let Some(resource) = self.resources.get(id) else {
                return Err(refused_at(ResultCode::ResourceNotFound, *id));
            };
            if resource.state != ResourceState::Available || ids[..index].contains(id) {
                return Err(refused_at(ResultCode::ResourceBusy, *id));
            }
        }
        let members: usize = self.leases.values().map(|lease| lease.members.len()).sum();
        let reserved = self.leases.values().filter(|lease| lease.is_expiring()).count();
        if self.leases.len() as u64 >= self.config.leases_max {
            return Err(refused(ResultCode::LeaseTableFull));
        }
        if (members + ids.len()) as u64 > self.config.members_max {
            return Err(refused(ResultCode::LeaseMemberTableFull));
        }
        if reserved as u64 >= self.config.expirations_max {
            return Err(refused(ResultCode::ExpirationIndexFull));
        }
        let id = LeaseId::new(SHARD, self.lsn);
        let (state, members) = (LeaseState::Reserved, ids.to_vec());
        let (released, retire_after) = (Height::GENESIS, None);
        let lease = ModelLease { holder, state, epoch: 1, deadline, expires: true, released, retire_after, members };
        self.made_lease = true;
        self.leases.insert(id, lease);
        self.set_members(id);
        Ok(Answer { lease: Some((id, 1)), resources: ids.to_vec(), ..refused(ResultCode::Ok) })
    }

    fn set_members(&mut self, id: LeaseId) {
        let lease = self.leases[&id].clone();
        for member in &lease.members {
            let resource = self.resources.get_mut(member).unwrap();
            resource.version += 1;
            let state = match lease.state {
                LeaseState::Reserved => ResourceState::Reserved,
                LeaseState::Active => ResourceState::Active,
                LeaseState::Revoking => ResourceState::Revoking,
                _ => ResourceState::Available,
            };
            resource.lease = Some(id).filter(|_| state != ResourceState::Available);
            if state == ResourceState::Available {
                resource.free_since = (self.lsn.get(), *member);
            }
            resource.state = state;
        }
    }

    fn answering(&self, id: LeaseId) -> Result<ModelLease, Answer> {
        match self.leases.get(&id) {
            Some(lease) if lease.retire_after.is_some_and(|after| after <= self.slot) => {
                Err(refused(ResultCode::LeaseRetired))
            }
            Some(lease) => Ok(lease.clone()),
            None if id.shard() == SHARD && (1..=self.watermark).contains(&id.lsn().get()) => {
                Err(refused(ResultCode::LeaseRetired))
            }
            None => Err(refused(ResultCode::LeaseNotFound)),
        }
    }

    fn held(&self, id: LeaseId, holder: HolderId, epoch: u64) -> Result<ModelLease, Answer> {
        let lease = self.answering(id)?;
        let refusal = match lease {
            ref lease if lease.holder != holder => ResultCode::HolderMismatch,
            ref lease if lease.epoch != epoch => ResultCode::StaleEpoch,
            ref lease if lease.state.is_terminal() => ResultCode::LeaseRetired,
            lease => return Ok(lease),
        };
        Err(refused(refusal))
    }

    fn to(&mut self, id: LeaseId, state: LeaseState) -> Answer {
        let lease = self.leases.get_mut(&id).unwrap();
        (lease.state, lease.deadline) = (state, 0);
        lease.epoch += u64::from(!matches!(state, LeaseState::Active | LeaseState::Revoked));
        let epoch = lease.epoch;
        self.set_members(id);
        Answer { lease: Some((id, epoch)), ..refused(ResultCode::Ok) }
    }

    fn end(&mut self, id: LeaseId, state: LeaseState) -> Result<Answer, Answer> {
        let until = self.history_end()?;
        let lease = self.leases.get_mut(&id).unwrap();
        (lease.released, lease.retire_after) = (self.lsn, Some(until));
        self.endings.insert((until, Ending::Lease(id)));
        Ok(self.to(id, state))
    }

    /// One lease per record: the first in the queue, if the record made none.
    fn grant(&mut self) {
        let Some(first) = self.queue.front().cloned().filter(|_| !self.made_lease) else { return };
        let granted = self.history_end().and_then(|until| {
            let ids = self.choose(&first.label, first.count).map_err(refused)?;
            self.reserve(&ids, first.holder, first.ttl).map(|_| until)
        });
        let until = match granted {
            Ok(until) => until,
            Err(refusal) if refusal.result == ResultCode::SlotOverflow => u64::MAX,
            Err(_) => return,
        };
        self.queue.pop_front();
        self.end_ticket(first.ticket, first.holder, until);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }
}

fn refused(result: ResultCode) -> Answer {
    Answer { result, lease: None, resources: Vec::new(), ticket: None }
}

fn refused_at(result: ResultCode, resource: ResourceId) -> Answer {
    Answer { resources: vec![resource], ..refused(result) }
}
