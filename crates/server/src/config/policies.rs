//! The policies of workers: budgets of a cycle, segments, worker shells. Each number has a range, and what is outside is refused.

use super::{ApiConfig, Config, ConfigError};
use crate::node::{AdmissionPolicy, memory_limit_bytes};
use mundi_model::limits;
use mundi_runtime::{
    host::CycleBudget,
    shell::{self, Policy},
    worker::SegmentPolicy,
};
use mundi_store::protocol::ExportPolicy;
use serde::{Deserialize, Serialize};
use std::{fmt::Display, ops::RangeInclusive, time::Duration};
use utoipa::ToSchema;

/// What a world may do before another one gets its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CycleSection {
    /// Inbox items of one turn.
    pub items_max: usize,
    /// Host calls of all steps of one turn.
    pub steps_max: u64,
    /// Effects and timers that one turn publishes.
    pub effects_max: usize,
    /// How long a cycle of several turns may take.
    pub wall_ms_max: u64,
}

impl Default for CycleSection {
    fn default() -> Self {
        let CycleBudget { items_max, steps_max, effects_max, wall_ms_max } = CycleBudget::default();
        Self { items_max, steps_max, effects_max, wall_ms_max }
    }
}

impl CycleSection {
    pub(super) fn budget(&self) -> CycleBudget {
        let Self { items_max, steps_max, effects_max, wall_ms_max } = *self;
        CycleBudget { items_max, steps_max, effects_max, wall_ms_max }
    }

    fn check(&self) -> Result<(), ConfigError> {
        within("worlds.cycle.items_max", self.items_max, 1..=limits::TURN_ITEMS_MAX)?;
        within("worlds.cycle.steps_max", self.steps_max, 1..=limits::STEP_CALLS_MAX)?;
        // Half of what one transaction may publish: the step that crosses the line still adds to it.
        within("worlds.cycle.effects_max", self.effects_max, 1..=limits::TURN_INTENTS_MAX / 2)?;
        within("worlds.cycle.wall_ms_max", self.wall_ms_max, 1..=10_000)
    }
}

/// When journal records below the baseline leave the engine for the object store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SegmentsSection {
    /// Off, all records stay in the engine; segments that exist are read all the same.
    pub enabled: bool,
    /// So many records below the baseline stay in the engine.
    pub margin_records: u64,
    /// Fewer are not worth an object.
    pub records_min: u64,
    /// One segment holds no more.
    pub records_max: u64,
}

impl Default for SegmentsSection {
    fn default() -> Self {
        let SegmentPolicy { enabled, records, .. } = SegmentPolicy::default();
        let ExportPolicy { margin: margin_records, records_min, records_max } = records;
        Self { enabled, margin_records, records_min, records_max }
    }
}

impl SegmentsSection {
    pub(super) fn policy(&self) -> SegmentPolicy {
        let Self { enabled, margin_records: margin, records_min, records_max } = *self;
        SegmentPolicy {
            enabled,
            records: ExportPolicy { margin, records_min, records_max },
            ..SegmentPolicy::default()
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        within("worlds.segments.records_max", self.records_max, 1..=limits::SEGMENT_RECORDS_MAX)?;
        within("worlds.segments.records_min", self.records_min, 1..=self.records_max)
    }
}

/// What a worker shell does after a failure that no further attempt can mend. The message is a dead letter in any case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnNonRetryable {
    /// Goes on with the next message.
    DeadLetter,
    /// Ends the shell; the process goes on without it.
    Stop,
    /// The process drains and exits with the failure.
    Escalate,
}

impl From<shell::OnNonRetryable> for OnNonRetryable {
    fn from(policy: shell::OnNonRetryable) -> Self {
        match policy {
            shell::OnNonRetryable::DeadLetter => Self::DeadLetter,
            shell::OnNonRetryable::Stop => Self::Stop,
            shell::OnNonRetryable::Escalate => Self::Escalate,
        }
    }
}

impl From<OnNonRetryable> for shell::OnNonRetryable {
    fn from(policy: OnNonRetryable) -> Self {
        match policy {
            OnNonRetryable::DeadLetter => Self::DeadLetter,
            OnNonRetryable::Stop => Self::Stop,
            OnNonRetryable::Escalate => Self::Escalate,
        }
    }
}

/// How worker shells work on their mailboxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShellSection {
    /// How long a claimed message is left to its worker.
    pub claim_ttl_ms: u64,
    /// How often the transaction that ends a step is tried before the claim is left to run out.
    pub requeue_attempts_max: u32,
    /// How often a message is tried before it becomes a dead letter.
    pub retry_budget_max: u32,
    /// The wait before the second attempt; it doubles with each.
    pub backoff_ms: u64,
    /// Messages and timers of one tick.
    pub batch_max: usize,
    /// The longest of these pauses.
    pub backoff_ms_max: u64,
    /// The longest sleep without a look.
    pub idle_ms_max: u64,
    /// What follows a failure that no further attempt can mend, after the message became a dead letter.
    #[schema(value_type = String)]
    pub on_non_retryable: OnNonRetryable,
}

