//! The dashboard asks only for what is there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_runtime::metrics::{Family, Metric};
use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../../deploy/grafana/mundi.json");

/// Everything that looks like the name of a metric of ours.
fn metrics_in(query: &str) -> BTreeSet<&str> {
    let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("mundi_")).collect()
}

#[test]
fn every_query_of_the_dashboard_names_a_metric_that_exists() {
    let families = Family::ALL.map(|family| family.name);
    let histogram = Family::HTTP_REQUEST_SECONDS.name;
    let buckets = format!("{histogram}_bucket");
    let alone = Metric::ALL.iter().map(|metric| metric.name());
    let known: BTreeSet<&str> = alone.chain(families).chain([buckets.as_str()]).collect();
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
