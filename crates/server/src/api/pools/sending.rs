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
        extract::{JsonBody, Params},
    },
    quotas::Quota,
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
    Code, hex, limits,
    pool::{ClientId, HolderId, LeaseId, OperationId, ResourceId},
};
use mundi_runtime::{Plane, control::shard_of};

/// The answer to a command.
pub(super) type Answered = Result<Json<CommandResult>, Problem>;

pub(super) fn lease_of(text: &str) -> Result<LeaseId, Problem> {
    Ok(text.parse()?)
}

/// A name or an id that people wrote.
fn word(text: &str, what: &str) -> Result<(), Problem> {
    if text.is_empty() || text.len() > limits::NAME_BYTES_MAX {
        return Err(Problem::invalid(format!("{what} has 1 to {} bytes", limits::NAME_BYTES_MAX)));
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
        let PoolScope { api, universe, tenant, pool, .. } = &self.scope;
        command.check().map_err(|error| Problem::invalid(error.to_string()).with_outcome())?;
        let world = universe.ops().pool_world(pool, shard)?;
        let _held = api.node.begin(universe, *tenant, Quota::Calls)?;
        api.node.admit_event(universe, *tenant)?;
        api.node.admit_to(universe, world)?;
        let request = PoolRequest { operation_id: Some(self.operation), client_id: Some(self.client), command };
        let sent = universe.ops().pool_command(world, &request, self.timeout.timeout(api)?).await;
        let outcome = sent.map_err(refused)?;
        Ok(outcome)
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
