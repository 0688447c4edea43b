//! The text of `/metrics`: what the process counted, what its worker shells counted, and how much waits in the queues.

use super::Api;
use crate::{
    node::Universe,
    quotas::{Quota, QuotaUse, Scope},
};
use futures_util::future::join_all;
use mundi_engine::Engine;
use mundi_runtime::{
    metrics::{BOUNDS_US, Family, Metric, Times, Timing},
    shell::Counters,
};
use mundi_store::protocol::Depths;
use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::Duration};

/// How long a scrape waits for the engine. Where it does not answer, the depths of queues are left out and all else is told.
const DEPTHS_TIMEOUT: Duration = Duration::from_secs(1);

/// Everything, as Prometheus reads it.
pub(super) async fn exposition<E: Engine>(api: &Api<E>) -> String {
    api.node.note_memory();
    api.node.metrics().set(Metric::BodyBytes, api.bodies.bytes());
    api.node.metrics().set(Metric::AnswerBytes, api.answers.bytes());
    let mut text = String::new();
    for (metric, value) in api.node.metrics().snapshot() {
        let (name, meaning, kind) = (metric.name(), metric.meaning(), kind(metric));
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    for timing in Timing::ALL {
        let (name, meaning) = (timing.name(), timing.meaning());
        let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} histogram");
        write_histogram(&mut text, name, "", &api.node.metrics().times(timing));
    }
    write_failures(&mut text, &api.node.metrics().failures());
    write_shells(&mut text, &api.node.shell_counters());
    write_queues(&mut text, &depths(api).await);
    let uses = api.node.universes().iter().map(|of| (of.name().to_owned(), of.quotas().uses())).collect::<Vec<_>>();
    write_quotas(&mut text, &uses, &api.node.refusals().all());
    api.requests.write(&mut text);
    text
}

fn kind(metric: Metric) -> &'static str {
    if metric.name().ends_with("_total") { "counter" } else { "gauge" }
}

/// `labels` without braces; none is the empty text.
pub(super) fn write_histogram(text: &mut String, name: &str, labels: &str, times: &Times) {
    let seconds = |us: u64| Duration::from_micros(us).as_secs_f64();
    let bounds = BOUNDS_US.iter().map(|bound_us| seconds(*bound_us).to_string()).chain(["+Inf".to_owned()]);
    let (comma, own) = if labels.is_empty() { ("", String::new()) } else { (",", format!("{{{labels}}}")) };
    let mut so_far = 0;
    for (bound, count) in bounds.zip(times.counts) {
        so_far += count;
        let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {so_far}");
    }
    let _ = writeln!(text, "{name}_sum{own} {}\n{name}_count{own} {so_far}", seconds(times.sum_us));
}

fn write_family(text: &mut String, family: Family, values: impl IntoIterator<Item = (String, f64)>) {
    let Family { name, meaning, .. } = family;
    let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
    let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{{{labels}}} {value}");
    }
}

/// Steps that failed, by program and code.
fn write_failures(text: &mut String, failures: &[(String, String, u64)]) {
    let labels = |program: &str, code: &str| format!("program=\"{program}\",code=\"{code}\"");
    let values = failures.iter().map(|(program, code, count)| (labels(program, code), float(*count)));
    write_family(text, Family::STEP_FAILURES, values);
}

fn write_shells(text: &mut String, shells: &[(&str, Counters)]) {
    let mut write = |family: Family, of: &dyn Fn(&Counters) -> Vec<(&'static str, u64)>| {
        let values = shells.iter().flat_map(|(shell, counters)| {
            let label = |value: &str| match family.labels {
                [_, second] => format!("shell=\"{shell}\",{second}=\"{value}\""),
                _ => format!("shell=\"{shell}\""),
            };
            of(counters).into_iter().map(move |(value, count)| (label(value), float(count))).collect::<Vec<_>>()
        });
        write_family(text, family, values);
    };
    write(Family::SHELL_ATTEMPTS, &|c| vec![("inbox", c.inbox_attempts), ("timer", c.timer_attempts)]);
    write(Family::SHELL_RESULTS, &|c| {
        let retried = [("conflict", c.conflict_retries), ("busy", c.busy_retries)];
        [("ok", c.successes)].into_iter().chain(retried).chain([("failed", c.non_retryable)]).collect()
    });
    write(Family::SHELL_REQUEUES, &|c| vec![("", c.requeues)]);
    write(Family::SHELL_DEAD_LETTERS, &|c| vec![("", c.dead_letters)]);
    write(Family::SHELL_LATENCY, &|c| vec![("", c.latency_total_ms)]);
    write(Family::SHELL_LATENCY_SAMPLES, &|c| vec![("", c.latency_samples)]);
    write(Family::SHELL_LATENCY_MAX, &|c| vec![("", c.latency_max_ms)]);
}

