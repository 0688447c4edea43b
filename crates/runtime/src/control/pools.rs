//! Pools: worlds that lease resources, one or several behind one name.
//!
//! A pool is what stands in the list of pools; its worlds are found by their names. A command is a call of the world that has the
//! resource or the lease.

use super::Ops;
use crate::{Plane, RuntimeError, lifecycle, manifests::load_manifest, world::is_pool};
use mundi_kernel::lease_kernel::{
    command::{COMMAND, Command, Request},
    config::PoolConfig,
    result::{Outcome, ResultCode},
};
use mundi_model::{
    Code, Hash, Height, Kind, Value, WorldId, WorldName, cbor, json, limits,
    pool::{ClientId, LeaseId, OperationId, ResourceId},
    record::{InboxItem, Input, Origin, Payload, ReplyOutcome},
};
use mundi_store::{
    protocol::{CreatePool, DeletePool, FindPool, ListPools, PoolCreated, PoolError, PoolOfWorld, shard_name},
    values::PoolRecord,
};
use std::time::Duration;

/// The client in whose name pools are made and deleted.
const OPERATOR: &str = "mundi.operator";

/// How long a command of an operator is waited for.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(30);

/// A pool of the universe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub name: WorldName,
    pub record: PoolRecord,
}

/// The shard that a resource lies in, for ever: by a hash that is the same on every machine and in every release.
pub fn shard_of(resource: ResourceId, shards: u64) -> u64 {
    let hash = Hash::of_parts([b"mundi.pool.shard.1\0", &resource.as_bytes()[..]]);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_be_bytes(bytes) % shards.max(1)
}

impl Pool {
    /// The shard of a lease, if the pool has it.
    pub fn shard_of_lease(&self, lease: LeaseId) -> Option<u64> {
        Some(lease.shard()).filter(|shard| *shard < self.record.shards)
    }
}

impl<P: Plane> Ops<P> {
    /// Creates a pool, or finishes that. Asked again for the same one, it answers the same.
    pub async fn pool_create(
        &self,
        name: WorldName,
        (shards, config): (u64, PoolConfig),
        manifest: Hash,
    ) -> Result<PoolCreated, RuntimeError> {
        if shards == 0 || shards > limits::POOL_SHARDS_MAX {
            let reason = format!("a pool has 1 to {} shards", limits::POOL_SHARDS_MAX);
            return Err(RuntimeError::CommandFailed { code: Code::RequestInvalid, reason });
        }
        let invalid = |reason| RuntimeError::CommandFailed { code: Code::RequestInvalid, reason };
        config.check().map_err(|error| invalid(error.to_string()))?;
        let written = serde_json::to_value(config).map_err(|error| invalid(error.to_string()))?;
        let record =
            PoolRecord { created_at_ns: self.plane.now_ns(), shards, manifest, config: json::to_canonical(&written) };
        let created = self.plane.run(&CreatePool { universe: self.universe, name: name.clone(), record }).await?.output;
        for shard in 0..shards {
            let name = shard_name(&name, shard).map_err(mundi_store::StoreError::from)?;
            let world = name.world(self.universe);
            self.world_create(mundi_model::WorldAddress::Name(name), manifest, created.record.created_at_ns).await?;
            let configured = self.operate(world, "configure", Command::Configure { shard, config }).await?;
            if let Some(code) = configured.result.error() {
                let reason = format!("{world} is a pool already, with another configuration");
                return Err(RuntimeError::CommandFailed { code, reason });
            }
        }
        Ok(created)
    }

    pub async fn pools(&self) -> Result<Vec<(String, PoolRecord)>, RuntimeError> {
        Ok(self.plane.run(&ListPools { universe: self.universe }).await?.output)
    }

    pub async fn pool(&self, name: &WorldName) -> Result<Pool, RuntimeError> {
        let record = self.plane.run(&FindPool { universe: self.universe, name: name.clone() }).await?.output;
        Ok(Pool { name: name.clone(), record })
    }

    /// The world of a shard.
    pub fn pool_world(&self, pool: &Pool, shard: u64) -> Result<WorldId, RuntimeError> {
        let name = shard_name(&pool.name, shard).map_err(mundi_store::StoreError::from)?;
        Ok(name.world(self.universe))
    }

