//! The trait that every adapter implements. `crates/adapters` has those that come with Mundi.

use futures_util::future::BoxFuture;
use mundi_model::{Code, Coded, Height, IntentHash, Kind, UniverseId, Value, WorldId};
use mundi_store::{
    keyspace::effect_pending::EffectLease,
    protocol::{EffectClaim, Failure, Repeat},
};

/// Carries out effects of some kinds.
///
/// An adapter is called at least once per intent, and may be called again after an attempt of which nothing is known.
/// Where the other side can tell a repetition, it is handed [`Call::intent`] as the idempotency key. A call that takes
/// too long, or that nobody waits for any more, is dropped in the middle.
pub trait Adapter: Send + Sync {
    /// Stands in receipts.
    fn name(&self) -> &str;

    /// The effect kinds that it serves.
    fn kinds(&self) -> &[&str];

    /// More calls than this at a time are made only if the configuration names the kind.
    fn calls_max(&self) -> usize {
        usize::MAX
    }

    /// The Ed25519 signature of a receipt's [statement](super::signature::Statement), by an adapter that has a key.
    fn sign(&self, statement: &[u8]) -> Option<Vec<u8>> {
        let _ = statement;
        None
    }

    /// Whether [`call`](Self::call) only hands an effect on, in a transaction that ends its claim, and the receipt comes from elsewhere.
    /// Then the value of an `ok` is no receipt, but the time until which the effect waits: an integer, in nanoseconds.
    fn is_answered_elsewhere(&self) -> bool {
        false
    }

    /// The payload of the `ok` receipt, or why there is none.
    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>>;
}

/// One attempt at an effect.
#[derive(Debug, Clone)]
pub struct Call {
    pub universe: UniverseId,
    pub world: WorldId,
    /// The idempotency key: the same for every attempt.
    pub intent: IntentHash,
    /// The height of the intent's record.
    pub height: Height,
    /// When the world asked: the same for every attempt.
    pub asked_at_ns: u64,
    pub kind: String,
    pub params: Value,
    /// How long the manifest lets an attempt take.
    pub timeout_ms: u64,
    /// The first one is 1.
    pub attempt: u32,
    /// W3C `traceparent`.
    pub trace: Option<String>,
    /// The lease of a pool under which it is carried out, held when the attempt began: the other side gets it to check.
    pub lease: Option<EffectLease>,
    /// The right to carry it out: what is done by a transaction of the same engine asks there whether it is still held.
    pub claim: EffectClaim,
}

/// The configuration does not allow it, and will not next time.
pub fn denied(reason: impl Into<String>) -> Failure {
    Failure { code: Code::EffectDenied, reason: reason.into(), repeat: Repeat::Never }
}

/// The other side failed; it may be well again later.
pub fn failed(reason: impl Into<String>) -> Failure {
    Failure { code: Code::EffectFailed, reason: reason.into(), repeat: Repeat::Backoff }
}

/// The answer is larger than what is taken, and would be so again.
pub fn too_large(bytes_max: usize) -> Failure {
    let reason = format!("the answer has more than {bytes_max} bytes");
    Failure { code: Code::EffectAnswerTooLarge, reason, repeat: Repeat::Never }
}

/// The parameters cannot be used, and the same ones never can.
pub fn invalid(reason: impl Into<String>) -> Failure {
    Failure { code: Code::EffectParamsInvalid, reason: reason.into(), repeat: Repeat::Never }
}

/// A final refusal of the store keeps its code; all other failures may pass.
pub fn refused(error: &(impl Coded + ToString)) -> Failure {
    let code: Code = error.code();
    match code.kind() {
        Kind::NotFound | Kind::Invalid | Kind::Corrupt => {
            Failure { code, reason: error.to_string(), repeat: Repeat::Never }
        }
        _ => failed(error.to_string()),
    }
}
