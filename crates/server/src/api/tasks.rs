//! External adapter workers: claim effects by kind, keep them by heartbeats, complete or fail them (`docs/guides/effects-in-any-language.md`).
//!
//! A claim is a text that proves the right to answer; it holds all that is needed to do so, so any server of a fleet takes
//! it. What was claimed and not kept is given to the next one who asks.

use super::{
    Api, Problem,
    extract::{JsonBody, UniverseScope, WORK, claim_ttl, duration},
    json,
    moment::Moment,
    naming::{names_world, with_names},
};
use crate::node::{Growth, Universe};
use axum::{Json, http::StatusCode};
use futures_util::{FutureExt, future::select_all};
use minicbor::{Decode, Encode};
use mundi_model::{
    Code, Coded, Hash, IntentHash, UniverseId, WorldId, cbor, hex, limits, parse_hex, parse_hex_bytes,
    record::{Payload, ReceiptStatus},
};
use mundi_runtime::{
    Plane,
    effects::{
        policy::EffectGrant,
        signature::{AdapterKeys, Statement, payload_hash, reason_hash},
    },
};
use mundi_store::{
    blob::Blobs,
    protocol::{Answer, ClaimedEffect, EffectClaim, ExtendClaims, FailEffect, Failed, Failure, Repeat},
    values::QueueSeq,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// An effect that waits for its next attempt becomes due without a notification: a long poll looks again after this long.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Kinds that one claim may name: each is watched while it waits.
const KINDS_MAX: usize = 32;

/// The offer of a worker.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimForm {
    kinds: Vec<String>,
    /// At most so many; 1 if nothing is said.
    #[schema(minimum = 1, maximum = 256)]
    limit: Option<usize>,
    /// How long the claims are valid without a heartbeat: `30s` if nothing is said.
    ttl: Option<String>,
    /// How long to wait for work: not at all if nothing is said.
    wait: Option<String>,
}

/// An effect to be carried out.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Task {
    /// The right to answer it.
    claim: String,
    /// The same for each attempt: the idempotency key to hand to the other side.
    intent: String,
    /// The id of its universe: stands in what is signed.
    universe: String,
    world: String,
    world_name: Option<String>,
    kind: String,
    params: serde_json::Value,
    /// The manifest asks for a signed receipt.
    signed: bool,
    /// The first one is 1.
    attempt: u32,
    attempts_max: u32,
    deadline_ns: u64,
    deadline: Moment,
    traceparent: Option<String>,
    /// The pool and the lease under which it is to be carried out, for the header `Mundi-Lease`.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<String>,
    /// For the header `Mundi-Lease-Epoch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_epoch: Option<u64>,
}

names_world!(Task);

/// A claim as it travels: what the store needs to check it.
#[derive(Debug, Encode, Decode)]
struct Ticket {
    #[n(0)]
    kind: String,
    #[n(1)]
    seq: QueueSeq,
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    token: [u8; 16],
    #[n(3)]
    world: WorldId,
    #[n(4)]
    intent: IntentHash,
}

impl Ticket {
    fn to_text(&self) -> String {
        format!("c_{}", hex(&cbor::encode(self)))
    }

    fn claim(text: &str, universe: UniverseId) -> Result<EffectClaim, Problem> {
        let invalid = || Problem::new(Code::IdInvalid, "that is no claim");
        let digits = text.strip_prefix("c_").filter(|digits| digits.len() <= 2 * limits::NAME_BYTES_MAX + 400);
        let bytes = digits.and_then(parse_hex_bytes).ok_or_else(invalid)?;
        let Self { kind, seq, token, world, intent } = cbor::decode(&bytes).map_err(|_| invalid())?;
        Ok(EffectClaim::of(universe, &kind, seq, token, world, intent))
    }
}

