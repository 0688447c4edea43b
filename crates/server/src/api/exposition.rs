//! The text of `/metrics` (OpenMetrics): counters of the process and of its worker shells, and the depths of the queues.

use super::Api;
use crate::{
    node::Universe,
    quotas::{Quota, QuotaUse, Scope},
};
use futures_util::future::join_all;
use mundi_model::UniverseId;
use mundi_runtime::{
    children::{ChildCounts, ChildDepth},
    metrics::{BOUNDS_US, Family, Metric, Times, Timing},
    shell::Counters,
};
use mundi_store::protocol::Depths;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// The media type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long a scrape waits for the engine. If it does not answer, the depths of queues are left out.
const DEPTHS_TIMEOUT: Duration = Duration::from_secs(1);

type Labels = Vec<(&'static str, String)>;
type Samples = Vec<(Labels, Value)>;

#[derive(Debug)]
enum Value {
    Number(u64),
    Seconds(f64),
    Times(Times),
}

/// All metrics of one scrape, by name and meaning.
#[derive(Debug, Default)]
pub(super) struct Scrape(Vec<(&'static str, &'static str, Samples)>);

/// The metrics of the process.
pub(super) async fn exposition(api: &Api) -> String {
    api.node.note_memory();
    api.node.metrics().set(Metric::BodyBytes, api.bodies.bytes());
    api.node.metrics().set(Metric::AnswerBytes, api.answers.bytes());
    let mut scrape = Scrape::default();
    for (metric, value) in api.node.metrics().snapshot() {
        scrape.0.push((metric.name(), metric.meaning(), vec![(Labels::new(), Value::Number(value))]));
    }
    for timing in Timing::ALL {
        let times = Value::Times(api.node.metrics().times(timing));
        scrape.0.push((timing.name(), timing.meaning(), vec![(Labels::new(), times)]));
    }
    scrape.add_failures(&api.node.metrics().failures());
    scrape.add_shells(&api.node.shell_counters());
    scrape.add_queues(&depths(api).await);
    look_at_pools(api).await;
    api.pool_gauges.add_to(&mut scrape);
    let results = api.node.metrics().pool_results();
    let results = results.into_iter().map(|(result, count)| (vec![("result", result.to_owned())], count));
    scrape.add_numbers(Family::POOL_COMMANDS, results);
    let names = api.node.universes().iter().map(|of| (of.id(), of.name().to_owned())).collect();
    scrape.add_children(api.node.metrics().children(), &names);
    let uses = api.node.universes().iter().map(|of| (of.name().to_owned(), of.quotas().uses())).collect::<Vec<_>>();
    scrape.add_quotas(&uses, &api.node.refusals().all());
    api.requests.add_to(&mut scrape);
    scrape.text()
}

impl Scrape {
    pub(super) fn add_numbers(&mut self, family: Family, samples: impl IntoIterator<Item = (Labels, u64)>) {
        self.add(family, samples.into_iter().map(|(labels, number)| (labels, Value::Number(number))));
    }

    pub(super) fn add_times(&mut self, family: Family, samples: impl IntoIterator<Item = (Labels, Times)>) {
        self.add(family, samples.into_iter().map(|(labels, times)| (labels, Value::Times(times))));
    }

    fn add(&mut self, family: Family, samples: impl IntoIterator<Item = (Labels, Value)>) {
        self.0.push((family.name, family.meaning, samples.into_iter().collect()));
    }

    fn add_children(&mut self, children: &ChildCounts, names: &BTreeMap<UniverseId, String>) {
        let kind = |kind: &str| ("kind", kind.to_owned());
        let dispatched = children.all_dispatched().into_iter().map(|(of, count)| (vec![kind(of)], count));
        self.add_numbers(Family::CHILDREN_DISPATCHED, dispatched);
        let ended = children.all_ended().into_iter();
        let ended = ended.map(|((of, code), count)| (vec![kind(of), ("code", code.to_owned())], count));
        self.add_numbers(Family::CHILDREN_ENDED, ended);
        let mut add = |family, of: &dyn Fn(&ChildDepth) -> u64| {
            let depths = children.depths().into_iter();
            let depths = depths.filter_map(|(id, depth)| Some((names.get(&id)?.clone(), of(&depth))));
            self.add_numbers(family, depths.map(|(universe, count)| (vec![("universe", universe)], count)));
        };
        add(Family::CHILDREN_QUEUED, &|depth| depth.queued);
        add(Family::CHILDREN_ACTIVE, &|depth| depth.active);
    }

    /// Steps that failed, by program and code.
    fn add_failures(&mut self, failures: &[(String, String, u64)]) {
        let sample = |(program, code, count): &(String, String, u64)| {
            (vec![("program", program.clone()), ("code", code.clone())], *count)
        };
        self.add_numbers(Family::STEP_FAILURES, failures.iter().map(sample));
    }

    fn add_shells(&mut self, shells: &[(&str, Counters)]) {
        let mut add = |family: Family, of: &dyn Fn(&Counters) -> Vec<(&'static str, u64)>| {
            let samples = shells.iter().flat_map(|(shell, counters)| {
                let labels = |value: &str| {
                    let second = family.labels.get(1).map(|label| (*label, value.to_owned()));
                    [("shell", (*shell).to_owned())].into_iter().chain(second).collect()
                };
                of(counters).into_iter().map(|(value, count)| (labels(value), count)).collect::<Vec<_>>()
            });
            self.add_numbers(family, samples);
        };
        add(Family::SHELL_ATTEMPTS, &|c| vec![("inbox", c.inbox_attempts), ("timer", c.timer_attempts)]);
        add(Family::SHELL_RESULTS, &|c| {
            let retried = [("conflict", c.conflict_retries), ("busy", c.busy_retries)];
            [("ok", c.successes)].into_iter().chain(retried).chain([("failed", c.non_retryable)]).collect()
        });
        add(Family::SHELL_REQUEUES, &|c| vec![("", c.requeues)]);
        add(Family::SHELL_DEAD_LETTERS, &|c| vec![("", c.dead_letters)]);
        add(Family::SHELL_LATENCY, &|c| vec![("", c.latency_total_ms)]);
        add(Family::SHELL_LATENCY_SAMPLES, &|c| vec![("", c.latency_samples)]);
        add(Family::SHELL_LATENCY_MAX, &|c| vec![("", c.latency_max_ms)]);
    }

    fn add_queues(&mut self, universes: &[(String, Depths)]) {
        let mut add = |family, of: &dyn Fn(&Depths) -> Vec<(&'static str, u64)>| {
            let samples = universes.iter().flat_map(|(universe, depths)| {
                let labels = |queue: &str| vec![("universe", universe.clone()), ("queue", queue.to_owned())];
                of(depths).into_iter().map(|(queue, count)| (labels(queue), count)).collect::<Vec<_>>()
            });
            self.add_numbers(family, samples);
        };
        add(Family::QUEUE_DEPTH, &|depths| {
            let [pending, retrying, claimed] = depths.effects;
            let effects = [("effects", pending), ("effect-retries", retrying), ("effect-claims", claimed)];
            effects.into_iter().chain([("timers", depths.timers)]).collect()
        });
        add(Family::QUEUE_DEAD_LETTERS, &|depths| {
            let [effects, timers, mailboxes] = depths.dead_letters;
            vec![("effects", effects), ("timers", timers), ("mailboxes", mailboxes)]
        });
        let oldest = universes.iter().map(|(universe, depths)| {
            let seconds = Duration::from_nanos(depths.effect_age_ns_max).as_secs_f64();
            (vec![("universe", universe.clone())], Value::Seconds(seconds))
        });
        self.add(Family::EFFECT_OLDEST, oldest);
    }

    fn add_quotas(&mut self, universes: &[(String, Vec<QuotaUse>)], refusals: &BTreeMap<(Scope, Quota), u64>) {
        let mut add = |family, of: &dyn Fn(&QuotaUse) -> Option<u64>| {
            let samples = universes.iter().flat_map(|(universe, uses)| {
                let labels = |quota: Quota| vec![("universe", universe.clone()), ("quota", quota.as_str().to_owned())];
                uses.iter().filter_map(|used| Some((labels(used.quota), of(used)?))).collect::<Vec<_>>()
            });
            self.add_numbers(family, samples);
        };
        add(Family::QUOTA_LIMIT, &|used| used.limit);
        add(Family::QUOTA_USED, &|used| used.current);
        let refused = refusals.iter().map(|((scope, quota), count)| {
            (vec![("scope", scope.as_str().to_owned()), ("quota", quota.as_str().to_owned())], *count)
        });
        self.add_numbers(Family::QUOTA_REFUSED, refused);
    }

    pub(super) fn text(self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register_collector(Box::new(self));
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, meaning, samples) in &self.0 {
            // The encoder adds the suffix of counters.
            let (name, kind) = match (name.strip_suffix("_total"), samples.first()) {
                (Some(name), _) => (name, MetricType::Counter),
                (None, Some((_, Value::Times(_)))) => (*name, MetricType::Histogram),
                _ => (*name, MetricType::Gauge),
            };
            let mut metric = encoder.encode_descriptor(name, meaning, None, kind)?;
            for (labels, value) in samples {
                match labels.is_empty() {
                    true => encode(&mut metric, kind, value)?,
                    false => encode(&mut metric.encode_family(labels)?, kind, value)?,
                }
            }
        }
        Ok(())
    }
}

