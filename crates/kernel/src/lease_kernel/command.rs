//! Commands, in the envelope in which they arrive.

use super::config::PoolConfig;
use mundi_model::{
    Hash, Value, WorldId, cbor, limits,
    pool::{ClientId, HolderId, LeaseId, OperationId, ResourceId},
    watch::EvidenceKind,
};
use serde::{Deserialize, Serialize};

/// The event that carries a command to a pool.
pub const COMMAND: &str = "pool.command";

/// A command as it arrives. The slot of the request is set by the pool when it appends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Absent for a world, whose messages arrive once each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<OperationId>,
    /// Absent for a world: it is its own client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<ClientId>,
    pub command: Command,
}

/// The commands of a pool. The holder of a command that a world sends is that world, and may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Makes a world a pool.
    Configure {
        shard: u64,
        config: PoolConfig,
    },
    /// All of them, or none.
    CreateResource {
        resources: Vec<NewResource>,
    },
    /// A bundle of one.
    Reserve {
        resource_id: ResourceId,
        #[serde(default)]
        holder_id: Option<HolderId>,
        ttl_slots: u64,
    },
    ReserveBundle {
        resource_ids: Vec<ResourceId>,
        #[serde(default)]
        holder_id: Option<HolderId>,
        ttl_slots: u64,
    },
    /// So many available resources that have a label; any, without one.
    ReserveAny {
        #[serde(default)]
        label: String,
        count: u32,
        #[serde(default)]
        holder_id: Option<HolderId>,
        ttl_slots: u64,
    },
    /// The same, as soon as it is the caller's turn. With `wait` the call is answered when the lease is there.
    EnqueueReserve {
        #[serde(default)]
        label: String,
        count: u32,
        #[serde(default)]
        holder_id: Option<HolderId>,
        ttl_slots: u64,
        #[serde(default)]
        wait: bool,
    },
    CancelEnqueue {
        ticket: LeaseId,
        #[serde(default)]
        holder_id: Option<HolderId>,
    },
    Activate {
        lease_id: LeaseId,
        #[serde(default)]
        holder_id: Option<HolderId>,
        lease_epoch: u64,
    },
    Release {
        lease_id: LeaseId,
        #[serde(default)]
        holder_id: Option<HolderId>,
        lease_epoch: u64,
    },
    /// An observation by a watcher of the holder of an active lease. By itself it changes nothing.
    Evidence {
        lease_id: LeaseId,
        kind: EvidenceKind,
        #[serde(default)]
        detail: String,
    },
    Revoke {
        lease_id: LeaseId,
        /// A watcher reclaims it so long after it saw the revoke; absent, someone else does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reclaim_after_ms: Option<u64>,
    },
    Reclaim {
        lease_id: LeaseId,
    },
    /// Takes no more reservations, if nothing is leased and nobody waits: before a pool is deleted.
    Close {},
    /// Takes reservations again.
    Open {},
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewResource {
    pub resource_id: ResourceId,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// Why a request cannot be taken for a command. Nothing is changed by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestInvalid {
    #[error("the request is no command of a pool: {0}")]
    Malformed(String),
    #[error("the command needs `{0}`")]
    Missing(&'static str),
    #[error("{0}")]
    Bounds(String),
    /// Only for whoever administers the pool.
    #[error("a world may not send this command")]
    NotForWorlds,
}

impl Request {
    /// The value of the event that carries it.
    pub fn to_value(&self) -> Value {
        // A number that JSON cannot hold does not occur: all are of 64 bits.
        serde_json::to_value(self).map_or(Value::Null, Value::from)
    }

    /// The request, and the fingerprint of its command.
    pub(super) fn read(value: &[u8]) -> Result<(Self, Hash), RequestInvalid> {
        let malformed = |why: String| RequestInvalid::Malformed(why);
        let value: Value = cbor::decode(value).map_err(|error| malformed(error.to_string()))?;
        let fingerprint = match &value {
            Value::Map(fields) => Hash::of(&cbor::encode(fields.get("command").unwrap_or(&Value::Null))),
            _ => return Err(malformed("it is no object".to_owned())),
        };
        let json = value.to_json().map_err(|error| malformed(error.to_string()))?;
        let request: Self = serde_json::from_value(json).map_err(|error| malformed(error.to_string()))?;
        request.command.check()?;
        Ok((request, fingerprint))
    }
}

impl Command {
    /// A revoke that leaves the reclaim to whoever has evidence.
    pub fn revoke(lease_id: LeaseId) -> Self {
        Self::Revoke { lease_id, reclaim_after_ms: None }
    }

    /// The bounds of what a command carries; those of the pool are checked by the pool.
    pub fn check(&self) -> Result<(), RequestInvalid> {
        let bounds = |why: String| Err(RequestInvalid::Bounds(why));
        match self {
            Self::Configure { config, .. } => config.check().map_err(|error| RequestInvalid::Bounds(error.to_string())),
            Self::CreateResource { resources } => {
                if resources.is_empty() || resources.len() > limits::POOL_CREATE_MAX {
                    return bounds(format!(
                        "{} resources in one command; 1 to {} are allowed",
                        resources.len(),
                        limits::POOL_CREATE_MAX
                    ));
                }
                resources.iter().try_for_each(NewResource::check)
            }
            Self::ReserveAny { label, .. } | Self::EnqueueReserve { label, .. } if !label.is_empty() => {
                check_label(label)
            }
            Self::Evidence { detail, .. } if detail.len() > limits::POOL_EVIDENCE_BYTES_MAX => {
                bounds(format!("evidence has at most {} bytes", limits::POOL_EVIDENCE_BYTES_MAX))
            }
            Self::Revoke { reclaim_after_ms: Some(ms), .. } if *ms > limits::WATCH_MS_MAX => {
                bounds(format!("`reclaim_after_ms` is {ms}; at most {} are allowed", limits::WATCH_MS_MAX))
            }
            _ => Ok(()),
        }
    }

    /// Sets the holder of a command that a world sent, and refuses what a world may not send.
    pub(super) fn sent_by(&mut self, world: WorldId) -> Result<(), RequestInvalid> {
        match self.holder_mut() {
            None => Err(RequestInvalid::NotForWorlds),
            Some(holder) => {
                holder.get_or_insert(world.into());
                Ok(())
            }
        }
    }

    /// The holder that a command names; `None` for commands of operators.
    pub(super) fn holder_mut(&mut self) -> Option<&mut Option<HolderId>> {
        match self {
            Self::Configure { .. }
            | Self::CreateResource { .. }
            | Self::Evidence { .. }
            | Self::Revoke { .. }
            | Self::Reclaim { .. }
            | Self::Close {}
            | Self::Open {} => None,
            Self::Reserve { holder_id, .. }
            | Self::ReserveBundle { holder_id, .. }
            | Self::ReserveAny { holder_id, .. }
            | Self::EnqueueReserve { holder_id, .. }
            | Self::CancelEnqueue { holder_id, .. }
            | Self::Activate { holder_id, .. }
            | Self::Release { holder_id, .. } => Some(holder_id),
        }
    }
}

impl NewResource {
    fn check(&self) -> Result<(), RequestInvalid> {
        if self.labels.len() > limits::POOL_LABELS_MAX {
            return Err(RequestInvalid::Bounds(format!("a resource has at most {} labels", limits::POOL_LABELS_MAX)));
        }
        if self.name.as_ref().is_some_and(|name| name.is_empty() || name.len() > limits::NAME_BYTES_MAX) {
            return Err(RequestInvalid::Bounds(format!("a name has 1 to {} bytes", limits::NAME_BYTES_MAX)));
        }
        let mut sorted = self.labels.clone();
        sorted.sort();
        sorted.dedup();
        if sorted.len() != self.labels.len() {
            return Err(RequestInvalid::Bounds("a label stands there twice".to_owned()));
        }
        self.labels.iter().try_for_each(|label| check_label(label))
    }
}

fn check_label(label: &str) -> Result<(), RequestInvalid> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:=".contains(&byte);
    if label.is_empty() || label.len() > limits::POOL_LABEL_BYTES_MAX || !label.bytes().all(fits) {
        let max = limits::POOL_LABEL_BYTES_MAX;
        return Err(RequestInvalid::Bounds(format!("a label has 1 to {max} letters, digits and -_.:=")));
    }
    Ok(())
}
