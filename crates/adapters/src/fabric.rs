//! `fabric.send`: a message to another world (seed 000, section 6).
//!
//! Parameters: `dest_world`, `mode` (`typed_event` with `schema` and `value_cbor`, or `inbox` with `inbox`, `payload_cbor`
//! and `headers`), and optionally `dest_universe` and `correlation_id`. The answer says `status` (`ok`, or
//! `already_enqueued` when an attempt before had done it), `message_id`, `dest_world` and `enqueued_seq`. A destination
//! that does not exist is an `error` receipt at once; one whose inbox is full is tried again.

use crate::{
    Adapter, Call, Params,
    blob::refused,
    params::{invalid, map, text},
};
use futures_util::future::BoxFuture;
use mundi_engine::Engine;
use mundi_model::{
    UniverseId, Value, WorldId,
    record::{Input, Payload, Sender},
};
use mundi_runtime::{Holder, tell};
use mundi_store::{
    Clock,
    blob::Blobs,
    protocol::{FabricMessage, Failure, Sent, fabric_send},
};
use std::sync::Arc;

pub struct FabricAdapter<E, B> {
    engine: E,
    blobs: B,
    clock: Arc<dyn Clock>,
    holder: Option<Arc<dyn Holder>>,
}

impl<E, B> FabricAdapter<E, B> {
    pub fn new(engine: E, blobs: B, clock: Arc<dyn Clock>) -> Self {
        Self { engine, blobs, clock, holder: None }
    }

    /// Tells who holds worlds in this process of what is sent to them.
    #[must_use]
    pub fn with_holder(self, holder: Arc<dyn Holder>) -> Self {
        Self { holder: Some(holder), ..self }
    }
}

impl<E: Engine, B: Blobs> Adapter for FabricAdapter<E, B> {
    fn name(&self) -> &str {
        "fabric"
    }

    fn kinds(&self) -> &[&str] {
        &["fabric.send"]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move {
            let (to, sent) = send(&self.engine, &*self.clock, &self.blobs, self.holder.as_deref(), call).await?;
            let status = if sent.already_enqueued { "already_enqueued" } else { "ok" };
            Ok(map([
                ("status", text(status)),
                ("message_id", text(call.intent.to_string())),
                ("dest_world", text(to.to_string())),
                ("enqueued_seq", Value::Bytes(sent.seq.as_bytes().to_vec())),
            ]))
        })
    }
}

/// Sends the message that the parameters of a call carry, once for all attempts.
pub(crate) async fn send<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    holder: Option<&dyn Holder>,
    call: &Call,
) -> Result<(WorldId, Sent), Failure> {
    let (universe, message) = read(call)?;
    let to = message.to;
    let send = async |told| fabric_send(engine, clock, blobs, universe, message, told).await;
    let sent = tell(holder, (universe, to), send).await.map_err(|error| refused(&error))?;
    Ok((to, sent))
}

fn read(call: &Call) -> Result<(UniverseId, FabricMessage), Failure> {
    let params = Params::of(&call.params)?;
    let to: WorldId = params.text("dest_world")?.parse().map_err(|_| invalid("`dest_world` is not a world"))?;
    let universe = match params.text_or_none("dest_universe")? {
        Some(universe) => universe.parse().map_err(|_| invalid("`dest_universe` is not a universe"))?,
        None => call.universe,
    };
    let message = FabricMessage {
        id: call.intent,
        from: Sender { world: call.world, height: call.height },
        to,
        input: input(params)?,
        correlation_id: params.text_or_none("correlation_id")?.map(str::to_owned),
        trace: call.trace.clone(),
    };
    Ok((universe, message))
}

fn input(params: Params<'_>) -> Result<Input, Failure> {
    let payload = |name| Ok(Payload::Inline(params.bytes_or_none(name)?.unwrap_or_default().to_vec()));
    match params.text("mode")? {
        "typed_event" => {
            Ok(Input::Event { schema: params.text("schema")?.to_owned(), value: payload("value_cbor")?, key: None })
        }
        "inbox" => Ok(Input::Message {
            inbox: params.text("inbox")?.to_owned(),
            payload: payload("payload_cbor")?,
            headers: params.texts("headers")?,
        }),
        other => Err(invalid(format!("`mode` is neither `typed_event` nor `inbox` but `{other}`"))),
    }
}
