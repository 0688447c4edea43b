//! How long operations took, in buckets of about 3 %.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Buckets for each doubling.
const STEPS: u32 = 32;
const BUCKETS: usize = 64 * STEPS as usize;

pub(crate) struct Latencies(Box<[AtomicU64]>);

impl Default for Latencies {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Latencies {
    pub(crate) fn note(&self, took: Duration) {
        self.note_many(took, 1);
    }

    pub(crate) fn note_many(&self, took: Duration, operations: u64) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.0[bucket(ns)].fetch_add(operations, Relaxed);
    }

    /// The latency below which this share of the operations stayed, in microseconds; 0 if there were none.
    pub(crate) fn below_us(&self, share: f64) -> f64 {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Relaxed)).collect();
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let mut left = counts.iter().sum::<u64>() as f64 * share;
        for (index, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            #[expect(clippy::cast_precision_loss, reason = "figures for people")]
            let (here, upper_ns) = (count as f64, upper_ns(index));
            left -= here;
            if left <= 0.0 {
                return upper_ns / 1e3;
            }
        }
        0.0
    }
}

fn bucket(ns: u64) -> usize {
    let doubling = ns.ilog2();
    let within = ((u128::from(ns) * u128::from(STEPS)) >> doubling) - u128::from(STEPS);
    doubling as usize * STEPS as usize + usize::try_from(within).unwrap_or(0)
}

fn upper_ns(bucket: usize) -> f64 {
    let (doubling, within) = (bucket / STEPS as usize, bucket % STEPS as usize);
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let share = 1.0 + (within + 1) as f64 / f64::from(STEPS);
    (doubling as f64).exp2() * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_found_within_a_bucket() {
        let latencies = Latencies::default();
        (1..=1_000).for_each(|us| latencies.note(Duration::from_micros(us)));
        for (share, us) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found = latencies.below_us(share);
            assert!(found >= us && found <= us * 1.04, "{share}: {found}");
        }
    }
}
