//! From a request to the shard that a command is for, and from its outcome to the answer.

use super::{
    PoolScope,
    forms::{CommandForm, CommandResult, Sender},
    refused,
};
use crate::{
    api::{
        Api, Problem,
        events::{WaitParams, idempotency_key},
        extract::{JsonBody, Params, is_new_work},
    },
    quotas::{Held, Quota},
};
use axum::{
    Json,
    extract::{FromRequest, FromRequestParts, Request},
};
use mundi_kernel::lease_kernel::{
    command::{Command, Request as PoolRequest},
    result::{Outcome, ResultCode},
};
use mundi_model::{
    Code, ParseIdError, WorldId, hex, limits,
    pool::{ClientId, HolderId, LeaseId, OperationId, ResourceId},
};
use mundi_runtime::{Plane, control::shard_of};
use std::time::Duration;

/// The answer to a command.
pub(super) type Answered = Result<Json<CommandResult>, Problem>;

pub(super) fn lease_of(text: &str) -> Result<LeaseId, Problem> {
    text.parse().map_err(|error: ParseIdError| Problem::from(error).not_sent())
}

/// A name or an id that people wrote.
fn word(text: &str, what: &str) -> Result<(), Problem> {
    if text.is_empty() || text.len() > limits::NAME_BYTES_MAX {
        return Err(Problem::invalid(format!("{what} has 1 to {} bytes", limits::NAME_BYTES_MAX)).not_sent());
    }
    Ok(())
}

pub(super) fn holder_of(text: &str) -> Result<HolderId, Problem> {
    word(text, "a holder")?;
    Ok(HolderId::of_text(text))
}

pub(super) fn resource_of(text: &str) -> Result<ResourceId, Problem> {
    word(text, "a resource")?;
    Ok(ResourceId::of_text(text))
}

/// A command as it arrives: what it carries, and how it is sent on.
pub(crate) struct Asked<const VERB: u32, F> {
    pub(super) sending: Sending<VERB>,
    pub(super) form: F,
}

impl<const VERB: u32, F: CommandForm> FromRequest<Api> for Asked<VERB, F> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        Self::read(request, api).await.map_err(Problem::not_sent)
    }
}

impl<const VERB: u32, F: CommandForm> Asked<VERB, F> {
    async fn read(request: Request, api: &Api) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let scope = PoolScope::from_request_parts(&mut parts, api).await?;
        let Params(timeout) = Params::from_request_parts(&mut parts, api).await?;
        let JsonBody(mut form) = JsonBody::<F>::from_request(Request::from_parts(parts, body), api).await?;
        let sending = Sending::new(scope, timeout, form.sender())?;
        Ok(Self { sending, form })
    }
}

/// A command on its way, with the names that it is sent under.
pub(super) struct Sending<const VERB: u32> {
    pub(super) scope: PoolScope<VERB>,
    client: ClientId,
    operation: OperationId,
    timeout: WaitParams,
}

impl<const VERB: u32> Sending<VERB> {
    fn new(scope: PoolScope<VERB>, timeout: WaitParams, sender: Sender) -> Result<Self, Problem> {
        let PoolScope { tenant, headers, universe, .. } = &scope;
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
        self.to_as(self.operation, shard, command).await
    }

    /// The same under another operation id.
    async fn to_as(&self, operation: OperationId, shard: u64, command: Command) -> Result<Outcome, Problem> {
        let universe = &self.scope.universe;
        let (world, timeout, _held) = self.admitted(shard, &command).map_err(Problem::not_sent)?;
        let request = PoolRequest { operation_id: Some(operation), client_id: Some(self.client), command };
        universe.ops().pool_command(world, &request, timeout).await.map_err(refused)
    }

    /// All that may refuse a command before it is sent.
    fn admitted(&self, shard: u64, command: &Command) -> Result<(WorldId, Duration, Held), Problem> {
        let PoolScope { api, universe, tenant, pool, .. } = &self.scope;
        command.check().map_err(|error| Problem::invalid(error.to_string()))?;
        let world = universe.ops().pool_world(pool, shard)?;
        let held = api.node.begin(universe, *tenant, Quota::Calls)?;
        api.node.admit_event(universe, *tenant)?;
        if is_new_work(VERB) {
            api.node.admit_to(universe, world)?;
        }
        Ok((world, self.timeout.timeout(api)?, held))
    }

    /// The command's answer, or the refusal that its result is.
    fn answer(&self, shard: u64, outcome: &Outcome) -> Answered {
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

    pub(super) async fn run(&self, shard: u64, command: Command) -> Answered {
        self.answer(shard, &self.to(shard, command).await?)
    }

    /// To the shard that a lease or a ticket lies in.
    pub(super) async fn of_lease(&self, lease: LeaseId, command: Command) -> Answered {
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
    pub(super) async fn any_shard(&self, command: &Command) -> Answered {
        let (shard, outcome) = self.first_of_shards(self.operation, command).await?;
        self.answer(shard, &outcome)
    }

    /// Waits in the queue of one shard, if no shard has what is asked for now: by an operation of its own, whose id follows from this one.
    pub(super) async fn any_queue(&self, wish: Wish) -> Answered {
        let Wish { label, count, holder_id, ttl_slots, wait } = wish;
        if self.scope.pool.record.shards > 1 {
            let now = Command::ReserveAny { label: label.clone(), count, holder_id, ttl_slots };
            let operation = OperationId::of_name(&format!("now/{}", self.operation));
            let (shard, outcome) = self.first_of_shards(operation, &now).await?;
            if outcome.result == ResultCode::Ok {
                return self.answer(shard, &outcome);
            }
        }
        self.any_shard(&Command::EnqueueReserve { label, count, holder_id, ttl_slots, wait }).await
    }

    /// The first shard that does not refuse for want of resources or room in its queue, or the last refusal.
    async fn first_of_shards(&self, operation: OperationId, command: &Command) -> Result<(u64, Outcome), Problem> {
        let shards = self.scope.pool.record.shards;
        let first = shard_of(ResourceId::from_bytes(*self.operation.as_bytes()), shards);
        let mut refusal = None;
        for at in 0..shards {
            let shard = (first + at) % shards;
            let outcome = self.to_as(operation, shard, command.clone()).await?;
            match outcome.result {
                ResultCode::ResourceNotFound if refusal.is_some() => {}
                ResultCode::ResourceBusy | ResultCode::ResourceNotFound | ResultCode::QueueFull => {
                    refusal = Some((shard, outcome));
                }
                _ => return Ok((shard, outcome)),
            }
        }
        refusal.ok_or_else(|| Problem::invalid("the pool has no shards").not_sent())
    }
}

/// Resources of a label that somebody waits for.
pub(super) struct Wish {
    pub(super) label: String,
    pub(super) count: u32,
    pub(super) holder_id: Option<HolderId>,
    pub(super) ttl_slots: u64,
    pub(super) wait: bool,
}