    /// Deletes a pool that has no live lease and whose queue is empty, or finishes that. Each world refuses reservations before it is
    /// deleted. If that cannot be finished, those that are left go on.
    pub async fn pool_delete(&self, name: &WorldName) -> Result<(), RuntimeError> {
        let pool = self.pool(name).await?;
        if let Err(error) = self.delete_shards(&pool).await {
            for shard in 0..pool.record.shards {
                let opened = self.open_shard(self.pool_world(&pool, shard)?).await;
                if let Err(error) = opened {
                    tracing::warn!(%error, pool = %name, shard, "a shard stays closed: delete the pool again");
                }
            }
            return Err(error);
        }
        self.plane.run(&DeletePool { universe: self.universe, name: name.clone() }).await?;
        Ok(())
    }

    /// All are closed before the first one is deleted.
    async fn delete_shards(&self, pool: &Pool) -> Result<(), RuntimeError> {
        let worlds = (0..pool.record.shards).map(|shard| self.pool_world(pool, shard));
        let worlds = worlds.collect::<Result<Vec<_>, _>>()?;
        for world in &worlds {
            self.close_shard(*world, &pool.name).await?;
        }
        for world in worlds {
            lifecycle::delete(&self.plane, self.universe, world).await.or_else(unless_gone)?;
        }
        Ok(())
    }

    /// The pool that a world is a shard of.
    pub(super) async fn pool_of_world(&self, world: WorldId) -> Result<Option<WorldName>, RuntimeError> {
        Ok(self.plane.run(&PoolOfWorld { universe: self.universe, world }).await?.output)
    }

    /// Runs what takes a world out of service. The world of a pool takes no reservations from before that, and is refused while it has live
    /// leases or someone waits. If it stays in service after all, it takes reservations again.
    pub(super) async fn taken_out<T>(
        &self,
        world: WorldId,
        taking: impl Future<Output = Result<T, RuntimeError>> + Send,
    ) -> Result<T, RuntimeError> {
        let Some(pool) = self.pool_of_world(world).await? else { return taking.await };
        let (taken, is_closed) = match self.close_shard(world, &pool).await {
            Ok(()) => (taking.await, true),
            // Without an answer, the command may still be carried out.
            Err(error) => {
                let is_closed = mundi_model::Coded::code(&error).kind() == Kind::Unavailable;
                (Err(error), is_closed)
            }
        };
        if is_closed && taken.is_err() {
            self.open_shard(world).await.unwrap_or_else(|error| {
                tracing::warn!(%error, %pool, %world, "a shard stays closed: repeat what was refused");
            });
        }
        taken
    }