/// Claims effects of these kinds. Without any it answers with an empty list, after the time that it was asked to wait.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/claim", tag = "tasks", request_body = ClaimForm,
    responses((status = 200, body = Vec<Task>)),
)]
pub(super) async fn claim(
    UniverseScope { api, universe, .. }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<ClaimForm>,
) -> Result<Json<Vec<Task>>, Problem> {
    let items_max = form.limit.unwrap_or(1);
    if form.kinds.is_empty() || form.kinds.len() > KINDS_MAX || !(1..=limits::CLAIMS_MAX).contains(&items_max) {
        let bounds = format!("name 1 to {KINDS_MAX} kinds, and a limit of 1 to {}", limits::CLAIMS_MAX);
        return Err(Problem::invalid(bounds));
    }
    let ttl = claim_ttl(form.ttl.as_deref())?;
    let wait = form.wait.as_deref().map(duration).transpose()?.unwrap_or_default().min(api.limits.wait_max);
    let waiting = tokio::time::sleep(wait);
    tokio::pin!(waiting);
    loop {
        let seen = universe.ops().seen_queues(&form.kinds).await?; // before the look: what is queued after it ends the wait
        let claimed = claim_now(&api, &universe, &form.kinds, items_max, ttl).await?;
        if !claimed.is_empty() || api.node.is_leaving() {
            return Ok(Json(tasks(&universe, claimed).await?));
        }
        let watches = seen.into_iter().map(|(kind, seen)| universe.ops().queue_changed(kind, seen).boxed());
        tokio::select! {
            () = &mut waiting => return Ok(Json(Vec::new())),
            _ = select_all(watches) => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = api.node.left() => {}
        }
    }
}

async fn claim_now(
    api: &Api,
    universe: &Universe,
    kinds: &[String],
    items_max: usize,
    ttl: Duration,
) -> Result<Vec<(ClaimedEffect, EffectGrant)>, Problem> {
    let ttl_ns = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
    let mut claimed = Vec::new();
    for kind in kinds {
        universe.ops().reap_effects(kind).await?;
        let room = universe.quotas().claim(items_max - claimed.len());
        if room.count() == 0 {
            break; // effects that are too many for a quota wait in the queue
        }
        let cap = api.node.config().adapters.universe_caps.get(kind).copied().unwrap_or_default();
        let effects = universe.ops().claim_effects(kind, room.count(), ttl_ns, cap).await?;
        universe.quotas().claimed(room, effects.iter().map(|effect| effect.proof.intent), ttl);
        for effect in effects {
            let intent = effect.proof.intent;
            match allowed(api, universe, &effect).await? {
                Some(grant) => claimed.push((effect, grant)),
                None => universe.quotas().claim_over(intent),
            }
        }
    }
    Ok(claimed)
}

/// An effect that the manifest which it was asked for under does not allow is not handed out: its world gets an `error`.
async fn allowed(api: &Api, universe: &Universe, effect: &ClaimedEffect) -> Result<Option<EffectGrant>, Problem> {
    let plane = universe.plane();
    let error = match api.node.policies().check(plane.blobs(), universe.id(), &effect.item).await {
        Ok(grant) => return Ok(Some(grant)),
        Err(error) => error,
    };
    let repeat = if error.code() == Code::EffectDenied { Repeat::Never } else { Repeat::Backoff };
    let failure = Failure { code: error.code(), reason: error.to_string(), repeat };
    let (now_ns, dedupe_window_ns) = (plane.now_ns(), limits::DEDUPE_WINDOW_NS);
    let (claim, adapter) = (effect.proof, "dispatch".to_owned());
    plane.run(&FailEffect { claim, failure, adapter, signature: None, params: None, now_ns, dedupe_window_ns }).await?;
    Ok(None)
}

