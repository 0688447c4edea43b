//! Planned reads of a transaction and their results: the next read that goes to the database includes all of them.

use crate::{
    RangeRead, Read,
    overlay::{Overlay, check_key, successor},
};
use bytes::Bytes;
use mundi_model::limits;
use std::collections::BTreeMap;

pub(crate) type Items = Vec<(Bytes, Bytes)>;

/// The result of a read in the snapshot, without the transaction's own writes.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Value(Option<Bytes>),
    Items(Items),
}

impl Found {
    pub(crate) fn value(self) -> Option<Bytes> {
        match self {
            Self::Value(value) => value,
            Self::Items(_) => None,
        }
    }

    pub(crate) fn items(self) -> Items {
        match self {
            Self::Items(items) => items,
            Self::Value(_) => Items::new(),
        }
    }
}

/// The rest of a range after its items up to this one.
pub(crate) fn after(mut read: RangeRead, last: Bytes) -> RangeRead {
    if read.reverse {
        read.end = last;
    } else {
        read.start = successor(&last);
    }
    read
}

#[derive(Default)]
pub(crate) struct PlannedReads {
    waiting: Vec<Read>,
    values: BTreeMap<Bytes, Option<Bytes>>,
    /// Each until it is read: few are read twice, and they are large.
    pages: Vec<(RangeRead, Items)>,
}

impl PlannedReads {
    /// Notes what is new. What is out of bounds is refused when it is read.
    pub(crate) fn add(&mut self, reads: impl IntoIterator<Item = Read>) {
        for read in reads {
            if self.waiting.len() + self.values.len() + self.pages.len() >= limits::PLANNED_READS_MAX {
                return;
            }
            let read = as_fetched(read);
            let is_valid = match &read {
                Read::Get(key) => check_key(key).is_ok() && !self.values.contains_key(key),
                Read::Range(range) => Overlay::is_empty_range(range).is_ok_and(|is_empty| !is_empty),
            };
            if is_valid {
                self.waiting.push(read);
            }
        }
    }

    /// Forgets what need not be fetched any more.
    pub(crate) fn retain(&mut self, is_wanted: impl FnMut(&Read) -> bool) {
        self.waiting.retain(is_wanted);
    }

    pub(crate) fn value(&self, key: &Bytes) -> Option<Option<Bytes>> {
        self.values.get(key).cloned()
    }

    pub(crate) fn page(&mut self, range: &RangeRead) -> Option<Items> {
        let place = self.pages.iter().position(|(fetched, _)| {
            let RangeRead { start, end, limit, reverse, snapshot: _ } = fetched;
            (start, end, *limit, *reverse) == (&range.start, &range.end, range.limit, range.reverse)
        })?;
        Some(self.pages.swap_remove(place).1)
    }

    /// The reads to fetch: this one, then all that wait.
    pub(crate) fn with(&mut self, read: Read) -> Vec<Read> {
        let read = as_fetched(read);
        let mut reads = std::mem::take(&mut self.waiting);
        reads.retain(|waiting| *waiting != read);
        reads.insert(0, read);
        reads
    }

    /// Keeps what was found for reads that are yet to come.
    pub(crate) fn keep(&mut self, found: impl Iterator<Item = (Read, Found)>) {
        for (read, found) in found {
            match (read, found) {
                (Read::Get(key), Found::Value(value)) => drop(self.values.insert(key, value)),
                (Read::Range(range), Found::Items(items)) => self.pages.push((range, items)),
                _ => {} // a get has a value, a range has items
            }
        }
    }
}

/// Whether it depends on what it finds is all the same to the database.
fn as_fetched(read: Read) -> Read {
    match read {
        Read::Range(range) => Read::Range(range.snapshot()),
        get @ Read::Get(_) => get,
    }
}
