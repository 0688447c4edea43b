//! Every metric, with its name and its unit, in one place: those of the runtime and those of other crates.

use crate::children::ChildCounts;
use mundi_model::{Code, Hash, limits};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

macro_rules! metrics {
    ($($variant:ident = $name:literal, $unit:literal, $meaning:literal;)*) => {
        /// The metrics. Counters end in `_total` and only rise; those whose name ends in `_max` keep the largest value
        /// seen; all others are gauges of the current value.
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
    LeasesAcquired = "mundi_leases_acquired_total", "leases", "Leases that this worker acquired.";
    LeasesRenewed = "mundi_leases_renewed_total", "leases", "Leases that were renewed, counted one by one.";
    LeasesLost = "mundi_leases_lost_total", "leases", "Worlds dropped because a renewal or a write was fenced.";
    LeasesReleased = "mundi_leases_released_total", "leases", "Leases released: idle, evicted or drained.";
    Turns = "mundi_turns_total", "turns", "Turns that were committed.";
    TurnItems = "mundi_turn_items_total", "items", "Inbox items that turns processed or rejected.";
    TurnRecords = "mundi_turn_records_total", "records", "Journal records that turns appended.";
    InboxAgeNs = "mundi_inbox_age_ns_total", "nanoseconds", "Sum of the waiting times of the items that turns took.";
    InboxAgeNsMax = "mundi_inbox_age_ns_max", "nanoseconds", "The longest waiting time of an item that a turn took.";
    InboxDepthMax = "mundi_inbox_depth_max", "items", "The most items in one inbox after a cycle.";
    CycleNs = "mundi_cycle_ns_total", "nanoseconds", "Time spent in cycles of turns.";
    CycleNsMax = "mundi_cycle_ns_max", "nanoseconds", "The longest cycle of turns.";
    Restores = "mundi_restores_total", "worlds", "Worlds restored from their journal.";
    RecordsReplayed = "mundi_records_replayed_total", "records", "Journal records that restores replayed.";
    Snapshots = "mundi_snapshots_total", "snapshots", "Snapshots that became baselines.";
    InboxItemsCompacted = "mundi_inbox_items_compacted_total", "items", "Consumed inbox items that were removed after their grace period.";
    SegmentsExported = "mundi_segments_exported_total", "segments", "Segments that old journal records were moved into.";
    SegmentRecords = "mundi_segment_records_total", "records", "Journal records that were moved into segments.";
    WorldFailures = "mundi_world_failures_total", "failures", "Worlds dropped from memory because of an error.";
    StepsCrowded = "mundi_steps_crowded_total", "steps", "Steps for which this process had no capacity (`STEP_CROWDED`); they are run again later.";
    WorldsHeld = "mundi_worlds_held_total", "worlds", "Worlds that this worker put on hold because their turns or a step failed.";
    StepFailures = "mundi_steps_failed_total", "steps", "Steps of programs that failed: traps, refused output, errors of the program.";
    ObjectsAbsent = "mundi_objects_absent_total", "attempts", "Failed attempts of worlds while the object store did not return an existing object, lacked most of its objects or could not be read; none counts towards a hold.";
    RepliesDelivered = "mundi_replies_delivered_total", "replies", "Replies delivered to callers that waited in this process.";
    WorldCallsAnswered = "mundi_world_calls_answered_total", "replies", "Replies to calls of other worlds (`world.call`) that became their receipts.";
    ReadyScans = "mundi_ready_scans_total", "scans", "Scans of the ready queue.";
    ResidentWorlds = "mundi_resident_worlds", "worlds", "Worlds that are in memory.";
    ResidentWorldsMax = "mundi_resident_worlds_max", "worlds", "The most worlds that were in memory at a time.";
    WorldsRefused = "mundi_worlds_refused_total", "worlds", "Worlds that this worker refused because it runs `node.worlds_max` active worlds.";
    WorldsWithoutRoom = "mundi_worlds_without_room", "worlds", "Active worlds for which no worker had capacity at the orchestrator's last pass.";
    EffectsSuppressed = "mundi_effects_suppressed_total", "effects", "Effects of recorded and sandboxed forks that were answered without being carried out.";
    PacedCycles = "mundi_paced_cycles_total", "cycles", "Cycles of turns that waited because their universe had used its fuel (`fuel_per_second_max`).";
    PacedNs = "mundi_paced_ns_total", "nanoseconds", "Sum of the waiting times of these cycles.";
    EffectAttempts = "mundi_effect_attempts_total", "attempts", "Attempts of effects.";
    EffectFailures = "mundi_effect_failures_total", "attempts", "Attempts of effects that failed.";
    EffectsAnsweredElsewhere = "mundi_effects_answered_elsewhere_total", "attempts", "Attempts whose receipt comes from elsewhere: calls of other worlds that wait for their reply.";
    EffectNs = "mundi_effect_ns_total", "nanoseconds", "Time spent in attempts of effects.";
    EffectNsMax = "mundi_effect_ns_max", "nanoseconds", "The longest attempt of an effect.";
    EffectAgeNs = "mundi_effect_queue_age_ns_total", "nanoseconds", "Sum of the waiting times of effects when they were first claimed.";
    EffectAgeNsMax = "mundi_effect_queue_age_ns_max", "nanoseconds", "The longest waiting time of an effect when it was first claimed.";
    EffectsRunning = "mundi_effects_running", "effects", "Effects that this worker carries out now.";
    EffectsLimited = "mundi_effects_limited_total", "polls", "Polls of the effect queue that started none because of `effects.attempts_at_a_time_max` or `effects.attempts_per_second_max`.";
    TimersFired = "mundi_timers_fired_total", "timers", "Timers that were delivered.";
    TimerLagNsMax = "mundi_timer_lag_ns_max", "nanoseconds", "The largest delay of a timer.";
    DeadLetters = "mundi_dead_letters_total", "letters", "Items that a queue gave up on.";
    ShellsStopped = "mundi_shells_stopped_total", "shells", "Worker shells that stopped after a failure (`shell.on_non_retryable`).";
    ReplayRecordsDropped = "mundi_replay_records_dropped_total", "records", "Records that the replay log dropped because its disk was too slow or failed.";
    RefusedInboxAge = "mundi_refused_inbox_age_total", "requests", "Requests refused because the oldest item in the inbox of their world was too old (`WORLD_OVERLOADED`).";
    RefusedMemory = "mundi_refused_memory_total", "requests", "Requests refused because the process used too much memory (`NODE_OVERLOADED`).";
    RefusedAddressConnections = "mundi_refused_address_connections_total", "connections", "Connections refused because their address had too many (`CONNECTIONS_FULL`).";
    RefusedTokenConnections = "mundi_refused_token_connections_total", "requests", "Requests refused because their token had too many connections (`CONNECTIONS_FULL`).";
    ConnectionsAwaited = "mundi_connections_awaited_total", "connections", "Times that this process reached `api.connections_max` and let further connections wait in the operating system's queue.";
    CutHead = "mundi_cut_head_total", "connections", "Connections closed because the head of a request did not arrive in time.";
    CutSlow = "mundi_cut_slow_total", "connections", "Connections closed because their client read too slowly.";
    CutRevoked = "mundi_cut_revoked_total", "connections", "Connections closed because their token was revoked.";
    HandshakesFailed = "mundi_handshakes_failed_total", "connections", "Connections whose TLS handshake failed or took too long.";
    RefusedBodies = "mundi_refused_bodies_total", "requests", "Requests refused because request bodies used too much memory (`BODIES_FULL`).";
    RefusedAnswers = "mundi_refused_answers_total", "requests", "Requests refused because unread answers used too much memory (`ANSWERS_FULL`).";
    BodyBytes = "mundi_body_bytes", "bytes", "Memory of request bodies, as far as it is counted.";
    AnswerBytes = "mundi_answer_bytes", "bytes", "Memory of unread answers, as far as it is counted.";
    MemoryBytes = "mundi_memory_bytes", "bytes", "Memory of the process, as the kernel counts it.";
    Sweeps = "mundi_sweeps_total", "sweeps", "Sweeps of the content store that this process completed, dry runs included.";
    SweepFailures = "mundi_sweep_failures_total", "sweeps", "Failed attempts of a sweep; the next attempt resumes it.";
    SweepNs = "mundi_sweep_ns_total", "nanoseconds", "Time of completed sweeps, pauses included.";
    SweepKeys = "mundi_sweep_keys_total", "keys", "Keys that sweeps read.";
    SweepObjectsCondemned = "mundi_sweep_objects_condemned_total", "objects", "Objects that sweeps found without a reference for the first time.";
    SweepObjectsRemoved = "mundi_sweep_objects_removed_total", "objects", "Objects that sweeps removed.";
    SweepBytesRemoved = "mundi_sweep_bytes_removed_total", "bytes", "Bytes of the objects that sweeps removed.";
    SweepSegmentsRemoved = "mundi_sweep_segments_removed_total", "segments", "Segments of deleted worlds that sweeps removed.";
    UnreachableBytes = "mundi_unreachable_bytes", "bytes", "Bytes of unreferenced objects that the last sweep of this process did not remove yet.";
    WatcherRounds = "mundi_watcher_rounds_total", "rounds", "Rounds in which this process looked at the pools that are watched.";
    WatcherFailures = "mundi_watcher_failures_total", "failures", "Looks at a pool, or commands to one, that failed; they are repeated and count as no round.";
    WatcherRevokes = "mundi_watcher_revokes_total", "leases", "Leases that the watcher of this process revoked.";
    WatcherReclaims = "mundi_watcher_reclaims_total", "leases", "Leases that the watcher of this process reclaimed.";
    CallsForwarded = "mundi_calls_forwarded_total", "calls", "Calls that were forwarded to the process that holds their world, and answered there.";
    SendsForwarded = "mundi_sends_forwarded_total", "sends", "Sends that were forwarded to the process that holds their world, and acknowledged there.";
    HttpInFlight = "mundi_http_requests_in_flight", "requests", "Requests that are being answered now.";
}

/// A metric that has a value for each set of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub unit: &'static str,
    pub meaning: &'static str,
    /// Every label has few values, known beforehand: a route is a template and never a path that a client sent.
    pub labels: &'static [&'static str],
}

