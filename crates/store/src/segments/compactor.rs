//! The background compactor: exports what is old, no faster than it is allowed to.
//!
//! It is a loop body and not a task: whoever holds a world's fence calls it, beside the world's turns, and decides itself which
//! world comes next.

use super::Exported;
use crate::{Clock, Fence, StoreError, journal::Segments, protocol::ExportPolicy};
use std::{sync::Arc, time::Duration};

#[derive(Debug, Clone, Copy)]
pub struct CompactorConfig {
    /// Off, everything stays in the engine; segments that exist are read all the same.
    pub enabled: bool,
    pub policy: ExportPolicy,
    /// How many bytes of segments are written per second at most; 0 for no bound.
    pub bytes_per_second_max: u64,
    /// Between two transactions that delete hot entries.
    pub delete_pause: Duration,
}

impl Default for CompactorConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            policy: ExportPolicy::default(),
            bytes_per_second_max: 16 * 1024 * 1024,
            delete_pause: Duration::from_millis(5),
        }
    }
}

pub struct Compactor<S> {
    segments: S,
    clock: Arc<dyn Clock>,
    config: CompactorConfig,
}

/// The result of a turn of the compactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compacted {
    Disabled,
    /// The world has nothing to export now.
    Idle,
    /// A segment was written; there may be more.
    Exported {
        records: u64,
        bytes: u64,
    },
}

impl<S: Segments> Compactor<S> {
    pub fn new(segments: S, clock: Arc<dyn Clock>, config: CompactorConfig) -> Self {
        Self { segments, clock, config }
    }

    /// Exports at most one segment of a world, then waits as long as the rate demands.
    pub async fn turn(&self, fence: Fence) -> Result<Compacted, StoreError> {
        if !self.config.enabled {
            return Ok(Compacted::Disabled);
        }
        let CompactorConfig { policy, delete_pause, .. } = self.config;
        let began_ns = self.clock.now_ns();
        let exported = self.segments.export(&*self.clock, fence, policy, delete_pause).await?;
        let Exported::Segment(record) = exported else { return Ok(Compacted::Idle) };
        let took = Duration::from_nanos(self.clock.now_ns().saturating_sub(began_ns));
        let pause = due(record.size_bytes, self.config.bytes_per_second_max).saturating_sub(took);
        if !pause.is_zero() {
            self.clock.sleep(pause).await;
        }
        Ok(Compacted::Exported { records: record.end.since(record.start), bytes: record.size_bytes })
    }
}

/// How long so many bytes take at a rate; no time at all without one.
fn due(bytes: u64, bytes_per_second_max: u64) -> Duration {
    let ns = u128::from(bytes) * 1_000_000_000;
    let ns = ns.checked_div(u128::from(bytes_per_second_max)).unwrap_or(0);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_decides_the_pause() {
        assert_eq!(due(1_000, 2_000), Duration::from_millis(500));
        assert_eq!(due(1_000, 0), Duration::ZERO);
        assert_eq!(due(u64::MAX, 1), Duration::from_nanos(u64::MAX));
    }
}
