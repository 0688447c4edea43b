//! Pools: worlds that lease resources. A program reserves, activates and releases by calls to the pool; the host says who calls, so the holder
//! of a lease is the calling world and no other.
//!
//! Each is a [`WorldCall`], so `mundi.json` declares the effect `world.call`. [`Event::pool_result`] reads what the pool
//! answers.
//!
//! [`Event::pool_result`]: crate::Event::pool_result

use crate::{Event, Failure, Value, World, kinds::EffectError, kinds::WorldCall};
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
        let digits = self.lease_id.strip_prefix("l_").filter(|digits| digits.len() == 26).ok_or_else(invalid)?;
        let value = |digit| DIGITS.find(digit).map(|value| value as u128);
        let bits =
            digits.chars().try_fold(0_u128, |bits, digit| Some(bits << 5 | value(digit)?)).ok_or_else(invalid)?;
        Ok(match bits >> 64 {
            0 => self.pool.clone(),
            shard => format!("{}.shard-{shard}", self.pool),
        })
    }

    fn command(&self, name: &str) -> Value {
        json!({ name: { "lease_id": self.lease_id, "lease_epoch": self.lease_epoch } })
    }
}

const DIGITS: &str = "0123456789abcdefghjkmnpqrstvwxyz";

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
    /// Reserves resources of a pool for so many slots, within which the lease must be activated.
    pub fn pool_reserve(&mut self, pool: &str, wish: &Wish, ttl_slots: u64, label: &str) -> Result<(), Failure> {
        self.pool_command(pool, wish.command(ttl_slots), label)
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