impl Family {
    pub const HTTP_REQUESTS: Self = Self {
        name: "mundi_http_requests_total",
        unit: "requests",
        meaning: "Requests that were answered; status 499 if the client closed the connection before.",
        labels: &["method", "route", "status"],
    };
    pub const HTTP_REQUEST_SECONDS: Self = Self {
        name: "mundi_http_request_seconds",
        unit: "seconds",
        meaning: "Time from the head of a request to the head of its answer, waiting calls and claims included.",
        labels: &["method", "route"],
    };
    pub const SHELL_ATTEMPTS: Self = Self {
        name: "mundi_shell_attempts_total",
        unit: "attempts",
        meaning: "Steps that worker shells attempted, by source: `inbox` for messages that were due at once, `timer` for delayed ones.",
        labels: &["shell", "source"],
    };
    pub const SHELL_RESULTS: Self = Self {
        name: "mundi_shell_results_total",
        unit: "steps",
        meaning: "Results of steps of worker shells: `ok`, `conflict` and `busy` (retried), or `failed` (not retried).",
        labels: &["shell", "result"],
    };
    pub const SHELL_REQUEUES: Self = Self {
        name: "mundi_shell_requeues_total",
        unit: "messages",
        meaning: "Messages that were requeued for another attempt.",
        labels: &["shell"],
    };
    pub const SHELL_DEAD_LETTERS: Self = Self {
        name: "mundi_shell_dead_letters_total",
        unit: "letters",
        meaning: "Messages that became dead letters.",
        labels: &["shell"],
    };
    pub const SHELL_LATENCY: Self = Self {
        name: "mundi_shell_latency_ms_total",
        unit: "milliseconds",
        meaning: "Sum of the times of all steps; for timers, their delay.",
        labels: &["shell"],
    };
    pub const SHELL_LATENCY_SAMPLES: Self = Self {
        name: "mundi_shell_latency_samples_total",
        unit: "steps",
        meaning: "Number of steps in that sum.",
        labels: &["shell"],
    };
    pub const SHELL_LATENCY_MAX: Self = Self {
        name: "mundi_shell_latency_ms_max",
        unit: "milliseconds",
        meaning: "The longest step; for timers, the largest delay.",
        labels: &["shell"],
    };
    pub const QUEUE_DEPTH: Self = Self {
        name: "mundi_queue_depth",
        unit: "items",
        meaning: "Items that wait in a shared queue of a universe, counted up to 1,000.",
        labels: &["universe", "queue"],
    };
    pub const QUEUE_DEAD_LETTERS: Self = Self {
        name: "mundi_queue_dead_letters",
        unit: "letters",
        meaning: "Dead letters of a queue of a universe, counted up to 1,000.",
        labels: &["universe", "queue"],
    };
    pub const EFFECT_OLDEST: Self = Self {
        name: "mundi_queue_effect_oldest_seconds",
        unit: "seconds",
        meaning: "Waiting time of the oldest effect without an attempt, of those that were counted.",
        labels: &["universe"],
    };
    pub const STEP_FAILURES: Self = Self {
        name: "mundi_step_failures_total",
        unit: "steps",
        meaning: "Steps that failed, by the hash of the program and the code of the failure; beyond 200 pairs they are counted as `other`.",
        labels: &["program", "code"],
    };
    pub const QUOTA_LIMIT: Self = Self {
        name: "mundi_quota_limit",
        unit: "of the quota",
        meaning: "The quotas of a universe that are set.",
        labels: &["universe", "quota"],
    };
    pub const QUOTA_USED: Self = Self {
        name: "mundi_quota_used",
        unit: "of the quota",
        meaning: "The use of the quotas of a universe in this process, as far as it is known.",
        labels: &["universe", "quota"],
    };
    pub const QUOTA_REFUSED: Self = Self {
        name: "mundi_quota_refused_total",
        unit: "requests",
        meaning: "Requests refused with `QUOTA_EXCEEDED`, by scope of the quota: `universe` or `token`.",
        labels: &["scope", "quota"],
    };
    pub const POOL_RESOURCES: Self = Self {
        name: "mundi_pool_resources",
        unit: "resources",
        meaning: "Resources of the pools of a universe by state: `available`, `reserved`, `active`, `revoking`.",
        labels: &["universe", "pool", "state"],
    };
    pub const POOL_LEASES: Self = Self {
        name: "mundi_pool_leases",
        unit: "leases",
        meaning: "Leases of the pools of a universe by state: `reserved`, `active`, `revoking`, or `ended` while they answer for their history.",
        labels: &["universe", "pool", "state"],
    };
    pub const POOL_QUEUE: Self = Self {
        name: "mundi_pool_queue_length",
        unit: "reservations",
        meaning: "Reservations that wait in the queues of the pools of a universe.",
        labels: &["universe", "pool"],
    };
    pub const POOL_COMMANDS: Self = Self {
        name: "mundi_pool_commands_total",
        unit: "commands",
        meaning: "Commands that pools in this process answered, whoever sent them, by result code.",
        labels: &["result"],
    };
    pub const CHILDREN_DISPATCHED: Self = Self {
        name: "mundi_children_dispatched_total",
        unit: "children",
        meaning: "Children that this process leased, by kind: for its executor, or for workers outside.",
        labels: &["kind"],
    };
    pub const CHILDREN_ENDED: Self = Self {
        name: "mundi_children_ended_total",
        unit: "children",
        meaning: "Children that this process ended or recovered, by kind and code; `ok` if they passed. Not those that their parent withdrew.",
        labels: &["kind", "code"],
    };
    pub const CHILDREN_QUEUED: Self = Self {
        name: "mundi_children_queued",
        unit: "children",
        meaning: "Children of a universe that wait for their dispatch, when the executor last looked.",
        labels: &["universe"],
    };
    pub const CHILDREN_ACTIVE: Self = Self {
        name: "mundi_children_active",
        unit: "children",
        meaning: "Children of a universe that are leased or started, of all kinds, when the executor last looked.",
        labels: &["universe"],
    };
    pub const ALL: [Self; 24] = [
        Self::HTTP_REQUESTS,
        Self::HTTP_REQUEST_SECONDS,
        Self::SHELL_ATTEMPTS,
        Self::SHELL_RESULTS,
        Self::SHELL_REQUEUES,
        Self::SHELL_DEAD_LETTERS,
        Self::SHELL_LATENCY,
        Self::SHELL_LATENCY_SAMPLES,
        Self::SHELL_LATENCY_MAX,
        Self::QUEUE_DEPTH,
        Self::QUEUE_DEAD_LETTERS,
        Self::EFFECT_OLDEST,
        Self::STEP_FAILURES,
        Self::QUOTA_LIMIT,
        Self::QUOTA_USED,
        Self::QUOTA_REFUSED,
        Self::POOL_RESOURCES,
        Self::POOL_LEASES,
        Self::POOL_QUEUE,
        Self::POOL_COMMANDS,
        Self::CHILDREN_DISPATCHED,
        Self::CHILDREN_ENDED,
        Self::CHILDREN_QUEUED,
        Self::CHILDREN_ACTIVE,
    ];
}

