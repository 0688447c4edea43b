//! Commands of holders and operators.

use super::{PoolScope, refused};
use crate::{
    api::{
        Problem,
        events::{WaitParams, idempotency_key},
        extract::{ADMIN, JsonBody, Params, SEND},
    },
    quotas::Quota,
};
use axum::Json;
use mundi_engine::Engine;
use mundi_kernel::lease_kernel::{
    command::{Command, NewResource, Request},
    result::{Outcome, ResultCode},
};
use mundi_model::{
    Code, hex, limits,
    pool::{ClientId, HolderId, LeaseId, OperationId, ResourceId},
};
use mundi_runtime::{Plane, control::shard_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What every command may say about itself.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct Sender {
    /// The same for each attempt of one command; the header `Idempotency-Key` if it is left out, and a new one if that is left out, too.
    operation_id: Option<String>,
    /// Tells clients apart that share a token.
    client: Option<String>,
}

/// The result of a command.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommandResult {
    /// `ok`, or `noop` if there was nothing to do.
    result: String,
    /// The height of the command in the journal of its shard. Reads wait for it with `at_least`.
    lsn: u64,
    slot: u64,
    shard: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_id: Option<String>,
    /// With the lease's id the token that each command of its holder carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_epoch: Option<u64>,
    /// From this slot on a lease that is still reserved expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_slot: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_ids: Vec<String>,
    /// A place in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<String>,
    /// Under which it can be sent again.
    operation_id: String,
    /// What became of it is known.
    outcome: &'static str,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourcesForm {
    /// At most 1000.
    resources: Vec<ResourceForm>,
    operation_id: Option<String>,
    client: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceForm {
    /// A name, from which its id follows, or an id (`r_…`).
    resource: String,
    /// At most 8.
    #[serde(default)]
    labels: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveForm {
    /// Names or ids of the resources, which must lie in one shard. Left out, so many of a label are chosen.
    resources: Option<Vec<String>>,
    /// Of the resources that are chosen; any if it is left out.
    label: Option<String>,
    /// How many are chosen: 1 if nothing is said.
    count: Option<u32>,
    /// A name or an id (`holder_…`).
    holder: String,
    /// After so many slots the reservation expires, unless it is activated.
    ttl_slots: u64,
    operation_id: Option<String>,
    client: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnqueueForm {
    /// Of the resources that are chosen; any if it is left out.
    label: Option<String>,
    /// How many: 1 if nothing is said.
    count: Option<u32>,
    holder: String,
    ttl_slots: u64,
    /// Answers when the lease is there, and not at once with a ticket.
    #[serde(default)]
    wait: bool,
    operation_id: Option<String>,
    client: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelForm {
    ticket: String,
    holder: String,
    operation_id: Option<String>,
    client: Option<String>,
}

/// The token of a holder.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HolderForm {
    lease_id: String,
    lease_epoch: u64,
    holder: String,
    operation_id: Option<String>,
    client: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseForm {
    lease_id: String,
    operation_id: Option<String>,
    client: Option<String>,
}

fn lease_of(text: &str) -> Result<LeaseId, Problem> {
    Ok(text.parse()?)
}

/// A name or an id that people wrote.
fn word(text: &str, what: &str) -> Result<(), Problem> {
    if text.is_empty() || text.len() > limits::NAME_BYTES_MAX {
        return Err(Problem::invalid(format!("{what} has 1 to {} bytes", limits::NAME_BYTES_MAX)));
    }
    Ok(())
}

fn holder_of(text: &str) -> Result<Option<HolderId>, Problem> {
    word(text, "a holder")?;
    Ok(Some(HolderId::of_text(text)))
}

fn resource_of(text: &str) -> Result<ResourceId, Problem> {
    word(text, "a resource")?;
    Ok(ResourceId::of_text(text))
}

/// A command on its way, with the names that it is sent under.
struct Sending<'s, E: Engine, const VERB: u32> {
    scope: &'s PoolScope<E, VERB>,
    client: ClientId,
    operation: OperationId,
    timeout: WaitParams,
}

impl<'s, E: Engine, const VERB: u32> Sending<'s, E, VERB> {
    fn new(scope: &'s PoolScope<E, VERB>, timeout: WaitParams, sender: Sender) -> Result<Self, Problem> {
        let PoolScope { tenant, headers, universe, .. } = scope;
        let token = tenant.token.as_ref().map_or_else(|| "-".to_owned(), |(id, _)| id.to_string());
        let client = ClientId::of_name(&format!("token/{token}/{}", sender.client.unwrap_or_default()));
        let operation = match sender.operation_id.or(idempotency_key(headers)?) {
            Some(text) => {
                word(&text, "an operation id")?;
                OperationId::of_text(&text)
            }
            None => OperationId::of_name(&hex(&universe.plane().random::<16>())),
        };
        Ok(Self { scope, client, operation, timeout })
    }

    /// Its result, by the world of a shard.
    async fn to(&self, shard: u64, command: Command) -> Result<Outcome, Problem> {
        let PoolScope { api, universe, tenant, pool, .. } = self.scope;
        command.check().map_err(|error| Problem::invalid(error.to_string()).with_outcome())?;
        let world = universe.ops().pool_world(pool, shard)?;
        let _held = api.node.begin(universe, *tenant, Quota::Calls)?;
        api.node.admit_event(universe, *tenant)?;
        api.node.admit_to(universe, world)?;
        let request = Request { operation_id: Some(self.operation), client_id: Some(self.client), command };
        universe.ops().pool_command(world, &request, self.timeout.timeout(api)?).await.map_err(refused)
    }

    /// The command's answer, or the refusal that its result is.
    fn answer(&self, shard: u64, outcome: &Outcome) -> Result<Json<CommandResult>, Problem> {
        let names: Vec<String> = outcome.resource_ids.iter().map(ToString::to_string).collect();
        if let Some(code) = outcome.result.error() {
            let at = names.first().map_or_else(String::new, |name| format!(": {name}"));
            let detail = format!("`{}`{at}, decided at LSN {} of shard {shard}", outcome.result.as_str(), outcome.lsn);
            return Err(Problem::new(code, detail).with_result(outcome.result.as_str()));
        }
        Ok(Json(CommandResult {
            result: outcome.result.as_str().to_owned(),
            lsn: outcome.lsn.get(),
            slot: outcome.slot,
            shard,
            lease_id: outcome.lease_id.map(|id| id.to_string()),
            lease_epoch: outcome.lease_epoch,
            deadline_slot: outcome.deadline_slot,
            resource_ids: names,
            ticket: outcome.ticket.map(|id| id.to_string()),
            operation_id: self.operation.to_string(),
            outcome: "definite",
        }))
    }

    async fn run(&self, shard: u64, command: Command) -> Result<Json<CommandResult>, Problem> {
        self.answer(shard, &self.to(shard, command).await?)
    }

    /// To the shard that a lease or a ticket lies in.
    async fn of_lease(&self, lease: LeaseId, command: Command) -> Result<Json<CommandResult>, Problem> {
        match self.scope.pool.shard_of_lease(lease) {
            Some(shard) => self.run(shard, command).await,
            None => {
                let detail = format!("the pool has no shard {}, which {lease} names", lease.shard());
                Err(Problem::new(Code::LeaseNotFound, detail).with_result(ResultCode::LeaseNotFound.as_str()))
            }
        }
    }

    /// To the shards one after another, from the one that the operation's id chooses, until one has what is asked for. Sent again, the
    /// operation takes the same way, and each shard answers what it answered before.
    async fn any_shard(&self, command: &Command) -> Result<Json<CommandResult>, Problem> {
        let shards = self.scope.pool.record.shards;
        let first = shard_of(ResourceId::from_bytes(*self.operation.as_bytes()), shards);
        let (mut at, mut refusal) = (0, None);
        while at < shards {
            let shard = (first + at) % shards;
            let outcome = self.to(shard, command.clone()).await?;
            at += 1;
            match outcome.result {
                ResultCode::ResourceNotFound if refusal.is_some() => {}
                ResultCode::ResourceBusy | ResultCode::ResourceNotFound | ResultCode::QueueFull => {
                    refusal = Some((shard, outcome));
                }
                _ => return self.answer(shard, &outcome),
            }
        }
        match refusal {
            Some((shard, outcome)) => self.answer(shard, &outcome),
            None => Err(Problem::invalid("the pool has no shards")),
        }
    }
}

/// Creates resources, all of them or, within each shard, none. They are never removed.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/resources", tag = "pools", params(WaitParams), request_body = ResourcesForm,
    responses((status = 200, description = "The result of each shard that has some of them", body = Vec<CommandResult>)),
)]
pub(crate) async fn create_resources<E: Engine>(
    scope: PoolScope<E, ADMIN>,
    Params(timeout): Params<WaitParams>,
    JsonBody(form): JsonBody<ResourcesForm>,
) -> Result<Json<Vec<CommandResult>>, Problem> {
    let ResourcesForm { resources, operation_id, client } = form;
    let sending = Sending::new(&scope, timeout, Sender { operation_id, client })?;
    if resources.is_empty() {
        return Err(Problem::invalid("there is no resource to create").with_outcome());
    }
    let mut of_shards: BTreeMap<u64, Vec<NewResource>> = BTreeMap::new();
    for ResourceForm { resource, labels } in resources {
        let resource_id = resource_of(&resource)?;
        let name = Some(resource).filter(|name| *name != resource_id.to_string());
        let shard = shard_of(resource_id, scope.pool.record.shards);
        of_shards.entry(shard).or_default().push(NewResource { resource_id, name, labels });
    }
    let commands = of_shards.into_iter().map(|(shard, resources)| (shard, Command::CreateResource { resources }));
    let commands: Vec<(u64, Command)> = commands.collect();
    for (_, command) in &commands {
        command.check().map_err(|error| Problem::invalid(error.to_string()).with_outcome())?;
    }
    let mut results = Vec::new();
    for (shard, command) in commands {
        results.push(sending.run(shard, command).await?.0);
    }
    Ok(Json(results))
}

/// Reserves resources by name, or so many of a label: all of them, or none.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/reserve", tag = "pools", request_body = ReserveForm, params(WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "The operation id, where the body has none")),
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn reserve<E: Engine>(
    scope: PoolScope<E, SEND>,
    Params(timeout): Params<WaitParams>,
    JsonBody(form): JsonBody<ReserveForm>,
) -> Result<Json<CommandResult>, Problem> {
    let ReserveForm { resources, label, count, holder, ttl_slots, operation_id, client } = form;
    let sending = Sending::new(&scope, timeout, Sender { operation_id, client })?;
    let holder_id = holder_of(&holder)?;
    let Some(resources) = resources else {
        let (label, count) = (label.unwrap_or_default(), count.unwrap_or(1));
        return sending.any_shard(&Command::ReserveAny { label, count, holder_id, ttl_slots }).await;
    };
    if label.is_some() || count.is_some() {
        return Err(Problem::invalid("name `resources`, or a `label` and a `count`, and not both").with_outcome());
    }
    let resource_ids = resources.iter().map(|text| resource_of(text)).collect::<Result<Vec<_>, _>>()?;
    let shards: Vec<u64> = resource_ids.iter().map(|id| shard_of(*id, scope.pool.record.shards)).collect();
    let shard = shards.first().copied().unwrap_or(0);
    if shards.iter().any(|other| *other != shard) {
        let detail = "a bundle lies in one shard, and these resources lie in several";
        return Err(Problem::new(Code::PoolShardsMixed, detail).with_outcome());
    }
    sending.run(shard, Command::ReserveBundle { resource_ids, holder_id, ttl_slots }).await
}

/// Waits in the pool's queue for resources of a label: first come, first served, all of them or none.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/enqueue", tag = "pools", request_body = EnqueueForm, params(WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "The operation id, where the body has none")),
    responses((status = 200, description = "A ticket; with `wait` the lease", body = CommandResult)),
)]
pub(crate) async fn enqueue<E: Engine>(
    scope: PoolScope<E, SEND>,
    Params(timeout): Params<WaitParams>,
    JsonBody(form): JsonBody<EnqueueForm>,
) -> Result<Json<CommandResult>, Problem> {
    let EnqueueForm { label, count, holder, ttl_slots, wait, operation_id, client } = form;
    let sending = Sending::new(&scope, timeout, Sender { operation_id, client })?;
    let (label, count, holder_id) = (label.unwrap_or_default(), count.unwrap_or(1), holder_of(&holder)?);
    sending.any_shard(&Command::EnqueueReserve { label, count, holder_id, ttl_slots, wait }).await
}

