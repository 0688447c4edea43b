//! Effects under leases, for the simulation of pools: worlds that hold leases, and the service that carries their effects out.

use futures_util::future::BoxFuture;
use mundi_kernel::{
    manifest::{EffectRule, Manifest, Schema},
    program::{Cause, Event, Failure as StepFailure, Host, Program},
};
use mundi_model::{IntentHash, Value, pool::LeaseId};
use mundi_runtime::effects::{Adapter, Call, failed};
use mundi_store::protocol::Failure;
use parking_lot::Mutex;
use std::{collections::BTreeSet, sync::Arc};

/// The kind of effect that they ask for.
pub(crate) const WORK: &str = "sim.work";
/// The event that makes a holder ask for it.
pub(crate) const BEGIN: &str = "begin";

/// Asks for the effect that each event describes.
pub(crate) struct Holder;

impl Program for Holder {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), StepFailure> {
        match event.cause {
            Cause::Event { value, .. } => Ok(host.emit(WORK, value, "")?),
            _ => Ok(()),
        }
    }
}

/// Allows what a holder does.
pub(crate) fn declare(manifest: &mut Manifest) {
    manifest.events.insert(BEGIN.into(), Schema::anything());
    manifest.effects.insert(WORK.into(), EffectRule::default());
}

/// The parameters of an effect under a lease.
pub(crate) fn params(pool: &str, lease: LeaseId, lease_epoch: u64) -> Value {
    let fields = [
        ("pool", Value::Text(pool.to_owned())),
        ("lease_id", Value::Text(lease.to_string())),
        ("lease_epoch", Value::Integer(lease_epoch.into())),
    ];
    let lease = fields.map(|(name, value)| (name.to_owned(), value)).into();
    Value::Map([("lease".to_owned(), Value::Map(lease))].into())
}

/// The attempts that were carried out: the effect, and the token of the claim that it was carried out under.
pub(crate) type Attempts = BTreeSet<(IntentHash, [u8; 16])>;

/// Fails half of all first attempts, so that leases end between two attempts, and keeps a list of all.
#[derive(Default, Clone)]
pub(crate) struct Worker(Arc<Mutex<Attempts>>);

impl Worker {
    pub(crate) fn attempts(&self) -> Attempts {
        self.0.lock().clone()
    }
}

impl Adapter for Worker {
    fn name(&self) -> &str {
        "worker"
    }

    fn kinds(&self) -> &[&str] {
        &[WORK]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        self.0.lock().insert((call.intent, call.claim.token));
        let is_refused = call.attempt == 1 && call.intent.as_bytes()[0].is_multiple_of(2);
        Box::pin(async move { if is_refused { Err(failed("not at once")) } else { Ok(Value::Null) } })
    }
}