impl Default for ShellSection {
    fn default() -> Self {
        let Policy {
            claim_ttl_ms,
            requeue_attempts_max,
            retry_budget_max,
            backoff_ms,
            backoff_ms_max,
            batch_max,
            idle_ms_max,
            on_non_retryable,
        } = Policy::default();
        Self {
            claim_ttl_ms,
            requeue_attempts_max,
            retry_budget_max,
            backoff_ms,
            backoff_ms_max,
            batch_max,
            idle_ms_max,
            on_non_retryable: on_non_retryable.into(),
        }
    }
}

impl ShellSection {
    pub(super) fn policy(&self) -> Policy {
        let Self {
            claim_ttl_ms,
            requeue_attempts_max,
            retry_budget_max,
            backoff_ms,
            backoff_ms_max,
            batch_max,
            idle_ms_max,
            on_non_retryable,
        } = *self;
        Policy {
            claim_ttl_ms,
            requeue_attempts_max,
            retry_budget_max,
            backoff_ms,
            backoff_ms_max,
            batch_max,
            idle_ms_max,
            on_non_retryable: on_non_retryable.into(),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        within("shell.claim_ttl_ms", self.claim_ttl_ms, 100..=600_000)?;
        within("shell.requeue_attempts_max", self.requeue_attempts_max, 1..=100)?;
        within("shell.retry_budget_max", self.retry_budget_max, 1..=1_000)?;
        within("shell.backoff_ms", self.backoff_ms, 1..=60_000)?;
        within("shell.backoff_ms_max", self.backoff_ms_max, 1..=3_600_000)?;
        within("shell.batch_max", self.batch_max, 1..=limits::CLAIMS_MAX)?;
        within("shell.idle_ms_max", self.idle_ms_max, 10..=600_000)
    }
}

impl ApiConfig {
    /// Nine tenths leave room for what is under way.
    pub(super) fn admission(&self) -> AdmissionPolicy {
        let inbox_age_max = Some(Duration::from_millis(self.inbox_age_ms_max)).filter(|max| !max.is_zero());
        let memory_bytes_max = match self.memory_bytes_max {
            None => memory_limit_bytes().map(|limit| limit / 10 * 9),
            given => given.filter(|max| *max > 0),
        };
        AdmissionPolicy { inbox_age_max, memory_bytes_max }
    }
}

/// TOML has no larger numbers.
const NUMBER_MAX: u64 = i64::MAX.unsigned_abs();

impl Config {
    /// Every number that a worker goes by is within its range.
    pub(super) fn check_policies(&self) -> Result<(), ConfigError> {
        let (worlds, node) = (&self.worlds, &self.node);
        within("worlds.snapshot_records", worlds.snapshot_records, 1..=NUMBER_MAX)?;
        within("worlds.snapshot_bytes", worlds.snapshot_bytes, 1..=NUMBER_MAX)?;
        within("worlds.snapshot_age_ms", worlds.snapshot_age_ms, 1..=NUMBER_MAX)?;
        // A caller whose connection broke comes back for its reply within seconds.
        within("worlds.inbox_grace_ms", worlds.inbox_grace_ms, 1_000..=NUMBER_MAX)?;
        worlds.cycle.check()?;
        worlds.segments.check()?;
        self.shell.check()?;
        within("effects.attempts_at_a_time_max", self.effects.attempts_at_a_time_max, 1..=1_000_000)?;
        within("effects.attempts_per_second_max", self.effects.attempts_per_second_max, 1..=1_000_000)?;
        within("objects.inline_bytes_max", self.objects.inline_bytes_max, 0..=limits::BLOB_INLINE_BYTES_MAX)?;
        if self.api.inbox_age_ms_max > 0 {
            // Sampled every few seconds: a smaller bound could not be kept.
            within("api.inbox_age_ms_max", self.api.inbox_age_ms_max, 100..=NUMBER_MAX)?;
        }
        within("node.replay_log_bytes_max", node.replay_log_bytes_max, 4_096..=NUMBER_MAX)?;
        within("node.lanes", node.lanes, 1..=65_536)?;
        // Below a second, a pause of the machine or of the database costs worlds.
        within("node.lease_ttl_ms", node.lease_ttl_ms, 1_000..=3_600_000)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a value and a range are written where it is called")]
fn within<T: PartialOrd + Display>(key: &str, value: T, allowed: RangeInclusive<T>) -> Result<(), ConfigError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("{value} is not allowed: expected {} to {}", allowed.start(), allowed.end())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::Coded;

    fn load(text: &str) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mundi.toml");
        std::fs::write(&file, text).unwrap();
        Config::load(Some(&file), [], &[])
    }

