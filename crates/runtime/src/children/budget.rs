//! What is debited for a child: recorded values, made by the transaction that ends or reports a piece of work.

use mundi_model::child::{Lane, Spend};

const SECOND_NS: u64 = 1_000_000_000;

/// What a run used, with the time that it took: seconds that were begun.
pub(crate) fn with_duration(spent: Spend, started_at_ns: u64, now_ns: u64) -> Spend {
    let secs = now_ns.saturating_sub(started_at_ns).div_ceil(SECOND_NS);
    spent.with(Lane::DurationSecs, secs.max(spent.duration_secs.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_that_was_begun_counts() {
        let secs = |ns| with_duration(Spend::default(), 5, 5 + ns).duration_secs;
        assert_eq!([secs(0), secs(1), secs(SECOND_NS), secs(SECOND_NS + 1)], [Some(0), Some(1), Some(1), Some(2)]);
    }
}