/// Times with a histogram: those that have a target (R-OPS-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    LeaseRenewal,
    InboxToJournal,
    DispatchToReceipt,
}

impl Timing {
    pub const ALL: [Self; 3] = [Self::LeaseRenewal, Self::InboxToJournal, Self::DispatchToReceipt];

    pub const fn name(self) -> &'static str {
        match self {
            Self::LeaseRenewal => "mundi_lease_renewal_seconds",
            Self::InboxToJournal => "mundi_inbox_to_journal_seconds",
            Self::DispatchToReceipt => "mundi_dispatch_to_receipt_seconds",
        }
    }

    pub const fn meaning(self) -> &'static str {
        match self {
            Self::LeaseRenewal => "Time of a transaction that renews leases. Target: p95 below 0.05.",
            Self::InboxToJournal => {
                "Time from the enqueueing of an item to the commit that journals it. Target: p95 below 0.1."
            }
            Self::DispatchToReceipt => {
                "Time from the publishing of an effect to its durable receipt, without the external call; first attempts only. \
                 Target: p95 below 0.2."
            }
        }
    }

    /// The target of the 95th percentile, in microseconds.
    pub const fn target_us(self) -> u64 {
        match self {
            Self::LeaseRenewal => 50_000,
            Self::InboxToJournal => 100_000,
            Self::DispatchToReceipt => 200_000,
        }
    }
}

