//! `world.call`: an event to another world, whose reply is the receipt.
//!
//! Parameters: `world` (an id, or a name in the destination's universe), `event`, and optionally `value`, `headers`, `correlation_id`,
//! `universe` and `timeout_ms`, which is that of the manifest's rule if absent. The `ok` receipt is what the destination's program replies.
//!
//! The adapter only makes the call, and frees its slot: the turn of the destination that replies gives the receipt ([`call_world`] says how,
//! and what a crash leaves). An effect that is claimed after its deadline has had no reply in time, and ends as a `timeout`. Until
//! the call is made, trouble is tried again as the manifest says, and no longer than until the deadline.
//!
//! [`call_world`]: mundi_store::protocol::call_world

use crate::{Params, fabric::with_name, reach::Reach};
use futures_util::future::BoxFuture;
use mundi_kernel::intents::{WORLD_CALL, check_headers};
use mundi_model::{
    Code, Coded, UniverseId, Value, WorldAddress, cbor, limits,
    record::{Input, Payload, Sender},
};
use mundi_runtime::{
    Plane, RuntimeError,
    effects::{Adapter, Call, invalid, refused},
    manifests::check_event,
};
use mundi_store::protocol::{FabricMessage, Failure, FindMessage, MessageId, Repeat, WorldCall};
use std::time::Duration;

pub struct WorldCallAdapter<P>(Reach<P>);

impl<P: Plane> WorldCallAdapter<P> {
    pub fn new(plane: P) -> Self {
        Self::over(Reach::new(plane))
    }

    pub fn over(reach: Reach<P>) -> Self {
        Self(reach)
    }

    /// Makes the call, and says until when it waits for the reply.
    async fn make(&self, call: &Call, to: &WorldAddress) -> Result<u64, Failure> {
        match self.make_to(call, to).await {
            Err(failure) if failure.code == Code::WorldNotFound => {
                let (universe, _) = self.read(call, to)?;
                let Some(to) = self.0.world_named(universe, to).await else { return Err(failure) };
                self.make_to(call, &to).await
            }
            made => made,
        }
    }

    async fn make_to(&self, call: &Call, to: &WorldAddress) -> Result<u64, Failure> {
        let (universe, made) = self.read(call, to)?;
        let deadline_ns = made.deadline_ns;
        if self.0.plane.now_ns() >= deadline_ns {
            let waited = Duration::from_nanos(deadline_ns.saturating_sub(call.asked_at_ns));
            let reason = format!("no reply within {waited:?}");
            return Err(Failure { code: Code::CallTimeout, reason, repeat: Repeat::Never });
        }
        self.0.check_accepted(universe, call.universe, "calls")?;
        self.check(universe, &made.message).await?;
        self.0.delivery().world_call(universe, made).await.map_err(|error| undeliverable(&error))?;
        Ok(deadline_ns)
    }

    /// Compares the event with the destination's manifest, unless it stands in the inbox there already: the destination may have been
    /// upgraded since.
    async fn check(&self, universe: UniverseId, message: &FabricMessage) -> Result<(), Failure> {
        let (to, id) = (message.to, message.id);
        let Input::Event { schema, value: Payload::Inline(value), .. } = &message.input else { return Ok(()) };
        match check_event(&self.0.plane, (universe, to), schema, value).await {
            Ok(()) => Ok(()),
            Err(RuntimeError::Event(error)) => {
                let find = FindMessage { universe, to, id };
                let before = self.0.plane.run(&find).await.map_err(|error| refused(&error))?.output;
                let (code, reason) = (error.code_or(Code::EventInvalid), error.to_string());
                before.map(drop).ok_or(Failure { code, reason, repeat: Repeat::Never })
            }
            Err(error) => Err(undeliverable(&error)),
        }
    }

    fn read(&self, call: &Call, to: &WorldAddress) -> Result<(UniverseId, WorldCall), Failure> {
        let params = Params::of(&call.params)?;
        let universe = match params.text_or_none("universe")? {
            Some(universe) => universe.parse().map_err(|_| invalid("`universe` is not a universe"))?,
            None => call.universe,
        };
        let headers = params.texts("headers")?;
        check_headers(&headers).map_err(invalid)?;
        let correlation_id = params.text_or_none("correlation_id")?;
        if correlation_id.is_some_and(|id| id.len() > limits::NAME_BYTES_MAX) {
            return Err(invalid(format!("`correlation_id` has more than {} bytes", limits::NAME_BYTES_MAX)));
        }
        let timeout_ms = params.unsigned_or_none("timeout_ms")?.unwrap_or(call.timeout_ms);
        if !(1..=limits::EFFECT_TIMEOUT_MS_MAX).contains(&timeout_ms) {
            return Err(invalid(format!("`timeout_ms` is not from 1 to {}", limits::EFFECT_TIMEOUT_MS_MAX)));
        }
        let (schema, value) = (params.text("event")?.to_owned(), params.get("value").unwrap_or(&Value::Null));
        let message = FabricMessage {
            id: MessageId::Intent(call.intent),
            claim: call.claim,
            from: Sender { world: call.world, height: call.height },
            to: to.world(universe),
            input: Input::Event { schema, value: Payload::Inline(cbor::encode(value)), key: None },
            correlation_id: correlation_id.map(str::to_owned),
            trace: call.trace.clone(),
            headers,
            dedupe_window_ns: self.0.dedupe_window_ns,
        };
        let deadline_ns = call.asked_at_ns.saturating_add(timeout_ms.saturating_mul(1_000_000));
        Ok((universe, WorldCall { message, deadline_ns }))
    }
}

/// A destination that takes no calls until somebody does something about it is an answer, and none that a retry changes soon.
fn undeliverable(error: &(impl Coded + ToString)) -> Failure {
    match error.code() {
        code @ (Code::WorldArchived | Code::WorldOnHold) => {
            Failure { code, reason: error.to_string(), repeat: Repeat::Never }
        }
        _ => refused(error),
    }
}

impl<P: Plane> Adapter for WorldCallAdapter<P> {
    fn name(&self) -> &str {
        "call"
    }

    fn kinds(&self) -> &[&str] {
        &[WORLD_CALL]
    }

    fn is_answered_elsewhere(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move {
            let to = Params::of(&call.params)?.text("world")?;
            let to: WorldAddress =
                to.parse().map_err(|_| invalid("`world` is neither the id nor the name of a world"))?;
            let deadline_ns = self.make(call, &to).await.map_err(|failure| with_name(failure, &to))?;
            Ok(Value::Integer(deadline_ns.into()))
        })
    }
}