    #[test]
    fn every_policy_reaches_the_node() {
        let text = r#"
            [objects]
            inline_bytes_max = 7
            [worlds]
            inbox_grace_ms = 2000
            [worlds.cycle]
            items_max = 2
            steps_max = 3
            effects_max = 4
            wall_ms_max = 5
            [worlds.segments]
            enabled = false
            margin_records = 6
            records_min = 7
            records_max = 8
            [api]
            inbox_age_ms_max = 1500
            memory_bytes_max = 99
            [node]
            replay_log = "/tmp/replay.ndjson"
            replay_log_bytes_max = 5000
            [shell]
            claim_ttl_ms = 900
            requeue_attempts_max = 10
            retry_budget_max = 11
            backoff_ms = 12
            backoff_ms_max = 15
            batch_max = 13
            idle_ms_max = 14
            on_non_retryable = "stop"
        "#;
        let config = load(text).unwrap();
        let node = config.node().unwrap();
        let cycle = CycleBudget { items_max: 2, steps_max: 3, effects_max: 4, wall_ms_max: 5 };
        let records = ExportPolicy { margin: 6, records_min: 7, records_max: 8 };
        let segments = SegmentPolicy { enabled: false, records, ..SegmentPolicy::default() };
        let shell = Policy {
            claim_ttl_ms: 900,
            requeue_attempts_max: 10,
            retry_budget_max: 11,
            backoff_ms: 12,
            backoff_ms_max: 15,
            batch_max: 13,
            idle_ms_max: 14,
            on_non_retryable: shell::OnNonRetryable::Stop,
        };
        assert_eq!((node.cycle, node.segments, node.shell), (cycle, segments, shell));
        assert_eq!((node.content.inline_bytes_max, node.inbox_grace), (7, Duration::from_secs(2)));
        let admission =
            AdmissionPolicy { inbox_age_max: Some(Duration::from_millis(1_500)), memory_bytes_max: Some(99) };
        assert_eq!(node.admission, admission);
        assert_eq!((node.replay_log, node.replay_log_bytes_max), (Some("/tmp/replay.ndjson".into()), 5_000));
        let again: Config = toml::from_str(&config.show().unwrap()).unwrap();
        assert_eq!((again.worlds, again.shell, again.objects), (config.worlds, config.shell, config.objects));
    }

    #[test]
    fn what_is_not_configured_is_as_the_runtime_has_it() {
        let node = Config::default().node().unwrap();
        assert_eq!((node.cycle, node.segments), (CycleBudget::default(), SegmentPolicy::default()));
        assert_eq!(node.shell, Policy::default());
        let off = load("[api]\ninbox_age_ms_max = 0\nmemory_bytes_max = 0\n").unwrap().node().unwrap();
        assert_eq!(off.admission, AdmissionPolicy::default());
    }

    #[test]
    fn a_number_out_of_its_range_is_refused_with_what_is_allowed() {
        for (section, wrong, allowed) in [
            ("worlds", "snapshot_records = 0", "1 to"),
            ("worlds", "snapshot_bytes = 0", "1 to"),
            ("worlds", "snapshot_age_ms = 0", "1 to"),
            ("worlds", "inbox_grace_ms = 999", "1000 to"),
            ("worlds.cycle", "items_max = 0", "1 to 4096"),
            ("worlds.cycle", "items_max = 4097", "1 to 4096"),
            ("worlds.cycle", "steps_max = 0", "1 to 1000000"),
            ("worlds.cycle", "effects_max = 8193", "1 to 8192"),
            ("worlds.cycle", "wall_ms_max = 0", "1 to 10000"),
            ("worlds.segments", "records_min = 0", "1 to 65536"),
            ("worlds.segments", "records_max = 65537", "1 to 65536"),
            ("shell", "claim_ttl_ms = 99", "100 to 600000"),
            ("shell", "requeue_attempts_max = 0", "1 to 100"),
            ("shell", "retry_budget_max = 0", "1 to 1000"),
            ("shell", "backoff_ms = 0", "1 to 60000"),
            ("shell", "batch_max = 257", "1 to 256"),
            ("shell", "idle_ms_max = 9", "10 to 600000"),
            ("objects", "inline_bytes_max = 16385", "0 to 16384"),
            ("api", "inbox_age_ms_max = 99", "100 to"),
            ("node", "replay_log_bytes_max = 4095", "4096 to"),
            ("node", "lanes = 0", "1 to 65536"),
            ("node", "lease_ttl_ms = 999", "1000 to 3600000"),
        ] {
            let refused = load(&format!("[{section}]\n{wrong}\n")).unwrap_err();
            let (text, key) = (refused.to_string(), wrong.split(' ').next().unwrap());
            assert_eq!(refused.code(), mundi_model::Code::ConfigInvalid);
            assert!(text.contains(&format!("{section}.{key}")) && text.contains(allowed), "{wrong}: {text}");
        }
        let refused = load("[shell]\non_non_retryable = \"panic\"\n").unwrap_err().to_string();
        assert!(refused.contains("dead_letter") && refused.contains("escalate"), "{refused}");
    }
}
