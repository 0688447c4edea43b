//! Log lines of programs and warnings of the process, as OpenTelemetry log records.

use super::TARGET;
use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use std::{fmt, time::SystemTime};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer};

/// Lines of programs come under this name, whatever their level.
const PROGRAM: &str = "mundi::program";

/// The layer that hands events to a logger.
pub(super) struct Logs {
    logger: SdkLogger,
}

impl Logs {
    pub(super) fn new(provider: &SdkLoggerProvider) -> Self {
        Self { logger: provider.logger(TARGET) }
    }
}

/// The lines that are exported: those of programs, and failures of this process. Lines of the exporter's own client are not.
pub(super) fn is_exported(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    metadata.is_event() && (target == PROGRAM || target.starts_with(TARGET) && *metadata.level() <= Level::WARN)
}

impl<S: Subscriber> Layer<S> for Logs {
    #[expect(clippy::disallowed_methods, reason = "the edge: a log record is about the time of the machine")]
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        let metadata = event.metadata();
        let mut record = self.logger.create_log_record();
        record.set_target(metadata.target());
        record.set_timestamp(SystemTime::now());
        record.set_observed_timestamp(SystemTime::now());
        record.set_severity_text(metadata.level().as_str());
        record.set_severity_number(match *metadata.level() {
            Level::TRACE => Severity::Trace,
            Level::DEBUG => Severity::Debug,
            Level::INFO => Severity::Info,
            Level::WARN => Severity::Warn,
            Level::ERROR => Severity::Error,
        });
        event.record(&mut Told { record: &mut record });
        self.logger.emit(record);
    }
}

/// Puts the fields of an event into a record.
struct Told<'a, R> {
    record: &'a mut R,
}

impl<R: LogRecord> Told<'_, R> {
    fn tell(&mut self, field: &Field, value: AnyValue) {
        match field.name() {
            "message" => self.record.set_body(value),
            name => self.record.add_attribute(name, value),
        }
    }
}

impl<R: LogRecord> Visit for Told<'_, R> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.tell(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.tell(field, value.to_owned().into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.tell(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.tell(field, i64::try_from(value).map_or_else(|_| value.to_string().into(), AnyValue::from));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.tell(field, value.into());
    }
}
