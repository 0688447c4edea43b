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

/// Warnings and errors, and on top of them the directives of `MUNDI_LOG`: one for a part of the process leaves the warnings of the rest, and so does
/// a mistyped level, which is taken for the name of a part.
fn filter(directives: Option<&str>) -> Outcome<EnvFilter> {
    let all = directives.map_or_else(|| "warn".to_owned(), |directives| format!("warn,{directives}"));
    let invalid = |error| {
        Failed::new(Code::ConfigInvalid, format!("MUNDI_LOG: {error}; such as info, or warn,mundi::program=debug"))
    };
    EnvFilter::try_new(all).map_err(invalid)
}

pub(super) struct Telemetry {
    exported: Option<otlp::Exported>,
}

impl Telemetry {
    /// Begins to log, and to record spans if anyone is to get them.
    pub(super) fn start() -> Outcome<Self> {
        let filter = filter(std::env::var("MUNDI_LOG").ok().as_deref())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_logged_unless_a_level_for_all_says_otherwise() {
        let shown = |directives| filter(directives).unwrap().to_string();
        assert_eq!((shown(None), shown(Some("")), shown(Some("warn"))), ("warn".into(), "warn".into(), "warn".into()));
        assert_eq!((shown(Some("info")), shown(Some("off"))), ("info".into(), "off".into()));
        for part in ["mundi::program=debug", "warn,mundi::program=debug"] {
            assert_eq!(shown(Some(part)), "mundi::program=debug,warn");
        }
        assert!(shown(Some("inof")).contains("warn"), "a mistyped level");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_refused() {
        let refused = filter(Some("mundi::program=loud")).unwrap_err();
        assert_eq!(refused.code, Some(Code::ConfigInvalid));
        assert!(refused.detail().starts_with("MUNDI_LOG: "), "{refused}");
    }
}