async fn tasks(universe: &Universe, claimed: Vec<(ClaimedEffect, EffectGrant)>) -> Result<Vec<Task>, Problem> {
    let mut tasks = Vec::with_capacity(claimed.len());
    for (ClaimedEffect { proof, claim, item }, EffectGrant { signed }) in claimed {
        let ticket = Ticket {
            kind: item.kind.clone(),
            seq: proof.seq,
            token: proof.token,
            world: proof.world,
            intent: proof.intent,
        };
        let params = match &item.params {
            Payload::Inline(bytes) => json::bytes(bytes),
            Payload::Blob(hash, _) => json::bytes(&Blobs::get(&universe.plane().blobs, universe.id(), *hash).await?),
        };
        tasks.push(Task {
            claim: ticket.to_text(),
            intent: item.intent.to_string(),
            universe: universe.id().to_string(),
            world: item.world.to_string(),
            world_name: None,
            kind: item.kind,
            params,
            signed,
            attempt: claim.attempt,
            attempts_max: item.terms.attempts_max,
            deadline_ns: claim.deadline_ns,
            deadline: Moment::of(claim.deadline_ns),
            traceparent: item.trace,
            lease: item.lease.as_ref().map(|lease| lease.name()),
            lease_epoch: item.lease.as_ref().map(|lease| lease.lease_epoch),
        });
    }
    with_names(universe, tasks).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KeepForm {
    claims: Vec<String>,
    ttl: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeptClaims {
    /// No longer held: the result of the work is discarded.
    lost: Vec<String>,
    /// Held, and withdrawn by the world: the work may stop.
    withdrawn: Vec<String>,
}

/// A heartbeat: renews the claims.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/heartbeat", tag = "tasks", request_body = KeepForm,
    responses((status = 200, body = KeptClaims)),
)]
pub(super) async fn heartbeat(
    UniverseScope { universe, .. }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<KeepForm>,
) -> Result<Json<KeptClaims>, Problem> {
    if form.claims.len() > limits::CLAIMS_MAX {
        return Err(Problem::new(Code::RequestTooLarge, format!("at most {} claims at a time", limits::CLAIMS_MAX)));
    }
    let ttl = claim_ttl(form.ttl.as_deref())?;
    let claims: Vec<_> = form.claims.iter().map(|text| Ticket::claim(text, universe.id())).collect::<Result<_, _>>()?;
    let plane = universe.plane();
    let deadline_ns = plane.now_ns().saturating_add(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX));
    let extended = plane.run(&ExtendClaims { claims: claims.clone(), deadline_ns }).await?.output;
    let is_held = |claim: &&EffectClaim| !extended.lost.contains(claim);
    universe.quotas().kept(claims.iter().filter(is_held).map(|claim| claim.intent), ttl);
    extended.lost.iter().for_each(|claim| universe.quotas().claim_over(claim.intent));
    let named = |wanted: &[EffectClaim]| {
        let found = form.claims.iter().zip(&claims).filter(|(_, claim)| wanted.contains(claim));
        found.map(|(text, _)| text.clone()).collect()
    };
    Ok(Json(KeptClaims { lost: named(&extended.lost), withdrawn: named(&extended.withdrawn) }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteForm {
    claim: String,
    #[serde(default)]
    result: serde_json::Value,
    /// The name of the answering adapter, which stands in the receipt; `external` if it is absent.
    adapter: Option<String>,
    /// The Ed25519 signature of the receipt, as 128 hex digits: `docs/guides/effects-in-any-language.md` says of which bytes.
    signature: Option<String>,
}

fn signature(digits: Option<&str>) -> Result<Option<Vec<u8>>, Problem> {
    let invalid = || Problem::new(Code::SignatureInvalid, "a signature is 128 hex digits");
    digits.map(|digits| parse_hex::<64>(digits).map(|bytes| bytes.to_vec()).ok_or_else(invalid)).transpose()
}

/// Whether the answer to a claimed effect is signed as its manifest and the universe's keys ask for. Whether the claim is held is
/// asked for when the answer is given.
async fn check_signature(
    api: &Api,
    universe: &Universe,
    claim: &EffectClaim,
    (adapter, signature): (&str, Option<&[u8]>),
    (status, payload): (ReceiptStatus, Hash),
) -> Result<(), Problem> {
    let EffectClaim { universe: id, world, intent, .. } = *claim;
    let Some(item) = universe.ops().claimed_effect(claim).await? else { return Ok(()) };
    let grant = api.node.policies().check(universe.plane().blobs(), id, &item).await;
    let must_sign = grant.map_err(|error| Problem::new(error.code(), error.to_string()))?.signed;
    let statement = Statement { universe: id, world, intent, kind: &item.kind, status, payload, adapter };
    let none = AdapterKeys::default();
    let keys = api.node.rules_of(universe).map_or(&none, |rules| &rules.adapter_keys);
    let checked = keys.check(&statement, signature, must_sign);
    checked.map_err(|failure| Problem::new(failure.code, failure.reason))
}

fn adapter(name: Option<String>) -> Result<String, Problem> {
    let name = name.unwrap_or_else(|| "external".to_owned());
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX {
        return Err(Problem::invalid("the name of the adapter is empty or too long"));
    }
    Ok(name)
}

/// Answers an effect: its world gets an `ok` receipt with the result.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/complete", tag = "tasks", request_body = CompleteForm,
    responses((status = 204, description = "The receipt is in the inbox, or nobody waits for it any more")),
)]
pub(super) async fn complete(
    UniverseScope { api, universe, tenant }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<CompleteForm>,
) -> Result<StatusCode, Problem> {
    let (claim, adapter) = (Ticket::claim(&form.claim, universe.id())?, adapter(form.adapter)?);
    let signature = signature(form.signature.as_deref())?;
    let plane = universe.plane();
    let mut payload = Payload::Inline(cbor::encode(&json::given(form.result)?));
    // Before anything is stored or counted for it.
    let said = (ReceiptStatus::Ok, payload_hash(&payload));
    check_signature(&api, &universe, &claim, (&adapter, signature.as_deref()), said).await?;
    let mut growth = Growth::default();
    if let Payload::Inline(bytes) = &payload
        && bytes.len() > limits::PAYLOAD_INLINE_BYTES_MAX
    {
        let len = bytes.len() as u64;
        if bytes.len() > limits::PAYLOAD_BYTES_MAX {
            return Err(Problem::new(Code::EffectAnswerTooLarge, format!("the result has {len} bytes")));
        }
        growth = api.node.grow_payloads(&universe, tenant, [bytes.len()].into_iter()).await?;
        payload = Payload::Blob(Blobs::put(&plane.blobs, universe.id(), bytes.clone().into(), &[]).await?, len);
    }
    let answer = Answer { signature, ..Answer::new(ReceiptStatus::Ok, payload, adapter) };
    let completed = universe.ops().complete_effect(claim, answer).await;
    growth.settle(&universe, completed.is_ok()).await;
    completed?;
    universe.quotas().claim_over(claim.intent);
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailForm {
    claim: String,
    reason: String,
    /// Whether another attempt makes sense; it does if nothing is said.
    retryable: Option<bool>,
    /// The other side says when.
    retry_after_ms: Option<u64>,
    adapter: Option<String>,
    /// As in `complete`, over the status `error` and the reason as a text.
    signature: Option<String>,
}

/// Ends an attempt. One that may be repeated is, under the manifest's budget; else its world gets an `error` receipt. Whose claim is lost
/// is refused.
#[utoipa::path(
    post, path = "/v1/u/{universe}/tasks/fail", tag = "tasks", request_body = FailForm,
    responses((status = 204, description = "Done")),
)]
pub(super) async fn fail(
    UniverseScope { api, universe, .. }: UniverseScope<WORK>,
    JsonBody(form): JsonBody<FailForm>,
) -> Result<StatusCode, Problem> {
    let (claim, adapter) = (Ticket::claim(&form.claim, universe.id())?, adapter(form.adapter)?);
    let signature = signature(form.signature.as_deref())?;
    if form.reason.len() > limits::REASON_BYTES_MAX {
        return Err(Problem::invalid("the reason is too long"));
    }
    let repeat = match (form.retryable.unwrap_or(true), form.retry_after_ms) {
        (false, _) => Repeat::Never,
        (true, Some(ms)) => Repeat::AfterMs(ms),
        (true, None) => Repeat::Backoff,
    };
    let said = (ReceiptStatus::Error, reason_hash(&form.reason));
    check_signature(&api, &universe, &claim, (&adapter, signature.as_deref()), said).await?;
    let failure = Failure { code: Code::EffectFailed, reason: form.reason, repeat };
    let (now_ns, dedupe_window_ns) = (universe.plane().now_ns(), limits::DEDUPE_WINDOW_NS);
    let fail = FailEffect { claim, failure, adapter, signature, params: None, now_ns, dedupe_window_ns };
    let failed = universe.plane().run(&fail).await?.output;
    universe.quotas().claim_over(claim.intent);
    match failed {
        Failed::Lost => Err(Problem::new(Code::EffectClaimLost, "the claim is not held any more")),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}
