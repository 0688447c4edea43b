//! Our spans as OpenTelemetry's.
//!
//! A world's event is worked on by tasks that do not know each other, perhaps in another process, perhaps days later. What
//! ties them together is the text of the trace context that travels with it (`mundi_runtime::trace`). So a span that has a
//! field `trace` is a child of what that names, wherever it runs; a field `span` is the context that is its own. One that has
//! neither, and stands in none that has, is about no trace and is not exported.

use mundi_runtime::trace::TraceContext;
use opentelemetry::{
    Context, KeyValue, SpanId, TraceFlags, TraceId, Value,
    trace::{Span, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, TraceState},
};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracer, Span as SdkSpan};
use std::{cell::Cell, fmt, time::SystemTime};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer, registry::LookupSpan};

/// The layer that hands spans to a tracer.
pub(super) struct Spans {
    tracer: SdkTracer,
}

/// The state of a span, kept beside it.
enum Kept {
    /// It belongs to no trace, as far as is known.
    Waiting(Box<SpanBuilder>),
    Begun(Box<SdkSpan>),
}

impl Spans {
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self { tracer }
    }

    fn begin(&self, builder: SpanBuilder, parent: Option<SpanContext>, own: Option<TraceContext>) -> Kept {
        let parent = parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        NEXT.set(own);
        let span = builder.start_with_context(&self.tracer, &parent);
        NEXT.set(None);
        Kept::Begun(Box::new(span))
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Spans {
    #[expect(clippy::disallowed_methods, reason = "the edge: a span is about the time of the machine")]
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: layer::Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut told = Told::default();
        attributes.record(&mut told);
        let name = told.name.take().map_or(attributes.metadata().name().into(), std::borrow::Cow::from);
        let builder = SpanBuilder::from_name(name)
            .with_kind(told.kind.take().unwrap_or(SpanKind::Internal))
            .with_start_time(SystemTime::now())
            .with_attributes(std::mem::take(&mut told.attributes));
        let around = || {
            span.scope().skip(1).find_map(|span| match span.extensions().get() {
                Some(Kept::Begun(begun)) => Some(begun.span_context().clone()),
                _ => None,
            })
        };
        let parent = told.trace.map(remote).or_else(around);
        let kept = match (parent, told.span) {
            (None, None) => Kept::Waiting(Box::new(builder)),
            (parent, own) => self.begin(builder, parent, own),
        };
        span.extensions_mut().insert(kept);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: layer::Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut told = Told::default();
        values.record(&mut told);
        let mut extensions = span.extensions_mut();
        let Some(kept) = extensions.get_mut::<Kept>() else { return };
        match kept {
            Kept::Waiting(builder) => {
                builder.attributes.get_or_insert_default().append(&mut told.attributes);
                if let Some(parent) = told.trace {
                    *kept = self.begin(std::mem::take(&mut **builder), Some(remote(parent)), told.span);
                }
            }
            Kept::Begun(begun) => {
                begun.set_attributes(told.attributes);
                if told.failed {
                    begun.set_status(Status::error(""));
                }
                // It is part of several: of the first one by birth, of the others by a link.
                if let Some(also) =
                    told.trace.map(remote).filter(|also| also.trace_id() != begun.span_context().trace_id())
                {
                    begun.add_link(also, Vec::new());
                }
            }
        }
    }

    /// Warnings and errors are part of the story; the rest is in the log, for who wants it.
    fn on_event(&self, event: &Event<'_>, context: layer::Context<'_, S>) {
        if *event.metadata().level() > Level::WARN {
            return;
        }
        let Some(span) = context.event_span(event) else { return };
        if let Some(Kept::Begun(begun)) = span.extensions_mut().get_mut() {
            let mut told = Told::default();
            event.record(&mut told);
            begun.add_event(told.message.unwrap_or_else(|| "event".to_owned()), told.attributes);
        }
    }

    fn on_close(&self, id: Id, context: layer::Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(Kept::Begun(mut begun)) = span.extensions_mut().remove() {
            begun.end();
        }
    }
}

fn remote(context: TraceContext) -> SpanContext {
    let TraceContext { trace, span, flags } = context;
    let (trace, span) = (TraceId::from_bytes(trace), SpanId::from_bytes(span));
    SpanContext::new(trace, span, TraceFlags::new(flags), true, TraceState::default())
}

/// The fields of a span or an event.
#[derive(Default)]
struct Told {
    trace: Option<TraceContext>,
    span: Option<TraceContext>,
    name: Option<String>,
    kind: Option<SpanKind>,
    failed: bool,
    message: Option<String>,
    attributes: Vec<KeyValue>,
}

impl Told {
    fn attribute(&mut self, field: &Field, value: impl Into<Value>) {
        self.attributes.push(KeyValue::new(field.name(), value));
    }
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "trace" => self.trace = value.parse().ok(),
            "span" => self.span = value.parse().ok(),
            "otel.name" => self.name = Some(value.to_owned()),
            "otel.kind" => self.kind = (value == "server").then_some(SpanKind::Server),
            "otel.status_code" => self.failed = value == "ERROR",
            "message" => self.message = Some(value.to_owned()),
            _ => self.attribute(field, value.to_owned()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.attribute(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attribute(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.attribute(field, value),
            Err(_) => self.attribute(field, value.to_string()),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

thread_local! {
    /// The context of the span that this thread begins at this moment, if that is settled already.
    static NEXT: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

/// Random ids, except for spans that have one: others may have it in hand before the span is exported.
#[derive(Debug, Default)]
pub(super) struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        NEXT.get().map_or_else(|| self.0.new_trace_id(), |next| TraceId::from_bytes(next.trace))
    }

    fn new_span_id(&self) -> SpanId {
        NEXT.get().map_or_else(|| self.0.new_span_id(), |next| SpanId::from_bytes(next.span))
    }
}
