//! The conditions that a query puts on a table, as the source reads them.

use mundi_model::{Moment, WorldId};
use mundi_sql::{Condition, Op};

/// The conditions that a query puts on a table.
pub(super) struct Given {
    pub(super) conditions: Vec<Condition>,
}

impl Given {
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        let equal = |condition: &&Condition| condition.column == column && condition.op == Op::Eq;
        self.conditions.iter().find(equal).and_then(|condition| condition.value.as_str())
    }

    /// The world that a column names, by its id alone: a text that is none is in no row.
    pub(super) fn world(&self, column: &str) -> Option<WorldId> {
        self.text(column).and_then(|text| text.parse().ok())
    }

    pub(super) fn is_impossible(&self) -> bool {
        ["world", "parent"].into_iter().any(|column| self.text(column).is_some() && self.world(column).is_none())
    }

    pub(super) fn number(&self, column: &str) -> Option<u64> {
        let equal = |condition: &&Condition| condition.column == column && condition.op == Op::Eq;
        let value = &self.conditions.iter().find(equal)?.value;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    }

    /// The heights that are wanted: from the first up to the second, which is not wanted any more.
    pub(super) fn heights(&self) -> (u64, u64) {
        let (mut from, mut end) = (0, u64::MAX);
        for condition in self.conditions.iter().filter(|condition| condition.column == "height") {
            let Some(value) = condition.value.as_i64() else { continue };
            let height = |value: i64| u64::try_from(value).unwrap_or(0);
            let (here, above) = (height(value), height(value.saturating_add(1)));
            match condition.op {
                Op::Eq => (from, end) = (from.max(here), end.min(above)),
                Op::Gt => from = from.max(above),
                Op::Ge => from = from.max(here),
                Op::Lt => end = end.min(here),
                Op::Le => end = end.min(above),
            }
        }
        (from, end)
    }

    /// The names that are wanted: from the first up to the second, which is not wanted any more.
    pub(super) fn names(&self) -> (Option<String>, Option<String>) {
        let (mut from, mut before) = (None::<String>, None::<String>);
        for (op, name) in self.of_text("name") {
            // The text that follows a name, byte by byte.
            let above = format!("{name}\0");
            match op {
                Op::Eq => {}
                Op::Gt => from = from.max(Some(above)),
                Op::Ge => from = from.max(Some(name.to_owned())),
                Op::Lt => before = Some(before.map_or(name.to_owned(), |before| before.min(name.to_owned()))),
                Op::Le => before = Some(before.map_or(above.clone(), |before| before.min(above))),
            }
        }
        (from, before)
    }

    /// The times, in nanoseconds, that may fit the comparisons with a column of times, which are comparisons of texts: from the first up to the second.
    pub(super) fn times(&self, column: &str) -> (Option<u64>, Option<u64>) {
        let (mut from, mut before) = (None::<u64>, None::<u64>);
        for (op, text) in self.of_text(column) {
            let Some((first, end)) = moments(text) else { continue };
            if matches!(op, Op::Eq | Op::Gt | Op::Ge) {
                from = from.max(Some(first));
            }
            if matches!(op, Op::Eq | Op::Lt | Op::Le) {
                before = Some(before.map_or(end, |before| before.min(end)));
            }
        }
        (from, before)
    }

    fn of_text(&self, column: &str) -> impl Iterator<Item = (Op, &str)> {
        let of_column = self.conditions.iter().filter(move |condition| condition.column == column);
        of_column.filter_map(|condition| Some((condition.op, condition.value.as_str()?)))
    }
}

/// Times whose texts are not below a text begin at the first one, and times whose texts are not above it end before the second one; `None` for a text that
/// is not the beginning of a time as tables show it.
fn moments(text: &str) -> Option<(u64, u64)> {
    const SECOND_NS: u64 = 1_000_000_000;
    let Moment(first) = text.parse().ok()?;
    let shown = Moment(first).to_string();
    let beginning = text.strip_suffix('Z').unwrap_or(text);
    if !shown.starts_with(beginning) {
        return None;
    }
    // `Z` sorts above the point and the digits that may follow: all of that second is below `…09:00:00Z`.
    let rest_ns = match text.ends_with('Z') {
        true if text.len() < shown.len() => SECOND_NS,
        _ => 1,
    };
    Some((first, first.saturating_add(rest_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn given(op: Op, text: &str) -> Given {
        Given { conditions: vec![Condition { column: "created_at", op, value: text.into() }] }
    }

    fn holds(op: Op, shown: &str, text: &str) -> bool {
        match op {
            Op::Eq => shown == text,
            Op::Gt => shown > text,
            Op::Ge => shown >= text,
            Op::Lt => shown < text,
            Op::Le => shown <= text,
        }
    }

    proptest! {
        #[test]
        fn no_time_that_fits_a_comparison_of_texts_is_outside_of_what_is_read(
            at_ns in 0..4_000_000_000_000_000_000u64,
            near in -3_000_000_000i64..3_000_000_000,
            digits in prop::sample::select(vec![10, 19, 20, 23, 29]),
            has_zone: bool,
        ) {
            let shown = Moment(at_ns).to_string();
            let other = Moment(at_ns.saturating_add_signed(near)).to_string();
            let zone = if has_zone && digits > 10 { "Z" } else { "" };
            let text = format!("{}{zone}", &other[..digits]);
            for op in [Op::Eq, Op::Gt, Op::Ge, Op::Lt, Op::Le] {
                let (from, before) = given(op, &text).times("created_at");
                let is_read = from.is_none_or(|from| at_ns >= from) && before.is_none_or(|before| at_ns < before);
                prop_assert!(is_read || !holds(op, &shown, &text), "{shown} {} {text}", op.as_str());
            }
        }
    }

    #[test]
    fn a_text_that_is_no_time_narrows_nothing_down() {
        for text in ["", "2026", "yesterday", "2026-11-18 09:00:00Z", "2026-11-18T09:00:00+02:00"] {
            assert_eq!(given(Op::Ge, text).times("created_at"), (None, None), "{text}");
        }
        assert!(given(Op::Ge, "2026-11-18").times("created_at").0.is_some());
    }
}
