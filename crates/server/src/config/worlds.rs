//! The section `[worlds]`: cycles of turns, snapshots, segments, inboxes.

use super::{
    ConfigError,
    check::{NUMBER_MAX, within},
    millis,
};
use crate::node::NodeConfig;
use mundi_model::limits;
use mundi_runtime::{
    worker::SegmentPolicy,
    world::{CycleBudget, SnapshotPolicy},
};
use mundi_store::protocol::ExportPolicy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Snapshots, segments and inboxes of worlds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorldsSection {
    /// A world is snapshotted when it has this many records above its newest snapshot.
    pub snapshot_records: u64,
    /// A world is snapshotted when the records above its newest snapshot have this many bytes.
    pub snapshot_bytes: u64,
    /// A world is snapshotted when the oldest record above its newest snapshot has this age.
    pub snapshot_age_ms: u64,
    /// Processes in a row that end in their first cycle of a world before the world is put on hold; 0 for never.
    pub deaths_max: u32,
    /// How long a consumed inbox item and its reply can still be read.
    pub inbox_grace_ms: u64,
    pub cycle: CycleSection,
    pub segments: SegmentsSection,
    /// How long an idempotency key is remembered, and the name of a message after its effect has ended. Messages between worlds are deduplicated as
    /// long as they can be sent again, independently of this. What effects that have ended and requests about children leave is kept for an hour.
    pub dedupe_window_ms: u64,
}

impl Default for WorldsSection {
    fn default() -> Self {
        let SnapshotPolicy { records, bytes, age_ns } = SnapshotPolicy::default();
        Self {
            snapshot_records: records,
            snapshot_bytes: bytes,
            snapshot_age_ms: age_ns / 1_000_000,
            deaths_max: NodeConfig::default().deaths_max,
            inbox_grace_ms: millis(NodeConfig::default().inbox_grace),
            cycle: CycleSection::default(),
            segments: SegmentsSection::default(),
            dedupe_window_ms: millis(NodeConfig::default().dedupe_window),
        }
    }
}

impl WorldsSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("worlds.snapshot_records", self.snapshot_records, 1..=NUMBER_MAX)?;
        within("worlds.snapshot_bytes", self.snapshot_bytes, 1..=NUMBER_MAX)?;
        within("worlds.snapshot_age_ms", self.snapshot_age_ms, 1..=NUMBER_MAX)?;
        // A caller whose connection broke reads its reply within seconds.
        within("worlds.inbox_grace_ms", self.inbox_grace_ms, 1_000..=NUMBER_MAX)?;
        let window_ms = limits::DEDUPE_WINDOW_MS_MIN..=limits::DEDUPE_WINDOW_MS_MAX;
        within("worlds.dedupe_window_ms", self.dedupe_window_ms, window_ms)?;
        self.cycle.check()?;
        self.segments.check()
    }

    pub(super) fn snapshots(&self) -> SnapshotPolicy {
        let Self { snapshot_records: records, snapshot_bytes: bytes, snapshot_age_ms, .. } = *self;
        SnapshotPolicy { records, bytes, age_ns: snapshot_age_ms.saturating_mul(1_000_000) }
    }
}

/// The budget of a world before another one runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CycleSection {
    /// Inbox items of one turn.
    pub items_max: usize,
    /// Host calls of all steps of one turn.
    pub steps_max: u64,
    /// Effects and timers that one turn publishes.
    pub effects_max: usize,
    /// How long a cycle of several turns may take; no outcome depends on it.
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
        // Half of what one transaction may publish, because the last step of a turn may exceed the budget.
        within("worlds.cycle.effects_max", self.effects_max, 1..=limits::TURN_INTENTS_MAX / 2)?;
        within("worlds.cycle.wall_ms_max", self.wall_ms_max, 1..=10_000)
    }
}

/// When journal records below the baseline move from the engine to the object store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SegmentsSection {
    /// If false, all records stay in the engine; existing segments are still read.
    pub enabled: bool,
    /// This many records below the baseline stay in the engine.
    pub margin_records: u64,
    /// The fewest records of a segment.
    pub records_min: u64,
    /// The most records of a segment.
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