/// Leaves the queue.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/cancel", tag = "pools", params(WaitParams), request_body = CancelForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn cancel<E: Engine>(
    scope: PoolScope<E, SEND>,
    Params(timeout): Params<WaitParams>,
    JsonBody(form): JsonBody<CancelForm>,
) -> Result<Json<CommandResult>, Problem> {
    let CancelForm { ticket, holder, operation_id, client } = form;
    let sending = Sending::new(&scope, timeout, Sender { operation_id, client })?;
    let (ticket, holder_id) = (lease_of(&ticket)?, holder_of(&holder)?);
    sending.of_lease(ticket, Command::CancelEnqueue { ticket, holder_id }).await
}

/// Makes a reserved lease active: from here on its holder has authority, until it releases the lease or someone revokes it.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/activate", tag = "pools", params(WaitParams), request_body = HolderForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn activate<E: Engine>(
    scope: PoolScope<E, SEND>,
    Params(timeout): Params<WaitParams>,
    JsonBody(form): JsonBody<HolderForm>,
) -> Result<Json<CommandResult>, Problem> {
    let HolderForm { lease_id, lease_epoch, holder, operation_id, client } = form;
    let sending = Sending::new(&scope, timeout, Sender { operation_id, client })?;
    let (lease_id, holder_id) = (lease_of(&lease_id)?, holder_of(&holder)?);
    sending.of_lease(lease_id, Command::Activate { lease_id, holder_id, lease_epoch }).await
}

