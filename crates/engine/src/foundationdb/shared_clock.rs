//! One time for all processes, without a database's clock to ask.
//!
//! A cluster's versions are no clock: they jump when it recovers. So a key holds the latest time that any process has published, as
//! nanoseconds since 1970, kept by the cluster's operation MAX. A process reads it and publishes its own corrected time, one after the other, at
//! regular intervals. A process whose machine is behind learns by how much: the fleet follows the fastest clock, and time never goes back.
//!
//! The time that is read is as old as the last publication of the fastest process, so the correction of a slow one is short by up to an interval at
//! first, and comes closer with every reading, because the largest difference holds.

/// How often a process reads and publishes.
pub(super) const PUBLISH_EVERY_S: u32 = 5;

/// The shared time cannot lag further behind a process that publishes all the time. If it seems to, this machine's clock was set forward.
const LAG_NS_MAX: i64 = 3 * PUBLISH_EVERY_S as i64 * 1_000_000_000;

/// How far the shared time is ahead of this machine's.
///
/// `ahead_ns` is what was known before; `own_ns` this machine's time while `shared_ns` was read; `None` if nobody has published yet.
pub(super) fn corrected(ahead_ns: i64, own_ns: u64, shared_ns: Option<u64>) -> i64 {
    let Some(shared_ns) = shared_ns else { return 0 };
    let difference_ns = signed(shared_ns).saturating_sub(signed(own_ns));
    if difference_ns > ahead_ns {
        return difference_ns;
    }
    if difference_ns < ahead_ns.saturating_sub(LAG_NS_MAX) {
        return difference_ns.max(0);
    }
    ahead_ns
}

/// The value that a process publishes.
pub(super) fn published(ahead_ns: i64, own_ns: u64) -> [u8; 8] {
    own_ns.saturating_add_signed(ahead_ns).to_le_bytes()
}

/// The time that is stored; `None` if the value is none.
pub(super) fn read(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_le_bytes)
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const NOW: u64 = 1_790_000_000 * S;

    /// Machines that read and publish in turn, `steps` times, a third of a second apart.
    fn fleet(skews_ns: &[i64], steps: usize) -> (Vec<i64>, Vec<u64>) {
        let (mut ahead, mut shared) = (vec![0; skews_ns.len()], None);
        let mut now = NOW;
        for step in 0..steps * skews_ns.len() {
            let member = step % skews_ns.len();
            let own = now.saturating_add_signed(skews_ns[member]);
            ahead[member] = corrected(ahead[member], own, shared);
            shared = shared.max(read(&published(ahead[member], own)));
            now += S / 3;
        }
        let times = skews_ns.iter().zip(&ahead).map(|(skew, ahead)| now.saturating_add_signed(skew + ahead)).collect();
        (ahead, times)
    }

    #[test]
    fn processes_agree_with_the_fastest_clock() {
        let skews = [0, -30 * S.cast_signed(), 2 * S.cast_signed()];
        let (ahead, times) = fleet(&skews, 10);
        let spread = times.iter().max().unwrap() - times.iter().min().unwrap();
        assert!(spread <= S, "{times:?}");
        assert_eq!(ahead[2], 0, "the fastest is not corrected");
    }

    #[test]
    fn a_process_that_is_alone_is_not_corrected() {
        assert_eq!(fleet(&[-5], 50).0, [0]);
        assert_eq!(corrected(0, NOW, None), 0);
        assert_eq!(read(b"no time"), None);
    }

    #[test]
    fn a_clock_that_is_set_forward_does_not_carry_its_old_correction_along() {
        let ahead = corrected(0, NOW - 60 * S, Some(NOW));
        assert_eq!(ahead, 60 * S.cast_signed());
        let after = corrected(ahead, NOW + S, Some(NOW));
        assert_eq!(after, 0, "the machine is right now");
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on_with_the_fleet() {
        assert_eq!(corrected(0, NOW - 10 * S, Some(NOW)), 10 * S.cast_signed());
    }

    #[test]
    fn a_reading_that_is_a_little_old_changes_nothing() {
        assert_eq!(corrected(7, NOW, Some(NOW - 5 * S)), 7);
    }
}
