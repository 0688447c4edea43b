//! The dashboard asks only for what is there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_runtime::metrics::{Family, Metric, Timing};
use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../../../deploy/grafana/mundi.json");

/// Everything that looks like the name of a metric of ours.
fn metrics_in(query: &str) -> BTreeSet<&str> {
    let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("mundi_")).collect()
}

#[test]
fn every_query_of_the_dashboard_names_a_metric_that_exists() {
    let families = Family::ALL.map(|family| family.name);
    let histograms = Timing::ALL.iter().map(|timing| timing.name()).chain([Family::HTTP_REQUEST_SECONDS.name]);
    let buckets: Vec<String> = histograms.map(|histogram| format!("{histogram}_bucket")).collect();
    let alone = Metric::ALL.iter().map(|metric| metric.name());
    let known: BTreeSet<&str> = alone.chain(families).chain(buckets.iter().map(String::as_str)).collect();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut queries = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let asked = metrics_in(target["expr"].as_str().unwrap());
            assert!(!asked.is_empty(), "{} asks for nothing of ours", panel["title"]);
            for name in asked {
                assert!(known.contains(name), "{} asks for {name}", panel["title"]);
            }
            queries += 1;
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let asked = metrics_in(variable["query"].as_str().unwrap());
        assert!(asked.is_subset(&known), "{asked:?}");
    }
    assert!(queries > 10);
}

/// The performance targets of the operating guide.
#[test]
fn every_target_has_a_panel_with_its_line() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    for timing in Timing::ALL {
        let bucket = format!("{}_bucket", timing.name());
        let asks = |panel: &&Value| {
            let targets = panel["targets"].as_array().unwrap();
            targets.iter().any(|target| {
                let query = target["expr"].as_str().unwrap();
                query.contains(&bucket) && query.starts_with("histogram_quantile(0.95,")
            })
        };
        let panel = dashboard["panels"].as_array().unwrap().iter().find(asks);
        let panel = panel.unwrap_or_else(|| panic!("no panel shows the p95 of {}", timing.name()));
        let line = panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"].as_f64().unwrap();
        let target = std::time::Duration::from_micros(timing.target_us()).as_secs_f64();
        assert!((line - target).abs() < 1e-9, "{}: {line} is not {target}", timing.name());
    }
}