    /// From here on it takes no reservations. One that is gone or archived was closed before.
    async fn close_shard(&self, world: WorldId, pool: &WorldName) -> Result<(), RuntimeError> {
        let closed = self.operate(world, "close", Command::Close {}).await;
        match closed.map(Some).or_else(unless_out_of_service)? {
            Some(closed) if closed.result != ResultCode::Ok => {
                Err(mundi_store::StoreError::from(PoolError::InUse(pool.to_string())).into())
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn open_shard(&self, world: WorldId) -> Result<(), RuntimeError> {
        self.operate(world, "open", Command::Open {}).await.map(drop).or_else(unless_out_of_service)
    }

    /// The world of a pool runs no other program: its leases would be lost.
    pub(super) async fn check_runs_pools(&self, world: WorldId, manifest: Hash) -> Result<(), RuntimeError> {
        let Some(pool) = self.pool_of_world(world).await? else { return Ok(()) };
        let compiled = load_manifest(&self.plane, (self.universe, world), manifest).await?;
        match is_pool(&compiled) {
            true => Ok(()),
            false => Err(mundi_store::StoreError::from(PoolError::RunsItsProgram(pool.to_string())).into()),
        }
    }

    /// A command of the operator: a new one each time.
    async fn operate(&self, world: WorldId, verb: &str, command: Command) -> Result<Outcome, RuntimeError> {
        let random: [u8; 16] = self.plane.random();
        let operation_id = Some(OperationId::of_name(&format!("{verb}/{}", mundi_model::hex(&random))));
        let request = Request { operation_id, client_id: Some(ClientId::of_name(OPERATOR)), command };
        self.pool_command(world, &request, OPERATOR_TIMEOUT).await
    }

    /// Sends a command to the world of a shard and waits for its result. An error whose kind is `unavailable` says nothing about whether it
    /// was carried out: the same request may be sent again.
    pub async fn pool_command(
        &self,
        world: WorldId,
        request: &Request,
        timeout: Duration,
    ) -> Result<Outcome, RuntimeError> {
        let value = Payload::Inline(cbor::encode(&request.to_value()));
        let input = Input::Event { schema: COMMAND.to_owned(), value, key: None };
        let item = InboxItem { input, origin: Origin::new(self.plane.now_ns()) };
        let unreadable = |reason: String| RuntimeError::CommandFailed { code: Code::CborMalformed, reason };
        match self.call(world, item, None, timeout).await? {
            ReplyOutcome::Ok(Payload::Inline(bytes)) => {
                let value: Value = cbor::decode(&bytes).map_err(|error| unreadable(error.to_string()))?;
                let json = value.to_json().map_err(|error| unreadable(error.to_string()))?;
                serde_json::from_value(json).map_err(|error| unreadable(error.to_string()))
            }
            ReplyOutcome::Ok(Payload::Blob(..)) => Err(unreadable("a result is never that large".to_owned())),
            ReplyOutcome::Failed(code, reason, _) => {
                let code = Code::from_name(&code).unwrap_or(Code::ProgramFailed);
                Err(RuntimeError::CommandFailed { code, reason })
            }
        }
    }

    /// Asks the world of a shard, once it has applied the command at `at_least`, if one is named.
    pub async fn pool_query(
        &self,
        world: WorldId,
        (name, params): (&str, serde_json::Value),
        at_least: Option<Height>,
    ) -> Result<serde_json::Value, RuntimeError> {
        if let Some(lsn) = at_least {
            self.wait_until_applied(world, lsn).await?;
        }
        let answer = self.world_query(world, name, &cbor::encode(&Value::from(params)), None).await?;
        let unreadable = |reason: String| RuntimeError::CommandFailed { code: Code::CborMalformed, reason };
        let value: Value = cbor::decode(&answer).map_err(|error| unreadable(error.to_string()))?;
        value.to_json().map_err(|error| unreadable(error.to_string()))
    }

    /// Returns once the record at this height is in the journal.
    async fn wait_until_applied(&self, world: WorldId, lsn: Height) -> Result<(), RuntimeError> {
        loop {
            let head = self.seen_head(world).await?;
            match &head.position {
                Some(position) if position.head.height > lsn => return Ok(()),
                Some(_) => {}
                None => drop(self.describe_world(world).await?), // says that there is none
            }
            self.head_changed(world, head).await?;
        }
    }
}

/// As [`unless_gone`], or it is archived.
fn unless_out_of_service<T: Default>(error: RuntimeError) -> Result<T, RuntimeError> {
    match mundi_model::Coded::code(&error) {
        Code::WorldArchived => Ok(T::default()),
        _ => unless_gone(error),
    }
}

/// An earlier attempt to delete a world got so far, or its creation never did.
fn unless_gone<T: Default>(error: RuntimeError) -> Result<T, RuntimeError> {
    match mundi_model::Coded::code(&error) {
        Code::WorldDeleted | Code::WorldNotFound => Ok(T::default()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the resources of a pool lie is stored nowhere: another hash would look for them in other shards.
    #[test]
    fn the_shard_of_a_resource_never_changes() {
        let bytes = |n: u128| ResourceId::from_bytes(n.to_be_bytes());
        let pinned = [
            (ResourceId::of_name("gpu-0"), [0, 0, 1, 6, 62]),
            (ResourceId::of_name("gpu-1"), [0, 1, 1, 7, 31]),
            (ResourceId::of_name("gpu-2"), [0, 1, 2, 7, 15]),
            (ResourceId::of_name("b-7"), [0, 0, 0, 2, 50]),
            (bytes(0), [0, 1, 2, 1, 57]),
            (bytes(1), [0, 0, 2, 6, 54]),
            (bytes(u128::MAX), [0, 1, 0, 5, 13]),
        ];
        for (resource, shards) in pinned {
            assert_eq!([1, 2, 3, 8, 64].map(|count| shard_of(resource, count)), shards, "{resource}");
        }
        assert_eq!(ResourceId::of_name("gpu-0").to_string(), "r_2jhsdyqc76ep8z59gbmgcbwpad");
    }
}
