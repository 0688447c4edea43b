//! The configuration of a world worker.

use crate::world::{CycleBudget, SnapshotPolicy};
use mundi_model::{UniverseId, WorkerId, limits};
use mundi_store::protocol::ExportPolicy;
use std::time::Duration;

/// When old records leave the engine. They do so after a snapshot, and only below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPolicy {
    /// Off, everything stays in the engine; segments that exist are read all the same.
    pub enabled: bool,
    /// Which records may leave, and how many are worth an object.
    pub records: ExportPolicy,
    /// Segments of one world in a row, before other worlds that are due come first.
    pub segments_max: u32,
    /// Between two transactions that delete what was exported, so that the foreground is never far behind.
    pub delete_pause: Duration,
}

impl Default for SegmentPolicy {
    fn default() -> Self {
        let (records, delete_pause) = (ExportPolicy::default(), Duration::from_millis(5));
        Self { enabled: true, records, segments_max: 4, delete_pause }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct WorkerConfig {
    pub universe: UniverseId,
    /// No two running processes may share it.
    pub worker: WorkerId,
    /// How many worlds that have work it takes: the orchestrator places no more here, and more are refused. Those that rest
    /// make room.
    pub worlds_max: u32,
    /// Whether it runs worlds that nobody assigned. Where an orchestrator places worlds it may wait for that, so that
    /// all of them can be balanced; without one it must not wait.
    pub takes_unassigned: bool,
    /// How many worlds run at the same time.
    pub runners: usize,
    pub cycle: CycleBudget,
    pub snapshots: SnapshotPolicy,
    pub segments: SegmentPolicy,
    pub lease_ttl_ns: u64,
    pub renew_every_ns: u64,
    /// A world that did nothing for so long is taken from the ready queue. Until then, senders need not put it there.
    pub settle_after_ns: u64,
    /// A world that did nothing for so long is released.
    pub idle_release_ns: u64,
    /// A world that is released with a longer tail is snapshotted first, so that its next restore is short.
    pub release_tail_records: u64,
    /// How long a consumed item, and with it its reply, can still be asked for.
    pub inbox_grace_ns: u64,
    /// After how many holders in a row that ended in their first cycle of a world it is put on hold; 0 for never.
    pub deaths_max: u32,
    /// Estimated memory of the worlds that are kept.
    pub resident_bytes_max: usize,
    /// The wait after a first failure; it doubles up to the lease's term.
    pub retry_ns: u64,
    /// The pause between two passes at hints: what changes meanwhile is found by one. A hint that comes later waits for nothing.
    pub look_pause_ns: u64,
    /// A look at all hints although nothing changed, for leases and assignments that became free silently, and at the worlds whose
    /// snapshot is due by age.
    pub rescan_ns: u64,
}

impl WorkerConfig {
    pub fn new(universe: UniverseId, worker: WorkerId) -> Self {
        Self {
            universe,
            worker,
            worlds_max: 10_000,
            takes_unassigned: true,
            runners: 64,
            cycle: CycleBudget::default(),
            snapshots: SnapshotPolicy::default(),
            segments: SegmentPolicy::default(),
            lease_ttl_ns: 20_000_000_000,
            renew_every_ns: 5_000_000_000,
            settle_after_ns: 250_000_000,
            idle_release_ns: 30_000_000_000,
            release_tail_records: 100,
            inbox_grace_ns: 3_600_000_000_000,
            deaths_max: limits::WORLD_DEATHS_MAX,
            resident_bytes_max: 1 << 30,
            retry_ns: 100_000_000,
            look_pause_ns: 5_000_000,
            rescan_ns: 30_000_000_000,
        }
    }
}
