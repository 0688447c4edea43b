//! `lease-kernel`: the native program of pools, which lease resources and never hand one out early.
//!
//! A pool is a world that runs it. The journal is the one ordered log and its height the LSN; slots come from the record's logical time.
//! `core` is the kernel, `front` the layers before it; this file turns a record into a command and a result into a reply.
//!
//! A lease is never freed by a clock: a reservation that was not activated expires by an explicit step of the pool's own timer, an active
//! lease ends when its holder releases it, or when someone outside revokes it and later reclaims it.

pub mod command;
pub mod config;
mod core;
mod front;
mod queries;
pub mod records;
pub mod result;

use self::{
    command::{COMMAND, Command, Request, RequestInvalid},
    config::Home,
    core::Core,
    front::{First, Wish},
    records::cell,
    result::{Outcome, Refused, ResultCode},
};
use crate::{
    manifest::{Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program, Stop, View},
};
use mundi_model::{
    Hash, InboxSeq, Value, cbor, limits,
    pool::{ClientId, HolderId, OperationId},
};
use serde_json::json;

/// The name under which it is registered.
pub const NAME: &str = "lease-kernel";
pub const VERSION: u32 = 1;

/// The timer for the earliest deadline.
const EXPIRE_TIMER: &str = "expire";
/// The timer, due at once, for a grant that needs a record of its own.
const GRANT_TIMER: &str = "grant";
/// The timer for the removal of history that stands in the way of a grant.
const REMOVE_TIMER: &str = "remove";

pub struct LeaseKernel;

/// Declares its commands and queries.
pub fn declare(manifest: &mut Manifest) {
    // The largest bundle, each resource with all its labels, fits with room to spare (`tests/pools/cost.rs`).
    manifest.limits.step_calls_max = limits::STEP_CALLS_MAX;
    let request = json!({
        "type": "object",
        "required": ["command"],
        "properties": {
            "operation_id": {"type": "string", "maxLength": 64},
            "client_id": {"type": "string", "maxLength": 64},
            "command": {"type": "object", "minProperties": 1, "maxProperties": 1},
        },
        "additionalProperties": false,
    });
    manifest.events.insert(COMMAND.to_owned(), Schema(request));
    for name in queries::NAMES {
        manifest.queries.insert((*name).to_owned(), Schema(json!({"type": ["object", "null"]})));
    }
}

impl Program for LeaseKernel {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Event { schema: COMMAND, value, .. } => {
                let (request, fingerprint) = Request::read(value).map_err(invalid)?;
                take_command(host, event, request, fingerprint)
            }
            Cause::Timer { label, .. } => take_timer(host, label),
            _ => Ok(()),
        }
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        queries::answer(view, name, params)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn invalid(error: RequestInvalid) -> Failure {
    Failure::new(error.to_string())
}

fn take_command(host: &mut dyn Host, event: &Event<'_>, request: Request, fingerprint: Hash) -> Result<(), Failure> {
    let Request { operation_id, client_id, mut command } = request;
    let mut is_foreign = false;
    if let Some(sender) = &event.origin.sender {
        command.sent_by(sender.world).map_err(invalid)?;
        is_foreign = command.holder_mut().is_some_and(|holder| *holder != Some(HolderId::from(sender.world)));
    }
    if let Command::Configure { shard, config } = command {
        let home = Home { universe: host.universe(), world: host.world(), shard, config };
        return configure(host, event, &home);
    }
    let Some(mut core) = Core::open(host)? else {
        return Err(Failure::new("this world is not configured as a pool: create it as one"));
    };
    let sender = event.origin.sender.as_ref().map(|sender| ClientId::from(sender.world));
    let client = sender.or(client_id).ok_or(RequestInvalid::Missing("client_id")).map_err(invalid)?;
    let operation = match (operation_id, sender) {
        (Some(operation), _) => operation,
        (None, Some(_)) => OperationId::of_name(&event.seq.to_string()),
        (None, None) => return Err(invalid(RequestInvalid::Missing("operation_id"))),
    };
    let key = core::OperationKey { client, operation, fingerprint };
    let reply_to = Some(event.seq).filter(|_| event.origin.wants_reply);
    let outcome = match is_foreign {
        true => Some(core.outcome(ResultCode::HolderMismatch)),
        false => run_once(&mut core, &key, &command, reply_to)?,
    };
    // The answer to the command comes before what follows from it: a grant of what it released, say.
    if let (Some(seq), Some(outcome)) = (reply_to, outcome) {
        reply(core.host, seq, &outcome)?;
    }
    grant_and_close(core)
}

/// A pool is configured once.
fn configure(host: &mut dyn Host, event: &Event<'_>, home: &Home) -> Result<(), Failure> {
    let before: Option<Home> = core::read(host, cell::HOME)?;
    let result = match before {
        None => ResultCode::Ok,
        Some(before) if before == *home => ResultCode::Noop,
        Some(_) => ResultCode::AlreadyExists,
    };
    if result == ResultCode::Ok {
        host.put(cell::HOME, &cbor::encode(home))?;
    }
    let outcome = Outcome::of(result, host.height(), home.config.slot(host.logical_now_ns()));
    if event.origin.wants_reply {
        reply(host, event.seq, &outcome)?;
    }
    Ok(())
}

