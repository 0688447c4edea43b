//! The exporter, as the `OTEL_*` variables describe it, over the HTTP client that the process has anyway.

use async_trait::async_trait;
use bytes::Bytes;
use mundi_runtime::metrics::{Family, Metric};
use mundi_server::api::{self, Api};
use opentelemetry::{
    KeyValue,
    metrics::MeterProvider,
    trace::{SpanKind, TraceId},
};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{LogExporter, MetricExporter, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    logs::SdkLoggerProvider,
    metrics::SdkMeterProvider,
    trace::{Sampler, SamplingDecision, SdkTracerProvider, ShouldSample},
};
use std::{sync::Arc, time::Duration};

/// How long the last spans are tried to be sent when the process ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The specification's timeout of an export without another.
const TIMEOUT_MS: u64 = 10_000;

/// An answer says how many spans were refused; more than this is no answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

pub(super) struct Exported {
    pub(super) spans: Option<(SdkTracerProvider, Sampler)>,
    pub(super) meters: Option<SdkMeterProvider>,
    pub(super) logs: Option<SdkLoggerProvider>,
}

impl Exported {
    /// Nothing is exported unless a variable says where to.
    pub(super) fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let endpoint = |signal: &str| {
            let own = variable(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
            let exporter = variable(&format!("OTEL_{signal}_EXPORTER"));
            own.or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT")).filter(|_| exporter.as_deref() != Some("none"))
        };
        let [traces, metrics, logs] = ["TRACES", "METRICS", "LOGS"].map(|signal| endpoint(signal).is_some());
        let disabled = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if disabled || !traces && !metrics && !logs {
            return Ok(None);
        }
        for name in ["", "TRACES_", "METRICS_", "LOGS_"].map(|signal| format!("OTEL_EXPORTER_OTLP_{signal}PROTOCOL")) {
            if let Some(other) = variable(&name).filter(|name| !["http/protobuf", "http/json"].contains(&&**name)) {
                return Err(format!("{name}={other} is not spoken here: expected http/protobuf or http/json"));
            }
        }
        let sampler = {
            let (name, argument) = (variable("OTEL_TRACES_SAMPLER"), variable("OTEL_TRACES_SAMPLER_ARG"));
            sampler(name.as_deref(), argument.as_deref())?
        };
        let mut resource = Resource::builder();
        if variable("OTEL_SERVICE_NAME").is_none()
            && !variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|all| all.contains("service.name="))
        {
            resource = resource.with_service_name("mundi");
        }
        let resource = resource.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build();
        let timeout_ms =
            variable("OTEL_EXPORTER_OTLP_TIMEOUT").and_then(|text| text.parse().ok()).unwrap_or(TIMEOUT_MS);
        let client = Client::new(Duration::from_millis(timeout_ms)).map_err(|error| error.to_string())?;
        let failed = |error: &dyn ToString| format!("OTEL_*: {}", error.to_string());
        let spans = traces.then(|| {
            let exporter = SpanExporter::builder().with_http().with_http_client(client.clone()).build()?;
            let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_sampler(sampler.clone());
            let provider = provider.with_id_generator(super::spans::Ids::default()).with_resource(resource.clone());
            Ok::<_, opentelemetry_otlp::ExporterBuildError>((provider.build(), sampler))
        });
        let meters = metrics.then(|| {
            let exporter = MetricExporter::builder().with_http().with_http_client(client.clone()).build()?;
            let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource.clone());
            Ok::<_, opentelemetry_otlp::ExporterBuildError>(provider.build())
        });
        let logs = logs.then(|| {
            let exporter = LogExporter::builder().with_http().with_http_client(client.clone()).build()?;
            let provider = SdkLoggerProvider::builder().with_batch_exporter(exporter).with_resource(resource.clone());
            Ok::<_, opentelemetry_otlp::ExporterBuildError>(provider.build())
        });
        Ok(Some(Self {
            spans: spans.transpose().map_err(|error| failed(&error))?,
            meters: meters.transpose().map_err(|error| failed(&error))?,
            logs: logs.transpose().map_err(|error| failed(&error))?,
        }))
    }

    /// Sends what is left. Blocks.
    pub(super) fn end(self) {
        if let Some((spans, _)) = self.spans {
            let _or_lost = spans.shutdown_with_timeout(END_TIMEOUT);
        }
        if let Some(meters) = self.meters {
            let _or_lost = meters.shutdown_with_timeout(END_TIMEOUT);
        }
        if let Some(logs) = self.logs {
            let _or_lost = logs.shutdown_with_timeout(END_TIMEOUT);
        }
    }
}

