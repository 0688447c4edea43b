//! Pools: never two live authorities over one resource, never early reuse, never an epoch that came back.
//!
//! Ownership is followed from the commands on record and the answers that were given to them, not from the kernel's own cells: a resource
//! belongs to the lease that was answered with it until a release, an expiry or a reclaim is on record.
//!
//! The keys by which effects begin follow from the same answers: after each commit of the pool's world there is one for each lease that is
//! active by then, with its holder and its epoch, and none else.

use crate::log::{Commit, Write};
use mundi_kernel::lease_kernel::{
    command::{COMMAND, Command, Request},
    config::PoolConfig,
    records::LeaseState,
    result::{Outcome, ResultCode},
};
use mundi_model::{
    Height, InboxSeq, IntentHash, Value, WorldId, cbor,
    pool::{ClientId, LeaseAuthority, LeaseId, OperationId, ResourceId},
    record::{Body, Input, Payload, Record, ReplyOutcome},
};
use mundi_store::keyspace::{Family, Parts, journal_head};
use std::collections::BTreeMap;

struct Followed {
    state: LeaseState,
    epoch: u64,
    deadline_slot: u64,
}

struct Asked {
    height: Height,
    request: Request,
}

#[derive(Default)]
struct Pool {
    asked: BTreeMap<InboxSeq, Asked>,
    answered: BTreeMap<(ClientId, OperationId), Vec<Outcome>>,
    /// The first command that each client sent under an operation id.
    sent: BTreeMap<(ClientId, OperationId), Command>,
    leases: BTreeMap<LeaseId, Followed>,
    owners: BTreeMap<ResourceId, LeaseId>,
    timers: BTreeMap<IntentHash, String>,
    reservations: u64,
    /// The leases that got authority or lost it, by the height of the command.
    authorities: Vec<(Height, LeaseId, Option<LeaseAuthority>)>,
}

/// How many reservations were granted, if every promise was kept by the pool of this world.
pub(crate) fn check(
    records: &[Record],
    config: &PoolConfig,
    world: WorldId,
    commits: &[Commit],
) -> Result<u64, String> {
    let mut pool = Pool::default();
    for record in records {
        pool.read(record, config).map_err(|what| format!("at height {}: {what}", record.height))?;
    }
    check_authorities(&pool.authorities, world, commits)?;
    Ok(pool.reservations)
}

fn check_authorities(
    on_record: &[(Height, LeaseId, Option<LeaseAuthority>)],
    world: WorldId,
    commits: &[Commit],
) -> Result<(), String> {
    let mut on_record = on_record.iter().peekable();
    let (mut expected, mut keys) = (BTreeMap::new(), BTreeMap::new());
    let mut head = Height::GENESIS;
    for write in commits.iter().map(|commit| &commit.writes) {
        for write in write {
            let Some(Parts { family, rest, .. }) = Parts::of(write.key()).filter(|parts| parts.world == Some(world))
            else {
                continue;
            };
            match (family, write) {
                (Family::JournalHead, Write::Put(key, value)) => {
                    head = journal_head::decode(key, value).map_err(|error| error.to_string())?.head.height;
                }
                (Family::LeaseAuthority, write) => {
                    let lease = LeaseId::from_bytes(rest.try_into().map_err(|_| "the key of no lease")?);
                    let authority: Option<LeaseAuthority> = match write {
                        Write::Put(_, value) => Some(cbor::decode(value).map_err(|error| error.to_string())?),
                        _ => None,
                    };
                    set(&mut keys, lease, authority);
                }
                _ => {}
            }
        }
        while let Some((_, lease, authority)) = on_record.next_if(|(height, ..)| *height < head) {
            set(&mut expected, *lease, *authority);
        }
        if keys != expected {
            return Err(format!("below height {head} effects begin under {keys:?}, and active are {expected:?}"));
        }
    }
    Ok(())
}

fn set(all: &mut BTreeMap<LeaseId, LeaseAuthority>, lease: LeaseId, authority: Option<LeaseAuthority>) {
    match authority {
        Some(authority) => drop(all.insert(lease, authority)),
        None => drop(all.remove(&lease)),
    }
}

fn json(bytes: &[u8]) -> Option<serde_json::Value> {
    cbor::decode::<Value>(bytes).ok()?.to_json().ok()
}

