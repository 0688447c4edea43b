//! A rate limit: a number per second, with a burst of one second.
//!
//! The bucket holds what was taken and has not worn off; it wears off at the rate. Whatever is taken while less than a second's
//! worth is in it is taken whole, so a batch may be larger than the rate, and those that come after it wait for that.

use std::time::Duration;

const NANO: u128 = 1_000_000_000;

/// No longer wait is returned, because the rate may have changed by then.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// A token bucket: the recent use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// In billionths, at `at_ns`.
    used_nano: u128,
    at_ns: u64,
}

/// Nothing more is taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// The use that counts against the rate.
    pub(crate) used: u64,
    /// When there is room for one again.
    pub(crate) wait: Duration,
}

impl Bucket {
    /// Takes so many, if there is room for one at least.
    pub(crate) fn take(&mut self, now_ns: u64, per_second: u64, count: u64) -> Result<(), Full> {
        match self.wait(now_ns, per_second) {
            Some(wait) => Err(Full { used: self.used(now_ns, per_second), wait }),
            None => {
                self.charge(now_ns, per_second, count);
                Ok(())
            }
        }
    }

    /// Charges use that has happened and could not be refused.
    pub(crate) fn charge(&mut self, now_ns: u64, per_second: u64, count: u64) {
        self.wear_off(now_ns, per_second);
        self.used_nano = self.used_nano.saturating_add(u128::from(count) * NANO);
    }

    /// How long until there is room for one; `None` if there is.
    pub(crate) fn wait(&mut self, now_ns: u64, per_second: u64) -> Option<Duration> {
        self.wear_off(now_ns, per_second);
        let over = (self.used_nano + NANO).checked_sub(u128::from(per_second) * NANO).filter(|over| *over > 0)?;
        let Some(wait_ns) = over.checked_div(u128::from(per_second)) else { return Some(WAIT_MAX) };
        // A nanosecond more, for what the division leaves.
        let wait_ns = u64::try_from(wait_ns).unwrap_or(u64::MAX).saturating_add(1);
        Some(Duration::from_nanos(wait_ns).min(WAIT_MAX))
    }

    /// How many more may be taken at once.
    pub(crate) fn room(&mut self, now_ns: u64, per_second: u64) -> u64 {
        self.wear_off(now_ns, per_second);
        let left = (u128::from(per_second) * NANO).saturating_sub(self.used_nano) / NANO;
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// The use that counts against the rate, rounded up.
    pub(crate) fn used(&mut self, now_ns: u64, per_second: u64) -> u64 {
        self.wear_off(now_ns, per_second);
        u64::try_from(self.used_nano.div_ceil(NANO)).unwrap_or(u64::MAX)
    }

    fn wear_off(&mut self, now_ns: u64, per_second: u64) {
        let passed = now_ns.saturating_sub(self.at_ns); // of a clock that goes backwards, nothing
        self.used_nano = self.used_nano.saturating_sub(u128::from(passed) * u128::from(per_second));
        self.at_ns = self.at_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_second_brings_what_a_second_takes() {
        let mut bucket = Bucket::default();
        for _ in 0..3 {
            assert_eq!(bucket.take(0, 3, 1), Ok(()));
        }
        let full = bucket.take(0, 3, 1).unwrap_err();
        assert_eq!(full, Full { used: 3, wait: Duration::from_nanos(SECOND / 3 + 1) });
        assert!(bucket.take(SECOND / 3 + 1, 3, 1).is_ok());
        assert!(bucket.take(SECOND / 3 + 1, 3, 1).is_err());
    }

    #[test]
    fn a_batch_is_taken_whole_and_paid_off_before_the_next() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(0, 10, 100), Ok(()));
        assert_eq!(bucket.take(9 * SECOND, 10, 1).unwrap_err().used, 10);
        assert_eq!(bucket.take(9 * SECOND + SECOND / 10, 10, 1), Ok(()));
    }

    #[test]
    fn a_rate_of_nothing_lets_nothing_through_and_says_so() {
        assert_eq!(Bucket::default().take(0, 0, 1), Err(Full { used: 0, wait: WAIT_MAX }));
        assert_eq!(Bucket::default().room(0, 0), 0);
    }

    proptest! {
        /// One by one, however they come, no stretch of time has more than its seconds bring and a second's worth beside.
        #[test]
        fn no_stretch_of_time_has_more_than_the_rate(
            rate in 1_u64..50,
            gaps in proptest::collection::vec(0_u64..SECOND / 4, 1..200),
        ) {
            let (mut bucket, mut now, mut taken) = (Bucket::default(), 0, Vec::new());
            for gap in gaps {
                now += gap;
                if bucket.take(now, rate, 1).is_ok() {
                    taken.push(now);
                }
            }
            for (first, from) in taken.iter().enumerate() {
                for (last, to) in taken.iter().enumerate().skip(first) {
                    let brought = u128::from(to - from) * u128::from(rate) / NANO + u128::from(rate) + 1;
                    prop_assert!((last - first + 1) as u128 <= brought);
                }
            }
        }

        /// A client that waits for `Retry-After` is admitted, and not before.
        #[test]
        fn the_wait_that_is_told_is_the_one_that_it_takes(
            rate in 1_u64..1_000_000,
            counts in proptest::collection::vec(1_u64..2_000, 1..20),
        ) {
            let (mut bucket, mut now) = (Bucket::default(), 0);
            for count in counts {
                if let Err(Full { wait, .. }) = bucket.take(now, rate, count) {
                    prop_assume!(wait < WAIT_MAX);
                    let wait = u64::try_from(wait.as_nanos()).unwrap();
                    prop_assert!(wait < 2 || bucket.clone().wait(now + wait - 2, rate).is_some());
                    now += wait;
                    prop_assert_eq!(bucket.take(now, rate, count), Ok(()));
                }
            }
        }

        /// A clock that goes backwards neither gives nor takes anything.
        #[test]
        fn a_clock_that_goes_backwards_changes_nothing(rate in 1_u64..100, back in 0_u64..SECOND) {
            let mut bucket = Bucket::default();
            bucket.charge(SECOND, rate, 2 * rate);
            let before = bucket;
            prop_assert!(bucket.wait(SECOND - back, rate).is_some());
            prop_assert_eq!(bucket, before);
        }
    }
}