fn encode(metric: &mut MetricEncoder<'_>, kind: MetricType, value: &Value) -> fmt::Result {
    match (value, kind) {
        (Value::Number(number), MetricType::Counter) => metric.encode_counter::<NoLabelSet, _, u64>(number, None),
        (Value::Number(number), _) => metric.encode_gauge(number),
        (Value::Seconds(seconds), _) => metric.encode_gauge(seconds),
        (Value::Times(times), _) => {
            let seconds = |us: u64| Duration::from_micros(us).as_secs_f64();
            let bounds = BOUNDS_US.iter().map(|bound_us| seconds(*bound_us)).chain([f64::INFINITY]);
            let buckets: Vec<_> = bounds.zip(times.counts).collect();
            metric.encode_histogram::<NoLabelSet>(seconds(times.sum_us), times.count(), &buckets, None)
        }
    }
}

/// Of every universe that this process serves; of none if the engine does not answer in time.
async fn depths(api: &Api) -> Vec<(String, Depths)> {
    let of = async |universe: Arc<Universe>| {
        let depths = universe.ops().queue_depths().await;
        depths.map(|depths| (universe.name().to_owned(), depths))
    };
    let all = join_all(api.node.universes().into_iter().map(of));
    match tokio::time::timeout(DEPTHS_TIMEOUT, all).await {
        Ok(found) => found.into_iter().flatten().collect(),
        Err(_) => Vec::new(),
    }
}