/// Ends a lease that is reserved or active; its resources are available at once.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/release", tag = "pools", params(WaitParams), request_body = HolderForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn release<E: Engine>(
    scope: PoolScope<E, SEND>,
    Params(timeout): Params<WaitParams>,
    JsonBody(form): JsonBody<HolderForm>,
) -> Result<Json<CommandResult>, Problem> {
    let HolderForm { lease_id, lease_epoch, holder, operation_id, client } = form;
    let sending = Sending::new(&scope, timeout, Sender { operation_id, client })?;
    let (lease_id, holder_id) = (lease_of(&lease_id)?, holder_of(&holder)?);
    sending.of_lease(lease_id, Command::Release { lease_id, holder_id, lease_epoch }).await
}

/// Withdraws the authority of a lease's holder. Its resources stay unavailable until `reclaim`.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/revoke", tag = "pools", params(WaitParams), request_body = LeaseForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn revoke<E: Engine>(
    scope: PoolScope<E, ADMIN>,
    Params(timeout): Params<WaitParams>,
    JsonBody(form): JsonBody<LeaseForm>,
) -> Result<Json<CommandResult>, Problem> {
    let LeaseForm { lease_id, operation_id, client } = form;
    let sending = Sending::new(&scope, timeout, Sender { operation_id, client })?;
    let lease_id = lease_of(&lease_id)?;
    sending.of_lease(lease_id, Command::Revoke { lease_id }).await
}

/// Makes the resources of a revoked lease available again: for whoever has evidence that its holder does not act any more.
#[utoipa::path(
    post, path = "/v1/u/{universe}/pools/{pool}/reclaim", tag = "pools", params(WaitParams), request_body = LeaseForm,
    responses((status = 200, body = CommandResult)),
)]
pub(crate) async fn reclaim<E: Engine>(
    scope: PoolScope<E, ADMIN>,
    Params(timeout): Params<WaitParams>,
    JsonBody(form): JsonBody<LeaseForm>,
) -> Result<Json<CommandResult>, Problem> {
    let LeaseForm { lease_id, operation_id, client } = form;
    let sending = Sending::new(&scope, timeout, Sender { operation_id, client })?;
    let lease_id = lease_of(&lease_id)?;
    sending.of_lease(lease_id, Command::Reclaim { lease_id }).await
}
