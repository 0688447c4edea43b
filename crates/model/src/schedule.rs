//! Repeating timers: when a schedule comes due next.
//!
//! A library on top of timers that fire once. A program keeps the schedule's text in a cell, sets a timer for the next
//! time, and when it fires sets the one after; so a schedule costs one pending timer, is forked and replayed like all
//! else, and can be changed while it runs. Times are UTC: the zone of a machine is not part of a world.
//!
//! The text is that of cron, five fields (`minute hour day month weekday`), each `*`, a number, a range `a-b`, a list
//! `a,b`, and any of them with a step `/n`; weekdays go from 0 (Sunday) to 7 (Sunday again). If both day and weekday are
//! restricted, either is enough, as cron has it. `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly` are short for what
//! they say, and `@every 90s` (`s`, `m`, `h`, `d`) is a fixed distance, counted from the Unix epoch.

use crate::{Code, Coded};
use std::str::FromStr;

const MINUTE_NS: u64 = 60_000_000_000;
const DAY_MINUTES: u64 = 24 * 60;

/// A day that comes at all comes within eight years: the 29th of February around the year 2100.
const DAYS_AHEAD_MAX: u64 = 8 * 366 + 1;

/// When something repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Every { period_ns: u64 },
    Cron(Cron),
}

/// The values that each field allows, as bits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both days and weekdays are restricted: one of them is enough.
    either_day: bool,
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no schedule: {reason}")]
pub struct ScheduleError {
    pub text: String,
    pub reason: String,
}

impl Coded for ScheduleError {
    fn code(&self) -> Code {
        Code::ScheduleInvalid
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        parse(text.trim()).map(Self).map_err(|reason| ScheduleError { text: text.to_owned(), reason })
    }
}

impl Schedule {
    /// The first time strictly after this one; `None` for a day that never comes, such as the 30th of February.
    pub fn next_after_ns(&self, after_ns: u64) -> Option<u64> {
        match &self.0 {
            Kind::Every { period_ns } => (after_ns / period_ns).checked_add(1)?.checked_mul(*period_ns),
            Kind::Cron(cron) => cron.next_minute(after_ns / MINUTE_NS + 1)?.checked_mul(MINUTE_NS),
        }
    }
}

fn parse(text: &str) -> Result<Kind, String> {
    if let Some(period) = text.strip_prefix("@every ") {
        return Ok(Kind::Every { period_ns: parse_period_ns(period.trim())? });
    }
    let fields = match text {
        "@hourly" => "0 * * * *",
        "@daily" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" => "0 0 1 1 *",
        fields => fields,
    };
    let fields: Vec<_> = fields.split_ascii_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = fields[..] else {
        return Err(format!("it has {} fields, not 5", fields.len()));
    };
    let sundays = parse_field(weekdays, 0, 7)?;
    Ok(Kind::Cron(Cron {
        minutes: parse_field(minutes, 0, 59)?,
        hours: parse_field(hours, 0, 23)?,
        days: parse_field(days, 1, 31)?,
        months: parse_field(months, 1, 12)?,
        weekdays: (sundays | sundays >> 7) & 0x7f, // 7 is Sunday as well
        either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
    }))
}

fn parse_period_ns(text: &str) -> Result<u64, String> {
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err("a distance ends with s, m, h or d".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "a distance is a whole number with a unit".to_owned())?;
    let period_ns = number.checked_mul(seconds).and_then(|seconds| seconds.checked_mul(1_000_000_000));
    period_ns.filter(|period_ns| *period_ns > 0).ok_or_else(|| "a distance is more than nothing".to_owned())
}

/// The allowed values of a field as bits.
fn parse_field(field: &str, min: u64, max: u64) -> Result<u64, String> {
    let mut bits = 0;
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, parse_number(step, 1, max)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (min, max),
            Some((from, to)) => (parse_number(from, min, max)?, parse_number(to, min, max)?),
            None => {
                let from = parse_number(range, min, max)?;
                (from, if part.contains('/') { max } else { from })
            }
        };
        if from > to {
            return Err(format!("the range `{part}` runs backwards"));
        }
        let mut value = from;
        while value <= to {
            bits |= 1 << value;
            value += step;
        }
    }
    Ok(bits)
}

fn parse_number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from {min} to {max}"))
}