/// By the names of the specification.
fn sampler(name: Option<&str>, argument: Option<&str>) -> Result<Sampler, String> {
    let ratio = || match argument.map(str::parse::<f64>) {
        None => Ok(1.0),
        Some(Ok(ratio)) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        Some(_) => Err("OTEL_TRACES_SAMPLER_ARG is no number from 0 to 1".to_owned()),
    };
    let parent_based = |root| Sampler::ParentBased(Box::new(root));
    match name.unwrap_or("parentbased_always_on") {
        "always_on" => Ok(Sampler::AlwaysOn),
        "always_off" => Ok(Sampler::AlwaysOff),
        "traceidratio" => Ok(Sampler::TraceIdRatioBased(ratio()?)),
        "parentbased_always_on" => Ok(parent_based(Sampler::AlwaysOn)),
        "parentbased_always_off" => Ok(parent_based(Sampler::AlwaysOff)),
        "parentbased_traceidratio" => Ok(parent_based(Sampler::TraceIdRatioBased(ratio()?))),
        other => Err(format!("OTEL_TRACES_SAMPLER={other} is not known here")),
    }
}

/// The decision of a sampler about a trace that begins here.
pub(super) fn root_sampler(sampler: Sampler) -> api::Sampler {
    Arc::new(move |trace| {
        let sampled = sampler.should_sample(None, TraceId::from_bytes(trace), "request", &SpanKind::Server, &[], &[]);
        sampled.decision == SamplingDecision::RecordAndSample
    })
}

/// Every metric that is a number, and the requests that were answered. How long they took is in `/metrics` alone.
pub(super) fn observe(meters: &SdkMeterProvider, api: &Api) {
    let meter = meters.meter("mundi");
    for &metric in Metric::ALL {
        let node = api.node.clone();
        if metric.name().ends_with("_total") {
            let counter = meter.u64_observable_counter(metric.name());
            let counter = counter.with_unit(metric.unit()).with_description(metric.meaning());
            counter.with_callback(move |seen| seen.observe(node.metrics().get(metric), &[])).build();
        } else {
            let gauge = meter.u64_observable_gauge(metric.name());
            let gauge = gauge.with_unit(metric.unit()).with_description(metric.meaning());
            gauge.with_callback(move |seen| seen.observe(node.metrics().get(metric), &[])).build();
        }
    }
    let (api, Family { name, unit, meaning, .. }) = (api.clone(), Family::HTTP_REQUESTS);
    let requests = meter.u64_observable_counter(name).with_unit(unit).with_description(meaning);
    requests
        .with_callback(move |seen| {
            for (method, route, status, count) in api.answers() {
                let labels = [
                    KeyValue::new("method", method),
                    KeyValue::new("route", String::from(route)),
                    KeyValue::new("status", i64::from(status)),
                ];
                seen.observe(count, &labels);
            }
        })
        .build();
}

/// The exporter's threads belong to no async runtime; requests are made on the process's.
#[derive(Debug, Clone)]
struct Client {
    client: reqwest::Client,
    runtime: tokio::runtime::Handle,
}

impl Client {
    fn new(timeout: Duration) -> reqwest::Result<Self> {
        // Whoever came first has chosen one that does as well.
        let _before = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(timeout).build()?;
        Ok(Self { client, runtime: tokio::runtime::Handle::current() })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, request) = (self.client.clone(), reqwest::Request::try_from(request)?);
        let sent = self.runtime.spawn(async move {
            let mut answer = client.execute(request).await?;
            let mut response = Response::builder().status(answer.status());
            if let Some(headers) = response.headers_mut() {
                headers.clone_from(answer.headers());
            }
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await? {
                if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                    return Err("the collector's answer is too long".into());
                }
                body.extend_from_slice(&chunk);
            }
            Ok::<_, HttpError>(response.body(Bytes::from(body))?)
        });
        sent.await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported(variables: &[(&str, &str)]) -> Result<Option<Exported>, String> {
        let value =
            |name: &str| variables.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned());
        Exported::from_environment(value)
    }

    #[test]
    fn nothing_is_exported_unless_someone_says_where_to() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        let nothing: [&[(&str, &str)]; 5] = [
            &[],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "  ")],
            &[("OTEL_SERVICE_NAME", "x")],
            &[endpoint, ("OTEL_SDK_DISABLED", "true")],
            &[
                endpoint,
                ("OTEL_TRACES_EXPORTER", "none"),
                ("OTEL_METRICS_EXPORTER", "none"),
                ("OTEL_LOGS_EXPORTER", "none"),
            ],
        ];
        for variables in nothing {
            assert!(matches!(exported(variables), Ok(None)), "{variables:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said_before_anything_starts() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        for (name, value) in [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_TRACES_SAMPLER", "sometimes")] {
            let refused = exported(&[endpoint, (name, value)]).err().unwrap();
            assert!(refused.contains(name) && refused.contains(value), "{refused}");
        }
        assert!(sampler(Some("traceidratio"), Some("7")).is_err());
    }

    #[test]
    fn a_trace_that_begins_here_is_recorded_as_the_sampler_says() {
        let says = |name: &str, argument: Option<&str>| root_sampler(sampler(Some(name), argument).unwrap())([7; 16]);
        assert!(says("always_on", None) && says("parentbased_always_on", None) && says("traceidratio", None));
        assert!(!says("always_off", None) && !says("parentbased_traceidratio", Some("0")));
    }
}
