//! Commands of holders and operators.

use super::{
    PoolScope,
    forms::{
        CancelForm, CommandResult, EnqueueForm, HolderForm, LeaseForm, OperationHeader, ReserveForm, ResourceForm,
        ResourcesForm, RevokeForm,
    },
    sending::{Answered, Asked, Wish, holder_of, lease_of, resource_of},
};
use crate::api::{
    Problem,
    events::WaitParams,
    extract::{ADMIN, SEND, SEND_ALWAYS},
};
use axum::Json;
use mundi_kernel::lease_kernel::command::{Command, NewResource};
use mundi_model::Code;
use mundi_runtime::control::shard_of;
use std::collections::BTreeMap;

/// Creates resources, all of them or, within each shard, none. They are never removed.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/resources", tag = "pools", params(WaitParams, OperationHeader), request_body = ResourcesForm,
    responses((status = 200, description = "The result of each shard that has some of them", body = Vec<CommandResult>)),
)]
pub(crate) async fn create_resources(
    Asked { sending, form }: Asked<ADMIN, ResourcesForm>,
) -> Result<Json<Vec<CommandResult>>, Problem> {
    let ResourcesForm { resources, .. } = form;
    if resources.is_empty() {
        return Err(Problem::invalid("there is no resource to create").not_sent());
    }
    let mut of_shards: BTreeMap<u64, Vec<NewResource>> = BTreeMap::new();
    for ResourceForm { resource, labels } in resources {
        let resource_id = resource_of(&resource)?;
        let name = Some(resource).filter(|name| *name != resource_id.to_string());
        let shard = shard_of(resource_id, sending.scope.pool.record.shards);
        of_shards.entry(shard).or_default().push(NewResource { resource_id, name, labels });
    }
    let commands = of_shards.into_iter().map(|(shard, resources)| (shard, Command::CreateResource { resources }));
    let commands: Vec<(u64, Command)> = commands.collect();
    for (_, command) in &commands {
        command.check().map_err(|error| Problem::invalid(error.to_string()).with_outcome())?;
    }
    let mut results = Vec::new();
    for (shard, command) in commands {
        let result = sending.run(shard, command).await;
        results.push(result.map_err(|problem| if results.is_empty() { problem } else { problem.in_part() })?.0);
    }
    Ok(Json(results))
}

/// Reserves resources by name, or so many of a label: all of them, or none.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/reserve", tag = "pools", params(WaitParams, OperationHeader), request_body = ReserveForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn reserve(Asked { sending, form }: Asked<SEND, ReserveForm>) -> Answered {
    let ReserveForm { resources, label, count, holder, ttl_slots, .. } = form;
    let holder_id = Some(holder_of(&holder)?);
    let Some(resources) = resources else {
        let (label, count) = (label.unwrap_or_default(), count.unwrap_or(1));
        return sending.any_shard(&Command::ReserveAny { label, count, holder_id, ttl_slots }).await;
    };
    if label.is_some() || count.is_some() {
        return Err(Problem::invalid("name `resources`, or a `label` and a `count`, and not both").with_outcome());
    }
    let resource_ids = resources.iter().map(|text| resource_of(text)).collect::<Result<Vec<_>, _>>()?;
    let shards: Vec<u64> = resource_ids.iter().map(|id| shard_of(*id, sending.scope.pool.record.shards)).collect();
    let shard = shards.first().copied().unwrap_or(0);
    if shards.iter().any(|other| *other != shard) {
        let detail = "a bundle lies in one shard, and these resources lie in several";
        return Err(Problem::new(Code::PoolShardsMixed, detail).with_outcome());
    }
    sending.run(shard, Command::ReserveBundle { resource_ids, holder_id, ttl_slots }).await
}

/// Waits in the pool's queue for resources of a label: first come, first served, all of them or none. Each shard has a queue of its own: of
/// several, the first one that takes the ticket.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/enqueue", tag = "pools", params(WaitParams, OperationHeader), request_body = EnqueueForm,
    responses((status = 200, description = "A ticket; the lease with `wait`, and if one of several shards has the resources at once", body = CommandResult)),
)]
pub(crate) async fn enqueue(Asked { sending, form }: Asked<SEND, EnqueueForm>) -> Answered {
    let EnqueueForm { label, count, holder, ttl_slots, wait, .. } = form;
    let (label, count, holder_id) = (label.unwrap_or_default(), count.unwrap_or(1), Some(holder_of(&holder)?));
    sending.any_queue(Wish { label, count, holder_id, ttl_slots, wait }).await
}

/// Leaves the queue.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/cancel", tag = "pools", params(WaitParams, OperationHeader), request_body = CancelForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn cancel(Asked { sending, form }: Asked<SEND_ALWAYS, CancelForm>) -> Answered {
    let CancelForm { ticket, holder, .. } = form;
    let (ticket, holder_id) = (lease_of(&ticket)?, Some(holder_of(&holder)?));
    sending.of_lease(ticket, Command::CancelEnqueue { ticket, holder_id }).await
}

/// Makes a reserved lease active: from here on its holder has authority, until it releases the lease or someone revokes it.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/activate", tag = "pools", params(WaitParams, OperationHeader), request_body = HolderForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn activate(Asked { sending, form }: Asked<SEND_ALWAYS, HolderForm>) -> Answered {
    let HolderForm { lease_id, lease_epoch, holder, .. } = form;
    let (lease_id, holder_id) = (lease_of(&lease_id)?, Some(holder_of(&holder)?));
    sending.of_lease(lease_id, Command::Activate { lease_id, holder_id, lease_epoch }).await
}

/// Ends a lease that is reserved or active; its resources are available at once.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/release", tag = "pools", params(WaitParams, OperationHeader), request_body = HolderForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn release(Asked { sending, form }: Asked<SEND_ALWAYS, HolderForm>) -> Answered {
    let HolderForm { lease_id, lease_epoch, holder, .. } = form;
    let (lease_id, holder_id) = (lease_of(&lease_id)?, Some(holder_of(&holder)?));
    sending.of_lease(lease_id, Command::Release { lease_id, holder_id, lease_epoch }).await
}

/// Withdraws the authority of a lease's holder. Its resources stay unavailable until `reclaim`.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/revoke", tag = "pools", params(WaitParams, OperationHeader), request_body = RevokeForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn revoke(Asked { sending, form }: Asked<ADMIN, RevokeForm>) -> Answered {
    let RevokeForm { lease_id, reclaim_after_ms, .. } = form;
    let lease_id = lease_of(&lease_id)?;
    let PoolScope { universe, pool, .. } = &sending.scope;
    if reclaim_after_ms.is_some()
        && universe.ops().pool_watch(pool).await.map_err(|error| Problem::from(error).not_sent())?.is_none()
    {
        let detail = "nobody would reclaim the lease: the pool is not watched (`mundi pool watch`)";
        return Err(Problem::invalid(detail).with_outcome());
    }
    sending.of_lease(lease_id, Command::Revoke { lease_id, reclaim_after_ms }).await
}

/// Makes the resources of a revoked lease available again: for whoever has evidence that its holder does not act any more.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/reclaim", tag = "pools", params(WaitParams, OperationHeader), request_body = LeaseForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn reclaim(Asked { sending, form }: Asked<ADMIN, LeaseForm>) -> Answered {
    let LeaseForm { lease_id, .. } = form;
    let lease_id = lease_of(&lease_id)?;
    sending.of_lease(lease_id, Command::Reclaim { lease_id }).await
}