/// Prometheus has no other numbers.
#[expect(clippy::cast_precision_loss, reason = "counters stay far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}

/// Of every universe that this process serves; of none if the engine does not answer in time.
async fn depths<E: Engine>(api: &Api<E>) -> Vec<(String, Depths)> {
    let of = async |universe: Arc<Universe<E>>| {
        let depths = universe.ops().queue_depths().await;
        depths.map(|depths| (universe.name().to_owned(), depths))
    };
    let all = join_all(api.node.universes().into_iter().map(of));
    match tokio::time::timeout(DEPTHS_TIMEOUT, all).await {
        Ok(found) => found.into_iter().flatten().collect(),
        Err(_) => Vec::new(),
    }
}

fn write_queues(text: &mut String, universes: &[(String, Depths)]) {
    let each = |of: &dyn Fn(&Depths) -> Vec<(&'static str, u64)>| -> Vec<(String, f64)> {
        let values = universes.iter().flat_map(|(universe, depths)| {
            let label = move |queue| format!("universe=\"{universe}\",queue=\"{queue}\"");
            of(depths).into_iter().map(move |(queue, count)| (label(queue), float(count))).collect::<Vec<_>>()
        });
        values.collect()
    };
    let waiting = each(&|depths| {
        let [pending, retrying, claimed] = depths.effects;
        vec![("effects", pending), ("effect-retries", retrying), ("effect-claims", claimed), ("timers", depths.timers)]
    });
    write_family(text, Family::QUEUE_DEPTH, waiting);
    let letters = each(&|depths| {
        let [effects, timers, mailboxes] = depths.dead_letters;
        vec![("effects", effects), ("timers", timers), ("mailboxes", mailboxes)]
    });
    write_family(text, Family::QUEUE_DEAD_LETTERS, letters);
    let oldest = universes.iter().map(|(universe, depths)| {
        (format!("universe=\"{universe}\""), Duration::from_nanos(depths.effect_age_ns_max).as_secs_f64())
    });
    write_family(text, Family::EFFECT_OLDEST, oldest);
}

fn write_quotas(text: &mut String, universes: &[(String, Vec<QuotaUse>)], refusals: &BTreeMap<(Scope, Quota), u64>) {
    let each = |of: &dyn Fn(&QuotaUse) -> Option<u64>| -> Vec<(String, f64)> {
        let values = universes.iter().flat_map(|(universe, uses)| {
            let label = move |quota: Quota| format!("universe=\"{universe}\",quota=\"{}\"", quota.as_str());
            uses.iter().filter_map(move |used| Some((label(used.quota), float(of(used)?)))).collect::<Vec<_>>()
        });
        values.collect()
    };
    write_family(text, Family::QUOTA_LIMIT, each(&|used| used.limit));
    write_family(text, Family::QUOTA_USED, each(&|used| used.current));
    let refused = refusals.iter().map(|((scope, quota), count)| {
        (format!("scope=\"{}\",quota=\"{}\"", scope.as_str(), quota.as_str()), float(*count))
    });
    write_family(text, Family::QUOTA_REFUSED, refused);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }

    #[test]
    fn every_counter_of_a_shell_is_told() {
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
        let mut text = String::new();
        write_shells(&mut text, &[("delayed", counters)]);
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
    fn failed_steps_are_told_by_program_and_code() {
        let mut text = String::new();
        write_failures(&mut text, &[("h_1".to_owned(), "PROGRAM_FAILED".to_owned(), 3)]);
        has(&text, "mundi_step_failures_total{program=\"h_1\",code=\"PROGRAM_FAILED\"} 3");
    }

    #[test]
    fn every_queue_of_a_universe_is_told() {
        let depths =
            Depths { effects: [1, 2, 3], effect_age_ns_max: 1_500_000_000, timers: 4, dead_letters: [5, 6, 7] };
        let mut text = String::new();
        write_queues(&mut text, &[("default".to_owned(), depths)]);
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
    fn quotas_are_told_where_there_are_some_and_what_counts_where_it_is_known() {
        let used = |quota, limit, current| QuotaUse { quota, limit, current };
        let uses = vec![used(Quota::Worlds, Some(7), Some(3)), used(Quota::Calls, None, Some(2))];
        let (mut text, refused) = (String::new(), BTreeMap::from([((Scope::Token, Quota::Calls), 5)]));
        write_quotas(&mut text, &[("default".to_owned(), uses)], &refused);
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
    fn a_histogram_without_labels_is_one_that_prometheus_reads() {
        let (mut text, mut times) = (String::new(), Times::default());
        times.add(50_000);
        write_histogram(&mut text, "it", "", &times);
        for line in ["it_bucket{le=\"0.025\"} 0", "it_bucket{le=\"0.05\"} 1", "it_sum 0.05", "it_count 1"] {
            has(&text, line);
        }
    }
}
