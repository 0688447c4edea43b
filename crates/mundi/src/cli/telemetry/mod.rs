//! Telemetry of the process: a log on stderr, and traces, metrics and log lines by OTLP if the standard variables name a
//! collector (`OTEL_EXPORTER_OTLP_ENDPOINT`). If a collector is slow or down, spans are dropped, and requests do not wait: the export
//! queue is bounded.

mod logs;
mod otlp;
mod spans;

use super::exit::{Failed, Outcome};
use mundi_model::Code;
use mundi_server::api::{Api, Sampler};
use opentelemetry::trace::TracerProvider;
use std::io::IsTerminal;
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{Targets, filter_fn},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Our own crates begin so; what the exporter's client says must not become spans that are exported.
const TARGET: &str = "mundi";

pub(super) struct Telemetry {
    exported: Option<otlp::Exported>,
}

impl Telemetry {
    /// Begins to log, and to record spans if anyone is to get them.
    pub(super) fn start() -> Outcome<Self> {
        let filter = EnvFilter::try_from_env("MUNDI_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
        // A log that goes to a file has no colours.
        let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours).with_filter(filter);
        let exported = otlp::Exported::from_environment(|name| std::env::var(name).ok());
        let exported = exported.map_err(|cause| Failed::new(Code::ConfigInvalid, cause))?;
        let tracer = exported.as_ref().and_then(|exported| exported.spans.as_ref()).map(|spans| spans.0.tracer(TARGET));
        let layer = tracer.map(|tracer| {
            let ours = Targets::new().with_target(TARGET, tracing::Level::DEBUG);
            spans::Spans::new(tracer).with_filter(ours)
        });
        let lines = exported.as_ref().and_then(|exported| exported.logs.as_ref());
        let lines = lines.map(|logs| logs::Logs::new(logs).with_filter(filter_fn(logs::is_exported)));
        tracing_subscriber::registry().with(log).with(layer).with(lines).init();
        Ok(Self { exported })
    }

    /// Decides which traces are recorded; `None` if none are.
    pub(super) fn sampler(&self) -> Option<Sampler> {
        let (_, sampler) = self.exported.as_ref()?.spans.as_ref()?;
        Some(otlp::root_sampler(sampler.clone()))
    }

    /// Exports what the process counts, from now on.
    pub(super) fn observe(&self, api: &Api) {
        if let Some(meters) = self.exported.as_ref().and_then(|exported| exported.meters.as_ref()) {
            otlp::observe(meters, api);
        }
    }

    /// Sends what is left, for a short while at most.
    pub(super) async fn end(self) {
        let Some(exported) = self.exported else { return };
        let _ended = tokio::task::spawn_blocking(move || exported.end()).await;
    }
}