/// The result of a command that may have been sent before; `None` if it is answered later.
fn run_once(
    core: &mut Core<'_>,
    key: &core::OperationKey,
    command: &Command,
    reply_to: Option<InboxSeq>,
) -> Result<Option<Outcome>, Failure> {
    core.retire()?;
    let kept_until = match core.known_outcome(key) {
        Ok(Some(known)) => return Ok(Some(known)),
        Ok(None) => core.check_operations(key),
        Err(refused) => Err(refused),
    };
    let kept_until = match kept_until {
        Ok(kept_until) => kept_until,
        Err(refused) => return Ok(Some(refusal(core, refused)?)),
    };
    let outcome = match execute(core, command, reply_to) {
        Ok(outcome) => outcome,
        Err(refused) => refusal(core, refused)?,
    };
    core.remember(key, &outcome, kept_until)?;
    let is_answered_later =
        matches!(command, Command::EnqueueReserve { wait: true, .. }) && outcome.result == ResultCode::Ok;
    Ok(Some(outcome).filter(|_| !(is_answered_later && reply_to.is_some())))
}

fn refusal(core: &Core<'_>, refused: Refused) -> Result<Outcome, Stop> {
    match refused {
        Refused::Stop(stop) => Err(stop),
        Refused::Result(code) => Ok(core.outcome(code)),
        Refused::At(code, resource) => Ok(Outcome { resource_ids: vec![resource], ..core.outcome(code) }),
    }
}

fn execute(core: &mut Core<'_>, command: &Command, reply_to: Option<InboxSeq>) -> Result<Outcome, Refused> {
    let named = |holder: &Option<HolderId>| holder.ok_or(Refused::Result(ResultCode::HolderMismatch));
    let token = |lease, holder: &Option<HolderId>, epoch| {
        Ok::<_, Refused>(core::HolderToken { lease, holder: named(holder)?, epoch })
    };
    let reserves = matches!(
        command,
        Command::Reserve { .. }
            | Command::ReserveBundle { .. }
            | Command::ReserveAny { .. }
            | Command::EnqueueReserve { .. }
    );
    if reserves && core.counts.closed {
        return Err(ResultCode::InvalidState.into());
    }
    match command {
        Command::Configure { .. } => Ok(core.outcome(ResultCode::Noop)),
        Command::Close {} => core.close_pool(),
        Command::Open {} => Ok(core.open_pool()),
        Command::CreateResource { resources } => core.create_labelled(resources),
        Command::Reserve { resource_id, holder_id, ttl_slots } => {
            core.check_not_overtaking(&[*resource_id])?;
            core.reserve_bundle(&[*resource_id], named(holder_id)?, *ttl_slots)
        }
        Command::ReserveBundle { resource_ids, holder_id, ttl_slots } => {
            core.check_terms(resource_ids.len() as u64, *ttl_slots)?;
            core.check_not_overtaking(resource_ids)?;
            core.reserve_bundle(resource_ids, named(holder_id)?, *ttl_slots)
        }
        Command::ReserveAny { label, count, holder_id, ttl_slots } => {
            core.reserve_any((label, *count), named(holder_id)?, *ttl_slots)
        }
        Command::EnqueueReserve { label, count, holder_id, ttl_slots, wait } => {
            let reply_to = reply_to.filter(|_| *wait);
            let wish = Wish { label, count: *count, holder: named(holder_id)?, ttl_slots: *ttl_slots, reply_to };
            core.enqueue_reserve(&wish)
        }
        Command::CancelEnqueue { ticket, holder_id } => core.cancel_enqueue(*ticket, named(holder_id)?),
        Command::Activate { lease_id, holder_id, lease_epoch } => {
            core.activate(token(*lease_id, holder_id, *lease_epoch)?)
        }
        Command::Release { lease_id, holder_id, lease_epoch } => {
            core.release(token(*lease_id, holder_id, *lease_epoch)?)
        }
        Command::Evidence { lease_id, kind, detail } => core.add_evidence(*lease_id, *kind, detail),
        Command::Revoke { lease_id, reclaim_after_ms } => core.revoke_watched(*lease_id, *reclaim_after_ms),
        Command::Reclaim { lease_id } => core.reclaim_watched(*lease_id),
    }
}

fn take_timer(host: &mut dyn Host, label: &str) -> Result<(), Failure> {
    let Some(mut core) = Core::open(host)? else { return Ok(()) };
    core.retire()?;
    match label {
        EXPIRE_TIMER => core.expire_due()?,
        REMOVE_TIMER => core.counts.armed_removal_slot = None,
        _ => {}
    }
    grant_and_close(core)
}

/// Ends the step of every record: brings the indexes, the queue and the timers up to date.
fn grant_and_close(mut core: Core<'_>) -> Result<(), Failure> {
    core.index_changes()?;
    let first = match core.counts.waiting > 0 && !core.made_lease {
        true => core.grant_first()?,
        false => First::Waits,
    };
    match first {
        First::Left { outcome, reply_to } => {
            core.index_changes()?;
            if let Some(seq) = reply_to {
                reply(core.host, seq, &outcome)?;
            }
            if core.can_grant()? {
                let now_ns = core.host.logical_now_ns();
                core.host.set_timer(GRANT_TIMER, now_ns, &[])?;
            }
        }
        First::WaitsForRoom => {
            if let Some(slot) = core.removal_to_set() {
                let due_ns = core.config().slot_start_ns(slot);
                core.host.set_timer(REMOVE_TIMER, due_ns, &[])?;
            }
        }
        First::Waits => {}
    }
    if let Some(slot) = core.timer_to_set() {
        let due_ns = core.config().slot_start_ns(slot);
        core.host.set_timer(EXPIRE_TIMER, due_ns, &[])?;
    }
    Ok(core.close()?)
}

fn reply(host: &mut dyn Host, to: InboxSeq, outcome: &Outcome) -> Result<(), Stop> {
    let value = serde_json::to_value(outcome).map_or(Value::Null, Value::from);
    host.reply(to, &cbor::encode(&value))
}