/// Upper bounds of all histograms, in microseconds: from a read in memory to a call that waits. The targets are among them.
pub const BOUNDS_US: [u64; 13] =
    [500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 200_000, 250_000, 1_000_000, 5_000_000, 30_000_000];

/// The values of a histogram.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How many took at most as long as the bound of the same place, and more than the one before; at the end, the rest.
    pub counts: [u64; BOUNDS_US.len() + 1],
    pub sum_us: u64,
}

impl Times {
    pub fn add(&mut self, took_us: u64) {
        self.counts[BOUNDS_US.partition_point(|bound_us| *bound_us < took_us)] += 1;
        self.sum_us = self.sum_us.saturating_add(took_us);
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[derive(Debug, Default)]
struct Histogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// The values of all metrics.
#[derive(Debug)]
pub struct Metrics {
    values: Vec<AtomicU64>,
    histograms: [Histogram; Timing::ALL.len()],
    /// Failed steps by program and code.
    failures: Mutex<BTreeMap<(String, String), u64>>,
    /// Commands to pools by their result codes, of which there are few.
    pool_results: Mutex<BTreeMap<&'static str, u64>>,
    children: ChildCounts,
}

/// The label of programs and codes beyond the bound, which are counted together.
const OTHERS: &str = "other";

impl Default for Metrics {
    fn default() -> Self {
        let values = Metric::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        let (histograms, failures, pool_results) = Default::default();
        Self { values, histograms, failures, pool_results, children: ChildCounts::default() }
    }
}

impl Metrics {
    pub fn add(&self, metric: Metric, count: u64) {
        self.values[metric as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// For those that say how it is now.
    pub fn sub(&self, metric: Metric, count: u64) {
        self.values[metric as usize].fetch_sub(count, Ordering::Relaxed);
    }

    /// Keeps the largest value.
    pub fn raise(&self, metric: Metric, value: u64) {
        self.values[metric as usize].fetch_max(value, Ordering::Relaxed);
    }

    /// How it is now.
    pub fn set(&self, metric: Metric, value: u64) {
        self.values[metric as usize].store(value, Ordering::Relaxed);
    }

    pub fn get(&self, metric: Metric) -> u64 {
        self.values[metric as usize].load(Ordering::Relaxed)
    }

    /// Something took so long.
    pub fn observe_ns(&self, timing: Timing, took_ns: u64) {
        let mut times = Times::default();
        times.add(took_ns / 1_000);
        self.observe(timing, &times);
    }

    /// Adds what was observed together.
    pub fn observe(&self, timing: Timing, times: &Times) {
        let histogram = &self.histograms[timing as usize];
        for (place, count) in histogram.counts.iter().zip(times.counts).filter(|(_, count)| *count > 0) {
            place.fetch_add(count, Ordering::Relaxed);
        }
        histogram.sum_us.fetch_add(times.sum_us, Ordering::Relaxed);
    }

    pub fn times(&self, timing: Timing) -> Times {
        let Histogram { counts, sum_us } = &self.histograms[timing as usize];
        let counts = std::array::from_fn(|place| counts[place].load(Ordering::Relaxed));
        Times { counts, sum_us: sum_us.load(Ordering::Relaxed) }
    }

    pub fn children(&self) -> &ChildCounts {
        &self.children
    }

    /// A step of a program failed.
    pub fn count_failure(&self, program: Hash, code: &str) {
        self.add(Metric::StepFailures, 1);
        let mut failures = self.failures.lock();
        let code = Code::from_name(code).map_or(OTHERS, Code::as_str);
        let mut labels = (program.to_string(), code.to_owned());
        if failures.len() >= limits::FAILURE_LABELS_MAX && !failures.contains_key(&labels) {
            labels = (OTHERS.to_owned(), OTHERS.to_owned());
        }
        *failures.entry(labels).or_default() += 1;
    }

    /// Failed steps by program and code.
    pub fn failures(&self) -> Vec<(String, String, u64)> {
        let failures = self.failures.lock();
        failures.iter().map(|((program, code), count)| (program.clone(), code.clone(), *count)).collect()
    }

    /// A command to a pool was answered.
    pub fn count_pool_result(&self, result: &'static str) {
        *self.pool_results.lock().entry(result).or_default() += 1;
    }

    /// Answered commands to pools by result code.
    pub fn pool_results(&self) -> Vec<(&'static str, u64)> {
        self.pool_results.lock().iter().map(|(result, count)| (*result, *count)).collect()
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
        let expected = [
            "mundi_answer_bytes",
            "mundi_body_bytes",
            "mundi_effects_running",
            "mundi_http_requests_in_flight",
            "mundi_memory_bytes",
            "mundi_resident_worlds",
            "mundi_unreachable_bytes",
            "mundi_worlds_without_room",
        ];
        assert!(now.copied().eq(expected));
        assert!(Family::ALL.iter().all(|family| !names.contains(family.name)));
        let families: BTreeSet<_> = Family::ALL.iter().map(|family| family.name).collect();
        assert_eq!(families.len(), Family::ALL.len());
        assert!(Timing::ALL.iter().all(|timing| BOUNDS_US.contains(&timing.target_us())), "a target is a bound");
    }

    #[test]
    fn a_histogram_keeps_every_time_once() {
        let metrics = Metrics::default();
        for took_ns in [50_000_000, 50_001_000, 60_000_000_000] {
            metrics.observe_ns(Timing::LeaseRenewal, took_ns);
        }
        let times = metrics.times(Timing::LeaseRenewal);
        assert_eq!((times.count(), times.sum_us), (3, 60_100_001));
        assert_eq!(
            (times.counts[6], times.counts[7], times.counts[13]),
            (1, 1, 1),
            "a bound belongs to what is below it"
        );
        assert_eq!(metrics.times(Timing::InboxToJournal), Times::default());
    }

    #[test]
    fn failures_are_counted_by_program_and_code_within_a_bound() {
        let metrics = Metrics::default();
        for n in 0..limits::FAILURE_LABELS_MAX + 50 {
            metrics.count_failure(Hash::of(&n.to_be_bytes()), "PROGRAM_FAILED");
        }
        metrics.count_failure(Hash::of(&0usize.to_be_bytes()), "PROGRAM_FAILED");
        metrics.count_failure(Hash::of(&0usize.to_be_bytes()), "whatever a guest might say");
        let failures = metrics.failures();
        assert!(failures.len() <= limits::FAILURE_LABELS_MAX + 1);
        let counted: u64 = failures.iter().map(|(_, _, count)| count).sum();
        assert_eq!((counted, metrics.get(Metric::StepFailures)), (252, 252));
        let first = Hash::of(&0usize.to_be_bytes()).to_string();
        assert!(failures.contains(&(first, "PROGRAM_FAILED".to_owned(), 2)));
        assert!(failures.contains(&("other".to_owned(), "other".to_owned(), 51)));
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