/// Of every universe that this process serves, as far as they answer in time.
async fn look_at_pools(api: &Api) {
    let look = async |universe: Arc<Universe>| {
        if let Err(error) = api.pool_gauges.refresh(&universe).await {
            tracing::debug!(%error, universe = universe.name(), "the pools of a universe could not be looked at");
        }
    };
    let all = join_all(api.node.universes().into_iter().map(look));
    drop(tokio::time::timeout(DEPTHS_TIMEOUT, all).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(add: impl FnOnce(&mut Scrape)) -> String {
        let mut scrape = Scrape::default();
        add(&mut scrape);
        scrape.text()
    }

    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }

    #[test]
    fn every_counter_of_a_shell_is_exposed() {
        let counters = Counters {
            inbox_attempts: 1,
            timer_attempts: 2,
            successes: 3,
            conflict_retries: 4,
            busy_retries: 5,
            non_retryable: 6,
            requeues: 7,
            dead_letters: 8,
            latency_samples: 9,
            latency_total_ms: 10,
            latency_max_ms: 11,
        };
        let text = text(|scrape| scrape.add_shells(&[("delayed", counters)]));
        for line in [
            "mundi_shell_attempts_total{shell=\"delayed\",source=\"inbox\"} 1",
            "mundi_shell_attempts_total{shell=\"delayed\",source=\"timer\"} 2",
            "mundi_shell_results_total{shell=\"delayed\",result=\"ok\"} 3",
            "mundi_shell_results_total{shell=\"delayed\",result=\"conflict\"} 4",
            "mundi_shell_results_total{shell=\"delayed\",result=\"busy\"} 5",
            "mundi_shell_results_total{shell=\"delayed\",result=\"failed\"} 6",
            "mundi_shell_requeues_total{shell=\"delayed\"} 7",
            "mundi_shell_dead_letters_total{shell=\"delayed\"} 8",
            "mundi_shell_latency_samples_total{shell=\"delayed\"} 9",
            "mundi_shell_latency_ms_total{shell=\"delayed\"} 10",
            "mundi_shell_latency_ms_max{shell=\"delayed\"} 11",
        ] {
            has(&text, line);
        }
    }

    #[test]
    fn failed_steps_are_exposed_by_program_and_code() {
        let failures = [("h_1".to_owned(), "PROGRAM_FAILED".to_owned(), 3)];
        let text = text(|scrape| scrape.add_failures(&failures));
        has(&text, "mundi_step_failures_total{program=\"h_1\",code=\"PROGRAM_FAILED\"} 3");
    }

    #[test]
    fn every_queue_of_a_universe_is_exposed() {
        let depths =
            Depths { effects: [1, 2, 3], effect_age_ns_max: 1_500_000_000, timers: 4, dead_letters: [5, 6, 7] };
        let text = text(|scrape| scrape.add_queues(&[("default".to_owned(), depths)]));
        for line in [
            "mundi_queue_depth{universe=\"default\",queue=\"effects\"} 1",
            "mundi_queue_depth{universe=\"default\",queue=\"effect-retries\"} 2",
            "mundi_queue_depth{universe=\"default\",queue=\"effect-claims\"} 3",
            "mundi_queue_depth{universe=\"default\",queue=\"timers\"} 4",
            "mundi_queue_dead_letters{universe=\"default\",queue=\"effects\"} 5",
            "mundi_queue_dead_letters{universe=\"default\",queue=\"timers\"} 6",
            "mundi_queue_dead_letters{universe=\"default\",queue=\"mailboxes\"} 7",
            "mundi_queue_effect_oldest_seconds{universe=\"default\"} 1.5",
        ] {
            has(&text, line);
        }
    }

    #[test]
    fn quotas_are_exposed_where_they_are_set_and_their_use_where_it_is_known() {
        let used = |quota, limit, current| QuotaUse { quota, limit, current };
        let uses = vec![used(Quota::Worlds, Some(7), Some(3)), used(Quota::Calls, None, Some(2))];
        let refused = BTreeMap::from([((Scope::Token, Quota::Calls), 5)]);
        let text = text(|scrape| scrape.add_quotas(&[("default".to_owned(), uses)], &refused));
        for line in [
            "mundi_quota_limit{universe=\"default\",quota=\"worlds_max\"} 7",
            "mundi_quota_used{universe=\"default\",quota=\"worlds_max\"} 3",
            "mundi_quota_used{universe=\"default\",quota=\"calls_max\"} 2",
            "mundi_quota_refused_total{scope=\"token\",quota=\"calls_max\"} 5",
        ] {
            has(&text, line);
        }
        assert!(!text.contains("mundi_quota_limit{universe=\"default\",quota=\"calls_max\"}"));
    }

    #[test]
    fn histograms_are_cumulative_label_values_are_escaped_and_the_text_ends() {
        let mut times = Times::default();
        times.add(50_000);
        let route = |name: &str| vec![("method", "GET".to_owned()), ("route", name.to_owned())];
        let text = text(|scrape| scrape.add_times(Family::HTTP_REQUEST_SECONDS, [(route("a\"b"), times)]));
        for line in [
            "# TYPE mundi_http_request_seconds histogram",
            "mundi_http_request_seconds_bucket{le=\"0.025\",method=\"GET\",route=\"a\\\"b\"} 0",
            "mundi_http_request_seconds_bucket{le=\"0.05\",method=\"GET\",route=\"a\\\"b\"} 1",
            "mundi_http_request_seconds_bucket{le=\"+Inf\",method=\"GET\",route=\"a\\\"b\"} 1",
            "mundi_http_request_seconds_sum{method=\"GET\",route=\"a\\\"b\"} 0.05",
            "mundi_http_request_seconds_count{method=\"GET\",route=\"a\\\"b\"} 1",
        ] {
            has(&text, line);
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