impl Cron {
    /// The first allowed minute since the epoch at or after this one.
    fn next_minute(&self, from: u64) -> Option<u64> {
        let first_day = from / DAY_MINUTES;
        (first_day..first_day + DAYS_AHEAD_MAX).filter(|day| self.allows_day(*day)).find_map(|day| {
            let start = if day == first_day { from % DAY_MINUTES } else { 0 };
            let minute =
                (start..DAY_MINUTES).find(|minute| has(self.hours, minute / 60) && has(self.minutes, minute % 60));
            minute.map(|minute| day * DAY_MINUTES + minute)
        })
    }

    fn allows_day(&self, day: u64) -> bool {
        let (month, day_of_month) = civil(day);
        let by_day = has(self.days, day_of_month);
        let by_weekday = has(self.weekdays, (day + 4) % 7); // the epoch was a Thursday
        has(self.months, month) && if self.either_day { by_day || by_weekday } else { by_day && by_weekday }
    }
}

fn has(bits: u64, value: u64) -> bool {
    bits >> value & 1 == 1
}

/// Month and day of month of a day since the epoch, by Howard Hinnant's `civil_from_days`.
fn civil(day: u64) -> (u64, u64) {
    let day_of_era = (day + 719_468) % 146_097;
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (month, day_of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minutes since the epoch of 2026-11-15 (a Sunday) 23:05.
    const NOW: u64 = (20_772 * 24 + 23) * 60 + 5;

    fn next(text: &str, minute: u64) -> Option<u64> {
        let schedule: Schedule = text.parse().unwrap();
        schedule.next_after_ns(minute * MINUTE_NS).map(|ns| ns / MINUTE_NS)
    }

    fn days_ahead(text: &str) -> Option<u64> {
        next(text, NOW).map(|minute| minute / DAY_MINUTES - NOW / DAY_MINUTES)
    }

    #[test]
    fn fields_allow_what_they_say() {
        assert_eq!(next("* * * * *", NOW), Some(NOW + 1));
        assert_eq!(next("*/15 * * * *", NOW), Some(NOW + 10));
        assert_eq!(next("5 * * * *", NOW), Some(NOW + 60), "strictly after");
        assert_eq!(next("5,20-30/5 23 * * *", NOW), Some(NOW + 15));
        assert_eq!(next("50/3 * * * *", NOW), Some(NOW + 45));
        assert_eq!(next("@hourly", NOW), Some(NOW + 55));
    }

    #[test]
    fn days_are_found_across_months_years_and_leap_years() {
        assert_eq!(days_ahead("@daily"), Some(1));
        assert_eq!(days_ahead("@weekly"), Some(7));
        assert_eq!(days_ahead("0 0 * * 1"), Some(1), "Monday");
        assert_eq!(days_ahead("0 0 * * 7"), Some(7), "Sunday by its other name");
        assert_eq!(days_ahead("@monthly"), Some(16));
        assert_eq!(days_ahead("@yearly"), Some(47));
        assert_eq!(days_ahead("0 0 29 2 *"), Some(471), "2028-02-29");
        assert_eq!(days_ahead("0 0 30 2 *"), None);
    }

    #[test]
    fn a_day_or_a_weekday_is_enough_when_both_are_named() {
        assert_eq!(days_ahead("0 0 20 * 3"), Some(3), "Wednesday the 18th");
        assert_eq!(days_ahead("0 0 17 * 3"), Some(2), "the 17th");
        assert_eq!(days_ahead("0 0 */2 * 3"), Some(10), "with a star both must hold: Wednesday the 25th");
    }

    #[test]
    fn a_distance_is_counted_from_the_epoch() {
        let schedule: Schedule = "@every 90s".parse().unwrap();
        assert_eq!(schedule.next_after_ns(0), Some(90_000_000_000));
        assert_eq!(schedule.next_after_ns(90_000_000_000), Some(180_000_000_000));
        assert_eq!(schedule.next_after_ns(u64::MAX), None);
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        let bad = [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "@never",
            "@every 0s",
            "@every s",
            "@every 5",
            "@every 99999999999999999d",
            "1,,2 * * * *",
        ];
        for text in bad {
            let error = text.parse::<Schedule>().unwrap_err();
            assert_eq!(error.code(), Code::ScheduleInvalid, "{text}");
        }
    }

    #[test]
    fn times_rise_and_are_allowed() {
        let schedule: Schedule = "7,38 */5 13,28-31 * 5".parse().unwrap();
        let mut at_ns = 0;
        for _ in 0..500 {
            let next_ns = schedule.next_after_ns(at_ns).unwrap();
            assert!(next_ns > at_ns && matches!(next_ns / MINUTE_NS % 60, 7 | 38));
            at_ns = next_ns;
        }
    }
}
