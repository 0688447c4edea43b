//! Effects under leases: none begins unless its world holds the lease at that moment, under the epoch that it names; none that may begin is refused
//! as stale, and nothing is carried out that did not begin.
//!
//! An effect begins with the commit that claims it. The holder at that moment is read from the keys of authority, which
//! [`pools`](super::pools) compares with the answers of the pool.

use crate::{
    leased_effects::{Attempts, WORK},
    log::{Commit, Write},
    pools::LeasedTally,
};
use bytes::Bytes;
use mundi_model::{
    Code, IntentHash, Value, WorldId, cbor,
    pool::{LeaseAuthority, LeaseId},
    record::{InboxItem, Input, Payload, Receipt},
};
use mundi_store::keyspace::{
    Family, Parts,
    effect_inflight::EffectInflight,
    effect_pending::{EffectItem, EffectLease},
};
use std::collections::{BTreeMap, BTreeSet};

/// The effects that began and those that were refused, if every promise was kept for the pool of this world.
pub(crate) fn check(pool: WorldId, commits: &[Commit], carried_out: &Attempts) -> Result<LeasedTally, String> {
    let mut followed = Followed::default();
    for (number, commit) in commits.iter().enumerate() {
        // A commit that claims effects changes no authority.
        commit
            .writes
            .iter()
            .try_for_each(|write| followed.write(pool, write))
            .map_err(|why| format!("{why} ({}, commit {number})", commit.protocol))?;
    }
    match carried_out.difference(&followed.begun).next() {
        Some((intent, _)) => Err(format!("the effect {intent} was carried out, and never began")),
        None => Ok(followed.tally),
    }
}

#[derive(Default)]
struct Followed {
    authorities: BTreeMap<LeaseId, LeaseAuthority>,
    /// The leases that effects named when they were published, with the worlds that asked.
    published: BTreeMap<IntentHash, (WorldId, EffectLease)>,
    /// The tokens of the claims that are open, by their keys.
    claims: BTreeMap<Bytes, [u8; 16]>,
    begun: Attempts,
    /// Effects that began at least once.
    tried: BTreeSet<IntentHash>,
    tally: LeasedTally,
}

fn decoded<V: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>>(value: &[u8]) -> Result<V, String> {
    cbor::decode(value).map_err(|error| error.to_string())
}

impl Followed {
    fn write(&mut self, pool: WorldId, write: &Write) -> Result<(), String> {
        let Some(parts) = Parts::of(write.key()) else { return Ok(()) };
        match (parts.family, write) {
            (Family::LeaseAuthority, write) if parts.world == Some(pool) => {
                let lease = LeaseId::from_bytes(parts.rest.try_into().map_err(|_| "the key of no lease")?);
                match write {
                    Write::Put(_, value) => drop(self.authorities.insert(lease, decoded(value)?)),
                    _ => drop(self.authorities.remove(&lease)),
                }
                Ok(())
            }
            (Family::EffectPending, Write::Put(_, value)) => {
                let item: EffectItem = decoded(value)?;
                self.published.extend(item.lease.map(|lease| (item.intent, (item.world, lease))));
                Ok(())
            }
            (Family::EffectInflight, Write::Put(key, value)) => self.claim(key, decoded(value)?),
            (Family::EffectInflight, write) => {
                self.claims.remove(write.key());
                Ok(())
            }
            (Family::InboxEntry, Write::Put(_, value)) => match decoded(value)? {
                InboxItem { input: Input::Receipt(receipt), .. } if is_stale(&receipt) => self.refused(&receipt),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn is_held(&self, world: WorldId, lease: &EffectLease) -> bool {
        let authority = LeaseAuthority { epoch: lease.lease_epoch, holder: world.into() };
        self.authorities.get(&lease.lease_id) == Some(&authority)
    }

    fn claim(&mut self, key: &Bytes, EffectInflight { claim, item, .. }: EffectInflight) -> Result<(), String> {
        let is_extended = self.claims.insert(key.clone(), claim.token) == Some(claim.token);
        if item.kind != WORK || is_extended {
            return Ok(());
        }
        let Some(lease) = &item.lease else {
            return Err(format!("the effect {} began without its lease", item.intent));
        };
        if !self.is_held(item.world, lease) {
            let held = self.authorities.get(&lease.lease_id);
            return Err(format!(
                "attempt {} at {} of {} began under {} with epoch {}, and the authority is {held:?}",
                claim.attempt, item.intent, item.world, lease.lease_id, lease.lease_epoch
            ));
        }
        self.begun.insert((item.intent, claim.token));
        self.tried.insert(item.intent);
        self.tally.begun += 1;
        Ok(())
    }

    fn refused(&mut self, receipt: &Receipt) -> Result<(), String> {
        let Some((world, lease)) = self.published.get(&receipt.intent) else {
            return Err(format!("{} is stale, and named no lease", receipt.intent));
        };
        if self.is_held(*world, lease) {
            return Err(format!("{} was refused as stale while {world} held {}", receipt.intent, lease.lease_id));
        }
        self.tally.refused += 1;
        self.tally.refused_later += u64::from(self.tried.contains(&receipt.intent));
        Ok(())
    }
}

fn is_stale(receipt: &Receipt) -> bool {
    let Payload::Inline(bytes) = &receipt.payload else { return false };
    let stale = Value::Text(Code::StaleEpoch.to_string());
    let said = || cbor::decode::<Value>(bytes).ok();
    receipt.kind == WORK && matches!(said(), Some(Value::Map(fields)) if fields.get("code") == Some(&stale))
}
