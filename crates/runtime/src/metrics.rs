//! Every metric, with its name and its unit, in one place. The runtime counts its own; what others count has its name here too.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! metrics {
    ($($variant:ident = $name:literal, $unit:literal, $meaning:literal;)*) => {
        /// What is counted. Counters end in `_total` and only rise; those whose name ends in `_max` keep the largest value
        /// seen; all others say how it is now.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $(#[doc = $meaning] $variant,)*
        }

        impl Metric {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }

            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

metrics! {
    LeasesAcquired = "mundi_leases_acquired_total", "leases", "Leases that this worker was given.";
    LeasesRenewed = "mundi_leases_renewed_total", "leases", "Leases that were renewed, counted one by one.";
    LeasesLost = "mundi_leases_lost_total", "leases", "Worlds dropped because a renewal or a write was fenced.";
    LeasesReleased = "mundi_leases_released_total", "leases", "Leases given back: idle, evicted or drained.";
    Turns = "mundi_turns_total", "turns", "Turns that were committed.";
    TurnItems = "mundi_turn_items_total", "items", "Inbox items that turns took in or rejected.";
    TurnRecords = "mundi_turn_records_total", "records", "Journal records that turns appended.";
    InboxAgeNs = "mundi_inbox_age_ns_total", "nanoseconds", "How long the items that turns took had waited, together.";
    InboxAgeNsMax = "mundi_inbox_age_ns_max", "nanoseconds", "The longest that an item had waited when a turn took it.";
    InboxDepthMax = "mundi_inbox_depth_max", "items", "The most items that were seen to wait in one inbox after a cycle.";
    CycleNs = "mundi_cycle_ns_total", "nanoseconds", "Time spent in cycles of turns.";
    CycleNsMax = "mundi_cycle_ns_max", "nanoseconds", "The longest cycle of turns.";
    Restores = "mundi_restores_total", "worlds", "Worlds restored from their journal.";
    RecordsReplayed = "mundi_records_replayed_total", "records", "Journal records that restores replayed.";
    Snapshots = "mundi_snapshots_total", "snapshots", "Snapshots that became baselines.";
    InboxItemsCompacted = "mundi_inbox_items_compacted_total", "items", "Consumed inbox items that were removed after their grace period.";
    SegmentsExported = "mundi_segments_exported_total", "segments", "Segments that old journal records were moved into.";
    SegmentRecords = "mundi_segment_records_total", "records", "Journal records that were moved into segments.";
    WorldFailures = "mundi_world_failures_total", "failures", "Worlds dropped from memory because of an error.";
    RepliesDelivered = "mundi_replies_delivered_total", "replies", "Answers handed to callers that waited in this process.";
    ReadyScans = "mundi_ready_scans_total", "scans", "Looks into the ready queue.";
    ResidentWorlds = "mundi_resident_worlds", "worlds", "Worlds that are in memory.";
    ResidentWorldsMax = "mundi_resident_worlds_max", "worlds", "The most worlds that were in memory at a time.";
    EffectAttempts = "mundi_effect_attempts_total", "attempts", "Attempts at effects.";
    EffectFailures = "mundi_effect_failures_total", "attempts", "Attempts at effects that failed.";
    EffectNs = "mundi_effect_ns_total", "nanoseconds", "Time spent in attempts at effects.";
    EffectNsMax = "mundi_effect_ns_max", "nanoseconds", "The longest attempt at an effect.";
    EffectAgeNs = "mundi_effect_queue_age_ns_total", "nanoseconds", "How long effects had waited when they were first claimed, together.";
    EffectAgeNsMax = "mundi_effect_queue_age_ns_max", "nanoseconds", "The longest that an effect had waited when it was first claimed.";
    EffectsInHands = "mundi_effects_in_hands", "effects", "Effects that this worker carries out now.";
    TimersFired = "mundi_timers_fired_total", "timers", "Timers that were delivered.";
    TimerLagNsMax = "mundi_timer_lag_ns_max", "nanoseconds", "The most that a timer was late.";
    DeadLetters = "mundi_dead_letters_total", "letters", "Items that a queue gave up on.";
    HandedOn = "mundi_calls_handed_on_total", "calls", "Calls that were answered by another process, which holds their world.";
    HttpInFlight = "mundi_http_requests_in_flight", "requests", "Requests that are being answered now.";
}

/// A metric that has a value for each set of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub unit: &'static str,
    pub meaning: &'static str,
    /// Every label has few values, known beforehand: a route is a template and never an address that someone sent.
    pub labels: &'static [&'static str],
}

impl Family {
    pub const HTTP_REQUESTS: Self = Self {
        name: "mundi_http_requests_total",
        unit: "requests",
        meaning: "Requests that were answered; those whose client went away before have the status 499.",
        labels: &["method", "route", "status"],
    };
    pub const HTTP_REQUEST_SECONDS: Self = Self {
        name: "mundi_http_request_seconds",
        unit: "seconds",
        meaning: "Time from the head of a request to the head of its answer. Calls and claims that wait are in it.",
        labels: &["method", "route"],
    };
    pub const ALL: [Self; 2] = [Self::HTTP_REQUESTS, Self::HTTP_REQUEST_SECONDS];
}

/// The values of all metrics.
#[derive(Debug)]
pub struct Metrics(Vec<AtomicU64>);

impl Default for Metrics {
    fn default() -> Self {
        Self(Metric::ALL.iter().map(|_| AtomicU64::new(0)).collect())
    }
}

impl Metrics {
    pub fn add(&self, metric: Metric, count: u64) {
        self.0[metric as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// For those that say how it is now.
    pub fn sub(&self, metric: Metric, count: u64) {
        self.0[metric as usize].fetch_sub(count, Ordering::Relaxed);
    }

    /// Keeps the largest value.
    pub fn raise(&self, metric: Metric, value: u64) {
        self.0[metric as usize].fetch_max(value, Ordering::Relaxed);
    }

    /// How it is now.
    pub fn set(&self, metric: Metric, value: u64) {
        self.0[metric as usize].store(value, Ordering::Relaxed);
    }

    pub fn get(&self, metric: Metric) -> u64 {
        self.0[metric as usize].load(Ordering::Relaxed)
    }

    pub fn snapshot(&self) -> Vec<(Metric, u64)> {
        Metric::ALL.iter().map(|&metric| (metric, self.get(metric))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_end_in_what_they_are() {
        let names: BTreeSet<_> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(names.len(), Metric::ALL.len());
        let now = names.iter().filter(|name| !name.ends_with("_total") && !name.ends_with("_max"));
        let expected = ["mundi_effects_in_hands", "mundi_http_requests_in_flight", "mundi_resident_worlds"];
        assert!(now.copied().eq(expected));
        assert!(Family::ALL.iter().all(|family| !names.contains(family.name)));
    }

    #[test]
    fn counters_add_and_maxima_keep_the_largest() {
        let metrics = Metrics::default();
        for value in [3, 9, 4] {
            metrics.add(Metric::Turns, value);
            metrics.raise(Metric::CycleNsMax, value);
        }
        assert_eq!((metrics.get(Metric::Turns), metrics.get(Metric::CycleNsMax)), (16, 9));
    }
}
