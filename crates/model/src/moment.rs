//! Moments as text: nanoseconds since 1970 (UTC) as RFC 3339 writes them.

use crate::ParseIdError;
use std::{fmt, str::FromStr};

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

impl FromStr for Moment {
    type Err = ParseIdError;

    /// As RFC 3339 writes it, in UTC; a date alone is its first moment.
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let invalid = || ParseIdError::new("time", "2026-11-18 or 2026-11-18T09:00:00Z", text);
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (date, time.strip_suffix('Z').ok_or_else(invalid)?),
            None => (text, "00:00:00"),
        };
        let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [year, month, day] = numbers(date, '-').ok_or_else(invalid)?;
        let [hour, minute, second] = numbers(whole, ':').ok_or_else(invalid)?;
        let fits = (1970..2554).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        let is_fraction = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
        if !(fits && hour < 24 && minute < 60 && second < 60 && is_fraction) {
            return Err(invalid());
        }
        let ns: u64 = format!("{fraction:0<9}").parse().map_err(|_| invalid())?;
        let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
        let moment = Self(seconds * 1_000_000_000 + ns);
        // A day that its month does not have is another day.
        if moment.to_string().starts_with(date) { Ok(moment) } else { Err(invalid()) }
    }
}

/// Three numbers between separators.
fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = text.split(separator).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// The day since 1970 of a date, the inverse of [`date`].
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
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
        for ns in [0, 951_782_400_000_000_001, 1_767_225_599_123_456_789, 1_700_000_000_000_000_000] {
            assert_eq!(Moment(ns).to_string().parse(), Ok(Moment(ns)));
        }
        assert_eq!("2000-02-29".parse(), Ok(Moment(951_782_400_000_000_000)));
        assert_eq!("2000-02-29T00:00:00.5Z".parse(), Ok(Moment(951_782_400_500_000_000)));
        for bad in ["", "2001-02-29", "2000-13-01", "2000-01-01T24:00:00Z", "2000-01-01T00:00:00", "1969-12-31"] {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
        assert_eq!(Moment(u64::MAX).to_string(), "2554-07-21T23:34:33.709551615Z");
    }
}