impl Pool {
    fn read(&mut self, record: &Record, config: &PoolConfig) -> Result<(), String> {
        match &record.body {
            Body::Ingress(ingress) => match &ingress.item.input {
                Input::Event { schema, value: Payload::Inline(bytes), .. } if schema == COMMAND => {
                    let request = json(bytes).and_then(|json| serde_json::from_value::<Request>(json).ok());
                    let request = request.ok_or("a command that cannot be read")?;
                    if let (Some(client), Some(operation)) = (request.client_id, request.operation_id) {
                        self.sent.entry((client, operation)).or_insert_with(|| request.command.clone());
                    }
                    self.asked.insert(ingress.seq, Asked { height: record.height, request });
                }
                Input::TimerFired { timer, .. } if self.timers.get(timer).is_some_and(|label| label == "expire") => {
                    self.expire(ingress.stamps.logical_now_ns / (config.slot_ms * 1_000_000));
                }
                _ => {}
            },
            Body::Intent(intent) => drop(self.timers.insert(intent.hash, intent.label.clone())),
            Body::Reply(reply) => {
                let ReplyOutcome::Ok(Payload::Inline(bytes)) = &reply.outcome else { return Ok(()) };
                let outcome = json(bytes).and_then(|json| serde_json::from_value(json).ok());
                self.answer(reply.to, &outcome.ok_or("an answer that cannot be read")?)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The pool's timer expires what is due; it never touches what is not reserved.
    fn expire(&mut self, slot: u64) {
        let due = |lease: &Followed| lease.state == LeaseState::Reserved && lease.deadline_slot <= slot;
        let due: Vec<LeaseId> = self.leases.iter().filter(|(_, lease)| due(lease)).map(|(id, _)| *id).collect();
        due.into_iter().for_each(|lease| self.end(lease, LeaseState::Expired));
    }

    fn answer(&mut self, to: InboxSeq, outcome: &Outcome) -> Result<(), String> {
        let Some(Asked { height, request }) = self.asked.get(&to) else { return Ok(()) };
        let (height, command) = (*height, request.command.clone());
        let Some(key) = request.client_id.zip(request.operation_id) else { return Ok(()) };
        if outcome.result == ResultCode::OperationConflict && self.sent.get(&key) == Some(&command) {
            return Err(format!("{} never sent {} with another command, and is told so", key.0, key.1));
        }
        let known = self.answered.entry(key).or_default();
        if outcome.lsn < height {
            // Of an earlier attempt: then it was this client's. A ticket is told again while its lease is answered later.
            let is_ours = known.contains(outcome) || outcome.ticket.is_some() && self.sent.get(&key) == Some(&command);
            return if is_ours { Ok(()) } else { Err(format!("{} is told what another was told: {outcome:?}", key.0)) };
        }
        known.push(outcome.clone());
        if outcome.result != ResultCode::Ok {
            return Ok(());
        }
        self.follow(height, &command, outcome)
    }

    fn follow(&mut self, height: Height, command: &Command, outcome: &Outcome) -> Result<(), String> {
        match command {
            Command::Reserve { .. } | Command::ReserveBundle { .. } | Command::ReserveAny { .. } => {
                self.reserve(outcome)
            }
            Command::EnqueueReserve { .. } if outcome.lease_id.is_some() => self.reserve(outcome),
            Command::Activate { lease_id, lease_epoch, holder_id } => {
                let lease = self.held(*lease_id, *lease_epoch, &[LeaseState::Reserved])?;
                lease.state = LeaseState::Active;
                let holder = holder_id.ok_or("a lease is activated by nobody")?;
                self.authorities.push((height, *lease_id, Some(LeaseAuthority { epoch: *lease_epoch, holder })));
                Ok(())
            }
            Command::Release { lease_id, lease_epoch, .. } => {
                self.held(*lease_id, *lease_epoch, &[LeaseState::Reserved, LeaseState::Active])?;
                self.raise(*lease_id, outcome)?;
                self.authorities.push((height, *lease_id, None));
                self.end(*lease_id, LeaseState::Released);
                Ok(())
            }
            Command::Revoke { lease_id, .. } => {
                self.in_state(*lease_id, &[LeaseState::Active])?.state = LeaseState::Revoking;
                self.authorities.push((height, *lease_id, None));
                self.raise(*lease_id, outcome)
            }
            Command::Reclaim { lease_id } => {
                self.in_state(*lease_id, &[LeaseState::Revoking])?;
                self.end(*lease_id, LeaseState::Revoked);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn reserve(&mut self, outcome: &Outcome) -> Result<(), String> {
        let (Some(id), Some(epoch)) = (outcome.lease_id, outcome.lease_epoch) else {
            return Err("a reservation without a lease".to_owned());
        };
        if id.lsn() != outcome.lsn || self.leases.contains_key(&id) {
            return Err(format!("{id} is not the id of a new lease at {}", outcome.lsn));
        }
        for resource in &outcome.resource_ids {
            if let Some(owner) = self.owners.get(resource) {
                let state = self.leases.get(owner).map(|lease| lease.state);
                return Err(format!("{resource} is given to {id} and belongs to {owner}, which is {state:?}"));
            }
        }
        let deadline_slot = outcome.deadline_slot.unwrap_or(0);
        self.owners.extend(outcome.resource_ids.iter().map(|resource| (*resource, id)));
        self.leases.insert(id, Followed { state: LeaseState::Reserved, epoch, deadline_slot });
        self.reservations += 1;
        Ok(())
    }

    fn in_state(&mut self, id: LeaseId, states: &[LeaseState]) -> Result<&mut Followed, String> {
        let lease = self.leases.get_mut(&id).ok_or_else(|| format!("{id} was never given out"))?;
        match states.contains(&lease.state) {
            true => Ok(lease),
            false => Err(format!("{id} is {:?} and is acted on", lease.state)),
        }
    }

    fn held(&mut self, id: LeaseId, epoch: u64, states: &[LeaseState]) -> Result<&mut Followed, String> {
        let lease = self.in_state(id, states)?;
        match lease.epoch == epoch {
            true => Ok(lease),
            false => Err(format!("{id} has the epoch {}, and one who knows {epoch} acts on it", lease.epoch)),
        }
    }

    /// A command that ends the holder's authority raises the epoch.
    fn raise(&mut self, id: LeaseId, outcome: &Outcome) -> Result<(), String> {
        let Some(lease) = self.leases.get_mut(&id) else { return Ok(()) };
        let epoch = outcome.lease_epoch.unwrap_or(0);
        if epoch <= lease.epoch {
            return Err(format!("the epoch of {id} was {} and is {epoch} although its authority ended", lease.epoch));
        }
        lease.epoch = epoch;
        Ok(())
    }

    fn end(&mut self, id: LeaseId, state: LeaseState) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.state = state;
        self.owners.retain(|_, owner| *owner != id);
    }
}
