//! `send`, `call`, `reply` and `query`.

use super::{
    super::{
        client::{escape, value},
        exit::Outcome,
        output::Out,
    },
    World,
};
use clap::Args;

#[derive(Args)]
pub(crate) struct Send {
    #[command(flatten)]
    of: World,
    /// The name of an event of the program.
    event: String,
    /// JSON; anything else is sent as a string.
    #[arg(allow_negative_numbers = true)]
    value: Option<String>,
    /// Send it after this delay: `10s`, `5m`.
    #[arg(long)]
    delay: Option<String>,
    /// A key that the program sees. An instance of a durable function gets the events that have its key.
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    once: Once,
}

/// Whether an event may be sent again.
#[derive(Args)]
pub(crate) struct Once {
    /// With the same key an event is accepted at most once; a repeated call gets the same reply.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Send {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, event, value: given, delay, key, once } = self;
        let named = [("delay", delay), ("key", key)].into_iter().filter_map(|(name, given)| Some((name, given?)));
        let params: Vec<_> = named.map(|(name, given)| format!("{name}={}", escape(&given))).collect();
        let path = format!("/send/{}?{}", escape(&event), params.join("&"));
        let sent = of.give(&path, once.idempotency_key.as_deref(), &value(given)?).await?;
        if sent["seq"].is_null() { out.object(&sent) } else { out.made(&sent, "seq") }
    }
}

#[derive(Args)]
pub(crate) struct Call {
    #[command(flatten)]
    of: World,
    /// The name of an event of the program.
    event: String,
    /// JSON; anything else is sent as a string.
    #[arg(allow_negative_numbers = true)]
    value: Option<String>,
    /// How long to wait for the reply: `250ms`, `30s`, `5m`.
    #[arg(long, default_value = "30s")]
    timeout: String,
    #[command(flatten)]
    once: Once,
}

impl Call {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, event, value: given, timeout, once } = self;
        let path = format!("/call/{}?timeout={}", escape(&event), escape(&timeout));
        out.value(&of.give(&path, once.idempotency_key.as_deref(), &value(given)?).await?)
    }
}

#[derive(Args)]
pub(crate) struct Reply {
    #[command(flatten)]
    of: World,
    /// The position of the call, which the error of a timed-out call names: `s_…`.
    call: String,
    /// How long to wait for the reply: `250ms`, `30s`, `5m`.
    #[arg(long, default_value = "30s")]
    timeout: String,
}

impl Reply {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, call, timeout } = self;
        out.value(&of.get(&format!("/calls/{}?timeout={}", escape(&call), escape(&timeout))).await?)
    }
}

#[derive(Args)]
pub(crate) struct Query {
    #[command(flatten)]
    of: World,
    /// The name of a query of the program.
    query: String,
    /// JSON; anything else is sent as a string.
    #[arg(allow_negative_numbers = true)]
    params: Option<String>,
    /// The state when this was the next height.
    #[arg(long)]
    at: Option<u64>,
    /// Waits until the world has processed the position that `mundi world send` printed (`s_…`), or has reached this height.
    #[arg(long, value_name = "PLACE|HEIGHT", conflicts_with = "at")]
    at_least: Option<String>,
    /// How long to wait for --at-least: `250ms`, `30s`, `5m`.
    #[arg(long, default_value = "30s")]
    timeout: String,
}

impl Query {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, query, params, at, at_least, timeout } = self;
        let at = match (at, at_least) {
            (Some(at), _) => format!("?at={at}"),
            (None, Some(place)) => format!("?at_least={}&timeout={}", escape(&place), escape(&timeout)),
            (None, None) => String::new(),
        };
        out.value(&of.post(&format!("/query/{}{at}", escape(&query)), &value(params)?).await?)
    }
}
