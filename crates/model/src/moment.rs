//! Moments as text: nanoseconds since 1970 (UTC) as RFC 3339 writes them.

use std::fmt;

/// A moment, in nanoseconds since 1970. Its text is exact: nine digits of a second, always, so that texts sort as moments do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ns) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z")
    }
}

/// Year, month and day of a day since 1970, without a calendar library.
fn date(days: u64) -> (u64, u64, u64) {
    // Days since 0000-03-01 in cycles of 400 years: leap days then stand at the end of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_exactly() {
        assert_eq!(Moment(0).to_string(), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(Moment(951_782_400_000_000_001).to_string(), "2000-02-29T00:00:00.000000001Z");
        assert_eq!(Moment(1_767_225_599_123_456_789).to_string(), "2025-12-31T23:59:59.123456789Z");
        assert_eq!(Moment(u64::MAX).to_string(), "2554-07-21T23:34:33.709551615Z");
    }
}
