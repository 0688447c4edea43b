//! Pools: worlds that lease resources. A program reserves, activates and releases by calls to the pool; the host says who calls, so the holder
//! of a lease is the calling world and no other.
//!
//! Each is a [`WorldCall`], so `mundi.json` declares the effect `world.call`. [`Event::pool_result`] reads what the pool
//! answers.
//!
//! [`Event::pool_result`]: crate::Event::pool_result

use crate::{Event, Failure, Value, World, kinds::EffectError, kinds::WorldCall, sha256::sha256_128};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A reservation, all or nothing. Resources are named by their ids (`r_…`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    Resource(String),
    Bundle(Vec<String>),
    /// So many that are available now and have a label; any, if it is empty.
    Any {
        label: String,
        count: u32,
    },
    /// The same, answered once it is this caller's turn in the queue of the pool, or the call times out.
    Queued {
        label: String,
        count: u32,
    },
}

impl Wish {
    fn command(&self, ttl_slots: u64) -> Value {
        match self {
            Self::Resource(resource_id) => json!({ "reserve": { "resource_id": resource_id, "ttl_slots": ttl_slots } }),
            Self::Bundle(resource_ids) => {
                json!({ "reserve_bundle": { "resource_ids": resource_ids, "ttl_slots": ttl_slots } })
            }
            Self::Any { label, count } => {
                json!({ "reserve_any": { "label": label, "count": count, "ttl_slots": ttl_slots } })
            }
            Self::Queued { label, count } => {
                json!({ "enqueue_reserve": { "label": label, "count": count, "ttl_slots": ttl_slots, "wait": true } })
            }
        }
    }
}

/// A lease that this world holds: the pool, and the pair that fences it. Keep it in a cell, and name it in effects that use the resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub pool: String,
    /// `l_…`
    pub lease_id: String,
    pub lease_epoch: u64,
}

impl Lease {
    /// The world of the pool that has the lease: its shard stands in the id.
    fn world(&self) -> Result<String, Failure> {
        let invalid = || Failure::new(format!("`{}` is not a lease id", self.lease_id));
        let bits = bits("l_", &self.lease_id).ok_or_else(invalid)?;
        Ok(shard_world(&self.pool, (bits >> 64) as u64))
    }

    fn command(&self, name: &str) -> Value {
        json!({ name: { "lease_id": self.lease_id, "lease_epoch": self.lease_epoch } })
    }
}

const DIGITS: &str = "0123456789abcdefghjkmnpqrstvwxyz";

/// The bits of an id in its text form.
fn bits(prefix: &str, text: &str) -> Option<u128> {
    let digits = text.strip_prefix(prefix).filter(|digits| digits.len() == 26 && digits.as_bytes()[0] < b'8')?;
    digits.chars().try_fold(0_u128, |bits, digit| Some(bits << 5 | DIGITS.find(digit)? as u128))
}

/// The world of a shard of a pool: the first one has the pool's name.
fn shard_world(pool: &str, shard: u64) -> String {
    if shard == 0 { pool.to_owned() } else { format!("{pool}.shard-{shard}") }
}

/// The id (`r_…`) of the resource of this name.
pub fn resource_id(name: &str) -> String {
    let bits = sha256_128(&[b"mundi.pool.resource.1\0", name.as_bytes()]);
    let digit = |place: u32| char::from(DIGITS.as_bytes()[(bits >> (5 * place)) as usize & 31]);
    ["r_".to_owned(), (0..26).rev().map(digit).collect()].concat()
}

/// The shard that a resource lies in, of a pool of so many: by its id (`r_…`) or its name. It is the same for ever, so resources that are
/// reserved together are named, or numbered, so that they lie in one.
pub fn shard_of(resource: &str, shards: u64) -> u64 {
    let id = bits("r_", resource).unwrap_or_else(|| sha256_128(&[b"mundi.pool.resource.1\0", resource.as_bytes()]));
    let hash = sha256_128(&[b"mundi.pool.shard.1\0", &id.to_be_bytes()]);
    ((hash >> 64) as u64) % shards.max(1)
}

/// The answer of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolResult {
    /// `ok`, `noop`, or why nothing was done: `resource_busy`, `stale_epoch`, `holder_mismatch` …
    pub result: String,
    /// The height of the command in the pool's journal.
    pub lsn: u64,
    pub slot: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
    /// After the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_epoch: Option<u64>,
    /// When a reservation ends that is not activated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_slot: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_ids: Vec<String>,
}

impl PoolResult {
    /// Whether it was done, or had been before.
    pub fn is_ok(&self) -> bool {
        ["ok", "noop"].contains(&&*self.result)
    }

    /// The lease that was reserved, activated or released, with its epoch now.
    pub fn lease(&self, pool: &str) -> Option<Lease> {
        let (lease_id, lease_epoch) = (self.lease_id.clone()?, self.lease_epoch?);
        Some(Lease { pool: pool.to_owned(), lease_id, lease_epoch })
    }
}

impl World {
    /// Reserves resources of a pool for so many slots, within which the lease must be activated. Of a pool of several shards, those of the
    /// first one.
    pub fn pool_reserve(&mut self, pool: &str, wish: &Wish, ttl_slots: u64, label: &str) -> Result<(), Failure> {
        self.pool_command(pool, wish.command(ttl_slots), label)
    }

    /// The same in a shard of a pool that has several: that of the resources by [`shard_of`], or any of them.
    ///
    /// [`shard_of`]: crate::pools::shard_of
    pub fn pool_reserve_in(
        &mut self,
        (pool, shard): (&str, u64),
        wish: &Wish,
        ttl_slots: u64,
        label: &str,
    ) -> Result<(), Failure> {
        self.pool_command(&shard_world(pool, shard), wish.command(ttl_slots), label)
    }

    /// Activates a lease that was reserved: from then on it ends only when it is released or revoked.
    pub fn pool_activate(&mut self, lease: &Lease, label: &str) -> Result<(), Failure> {
        self.pool_command(&lease.world()?, lease.command("activate"), label)
    }

    /// Gives a lease back, reserved or active.
    pub fn pool_release(&mut self, lease: &Lease, label: &str) -> Result<(), Failure> {
        self.pool_command(&lease.world()?, lease.command("release"), label)
    }

    fn pool_command(&mut self, world: &str, command: Value, label: &str) -> Result<(), Failure> {
        self.ask(&WorldCall::new(world, "pool.command", &json!({ "command": command }))?, label)
    }
}

impl Event {
    /// The answer of a pool, or the reason that the call had none. A pool that refuses answers: [`PoolResult::is_ok`].
    pub fn pool_result(&self) -> Result<Result<PoolResult, EffectError>, Failure> {
        self.reply()
    }
}
