//! `fabric.send`: a message to another world.
//!
//! Parameters: `dest_world` (an id, or a name in the destination's universe), `mode` (`typed_event` with `schema` and `value_cbor`, or `inbox` with `inbox` and
//! `payload_cbor`), and optionally `headers`, `correlation_id`, `dest_universe` and `message_id`, which is there only if the
//! sender's manifest allowed it. The answer says `status` (`ok`, or `already_enqueued` when an attempt before had done it),
//! `message_id`, `dest_world` and `enqueued_seq`; that of a failure says `error`, and the same with a null `enqueued_seq`.
//!
//! A destination that does not exist, an event that the destination's manifest does not take, and a universe that does not
//! accept messages from the sender's are `error` receipts at once; a destination whose inbox is full is tried again.

use crate::{Params, reach::Reach};
use futures_util::future::BoxFuture;
use mundi_kernel::intents::{FABRIC_SEND, check_headers};
use mundi_model::{
    Code, Hash, UniverseId, Value, WorldAddress,
    record::{Input, Payload, Sender},
};
use mundi_runtime::{
    Plane, RuntimeError,
    effects::{Adapter, Call, invalid, refused},
    manifests::check_event,
};
use mundi_store::protocol::{FabricMessage, Failure, FindMessage, MessageId, Repeat, Sent, fabric_receipt};
use std::collections::BTreeMap;

pub struct FabricAdapter<P>(Reach<P>);

impl<P: Plane> FabricAdapter<P> {
    pub fn new(plane: P) -> Self {
        Self::over(Reach::new(plane))
    }

    pub fn over(reach: Reach<P>) -> Self {
        Self(reach)
    }
}

impl<P: Plane> Adapter for FabricAdapter<P> {
    fn name(&self) -> &str {
        "fabric"
    }

    fn kinds(&self) -> &[&str] {
        &[FABRIC_SEND]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move {
            let to = destination(call)?;
            let sent = send(&self.0, call, &to).await;
            let sent = sent.map_err(|failure| with_name(failure, &to))?;
            let status = if sent.already_enqueued { "already_enqueued" } else { "ok" };
            Ok(Value::Map(fabric_receipt(status, call.intent, &call.params, Some(sent.seq))))
        })
    }
}

/// A program that sent to a name reads the name in the reason, too, and not only the id that follows from it.
pub(crate) fn with_name(failure: Failure, to: &WorldAddress) -> Failure {
    match to {
        WorldAddress::Name(name) => Failure { reason: format!("to `{name}`: {}", failure.reason), ..failure },
        WorldAddress::Id(_) => failure,
    }
}

fn destination(call: &Call) -> Result<WorldAddress, Failure> {
    Params::of(&call.params)?.text("dest_world")?.parse().map_err(|_| invalid("`dest_world` is not a world"))
}

/// Sends the message that the parameters of a call carry, once for all attempts.
pub(crate) async fn send<P: Plane>(reach: &Reach<P>, call: &Call, to: &WorldAddress) -> Result<Sent, Failure> {
    match send_to(reach, call, to).await {
        Err(failure) if failure.code == Code::WorldNotFound => {
            let (universe, _) = read(call, to, reach.dedupe_window_ns)?;
            let Some(to) = reach.world_named(universe, to).await else { return Err(failure) };
            send_to(reach, call, &to).await
        }
        sent => sent,
    }
}

async fn send_to<P: Plane>(reach: &Reach<P>, call: &Call, to: &WorldAddress) -> Result<Sent, Failure> {
    let (plane, (universe, message)) = (&reach.plane, read(call, to, reach.dedupe_window_ns)?);
    reach.check_accepted(universe, call.universe, "messages")?;
    let (to, id) = (message.to, message.id);
    if let Input::Event { schema, value: Payload::Inline(value), .. } = &message.input {
        match check_event(plane, (universe, to), schema, value).await {
            Ok(()) => {}
            Err(RuntimeError::Event(error)) => {
                // The destination may have another manifest since an earlier attempt sent it.
                let before = plane.run(&FindMessage { universe, to, id }).await.map_err(|error| refused(&error))?;
                let code = error.code_or(Code::EventInvalid);
                let failure = Failure { code, reason: error.to_string(), repeat: Repeat::Never };
                return before.output.ok_or(failure);
            }
            Err(error) => return Err(refused(&error)),
        }
    }
    reach.delivery().message(universe, message).await.map_err(|error| refused(&error))
}

fn read(call: &Call, to: &WorldAddress, dedupe_window_ns: u64) -> Result<(UniverseId, FabricMessage), Failure> {
    let params = Params::of(&call.params)?;
    let universe = match params.text_or_none("dest_universe")? {
        Some(universe) => universe.parse().map_err(|_| invalid("`dest_universe` is not a universe"))?,
        None => call.universe,
    };
    let id = match params.text_or_none("message_id")? {
        Some(id) => MessageId::Chosen(id.parse::<Hash>().map_err(|_| invalid("`message_id` is not a hash"))?),
        None => MessageId::Intent(call.intent),
    };
    let headers = params.texts("headers")?;
    check_headers(&headers).map_err(invalid)?;
    let (input, headers) = input(params, headers)?;
    let message = FabricMessage {
        id,
        claim: call.claim,
        from: Sender { world: call.world, height: call.height },
        to: to.world(universe),
        input,
        correlation_id: params.text_or_none("correlation_id")?.map(str::to_owned),
        trace: call.trace.clone(),
        headers,
        dedupe_window_ns,
    };
    Ok((universe, message))
}

type Headers = BTreeMap<String, String>;

/// The input for the inbox, and the headers beside it.
fn input(params: Params<'_>, headers: Headers) -> Result<(Input, Headers), Failure> {
    let payload = |name| Ok(Payload::Inline(params.bytes_or_none(name)?.unwrap_or_default().to_vec()));
    match params.text("mode")? {
        "typed_event" => {
            let schema = params.text("schema")?.to_owned();
            Ok((Input::Event { schema, value: payload("value_cbor")?, key: None }, headers))
        }
        "inbox" => {
            let inbox = params.text("inbox")?.to_owned();
            Ok((Input::Message { inbox, payload: payload("payload_cbor")?, headers }, Headers::new()))
        }
        other => Err(invalid(format!("`mode` is neither `typed_event` nor `inbox` but `{other}`"))),
    }
}
