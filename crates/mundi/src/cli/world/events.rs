//! What goes into a world, and what it answers.

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
    event: String,
    /// JSON; what is no JSON is taken as a text.
    value: Option<String>,
    /// Send it so much later: `10s`, `5m`.
    #[arg(long)]
    delay: Option<String>,
}

impl Send {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, event, value: given, delay } = self;
        let delay = delay.map_or_else(String::new, |delay| format!("?delay={}", escape(&delay)));
        let sent = of.post(&format!("/send/{}{delay}", escape(&event)), &value(given)?).await?;
        if sent["seq"].is_null() { out.object(&sent) } else { out.made(&sent, "seq") }
    }
}

#[derive(Args)]
pub(crate) struct Call {
    #[command(flatten)]
    of: World,
    event: String,
    /// JSON; what is no JSON is taken as a text.
    value: Option<String>,
    #[arg(long, default_value = "30s")]
    timeout: String,
}

impl Call {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, event, value: given, timeout } = self;
        out.value(&of.post(&format!("/call/{}?timeout={}", escape(&event), escape(&timeout)), &value(given)?).await?)
    }
}

#[derive(Args)]
pub(crate) struct Reply {
    #[command(flatten)]
    of: World,
    /// The call's place, which the error of a call that took too long names: `s_…`.
    call: String,
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
    query: String,
    /// JSON; what is no JSON is taken as a text.
    params: Option<String>,
    /// As it was when this was the next height.
    #[arg(long)]
    at: Option<u64>,
}

impl Query {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, query, params, at } = self;
        let at = at.map_or_else(String::new, |at| format!("?at={at}"));
        out.value(&of.post(&format!("/query/{}{at}", escape(&query)), &value(params)?).await?)
    }
}
