//! `u/<u>/w/<w>/log/<slot>`: what the program of a world logged last, in pages.
//!
//! Written by `commit_turn` in the transaction of the turn whose steps logged. A page is written again until it is full; the next one
//! takes the next slot, and so the place of the oldest. Lines are no part of the world's state: no digest covers them, a fork begins
//! without any, and a bundle has none. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, decode_value, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Height, UniverseId, WorldId, limits};

/// Lines that were logged one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct LogPage {
    /// Pages are counted over the whole life of a world.
    #[n(0)]
    pub page: u64,
    /// The number of its first line; lines are counted likewise.
    #[n(1)]
    pub first: u64,
    #[n(2)]
    pub lines: Vec<LoggedLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LoggedLine {
    /// Of the record whose step logged it.
    #[n(0)]
    pub height: Height,
    /// The worker's clock.
    #[n(1)]
    pub at_ns: u64,
    #[n(2)]
    pub level: LogLevel,
    #[n(3)]
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum LogLevel {
    #[n(0)]
    Debug,
    #[n(1)]
    Info,
    #[n(2)]
    Warn,
    #[n(3)]
    Error,
}

/// The bytes of a line beside its text, at most.
const LINE_BYTES: usize = 32;

impl LogPage {
    /// The number of the line behind its last.
    pub fn end(&self) -> u64 {
        self.first + self.lines.len() as u64
    }

    fn bytes(&self) -> usize {
        self.lines.iter().map(|line| line.text.len() + LINE_BYTES).sum()
    }

    /// The pages that change when lines are added behind this one, at most as many as are kept; the last one is the new end.
    pub fn extended(self, lines: impl IntoIterator<Item = LoggedLine>) -> Vec<Self> {
        let mut pages = vec![self];
        for line in lines {
            let last = pages.last_mut().filter(|page| {
                page.bytes() + line.text.len() + LINE_BYTES <= limits::LOG_PAGE_BYTES_MAX || page.lines.is_empty()
            });
            match last {
                Some(page) => page.lines.push(line),
                None => {
                    let (page, first) = pages.last().map_or((0, 0), |page| (page.page + 1, page.end()));
                    pages.push(Self { page, first, lines: vec![line] });
                }
            }
        }
        let surplus = pages.len().saturating_sub(usize::from(limits::LOG_PAGES_MAX));
        pages.split_off(surplus)
    }
}

fn slot(page: u64) -> u64 {
    page % u64::from(limits::LOG_PAGES_MAX)
}

pub fn key(universe: UniverseId, world: WorldId, slot: u64) -> Key {
    KeyBuilder::world(universe, world, Family::WorldLog).u64(slot).key()
}

fn span(universe: UniverseId, world: WorldId) -> Span {
    KeyBuilder::world(universe, world, Family::WorldLog).key().span()
}

pub fn parse(universe: UniverseId, world: WorldId, key: &[u8]) -> Result<u64, StoreError> {
    let prefix = KeyBuilder::world(universe, world, Family::WorldLog).key();
    let mut reader = KeyReader::after(Family::WorldLog, &prefix, key)?;
    let slot = reader.u64()?;
    reader.end(slot)
}

/// All pages that are kept, oldest first.
pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Vec<LogPage>, StoreError> {
    let found = tx.range(span(universe, world).read(usize::from(limits::LOG_PAGES_MAX)).snapshot()).await?;
    let pages = found.items.iter().map(|(key, bytes)| decode_value(Family::WorldLog, key, bytes));
    let mut pages: Vec<LogPage> = pages.collect::<Result<_, _>>()?;
    pages.sort_by_key(|page| page.page);
    Ok(pages)
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    page: &LogPage,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world, slot(page.page)), page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    fn line(text: String) -> LoggedLine {
        LoggedLine { height: Height::new(3), at_ns: 5, level: LogLevel::Info, text }
    }

    #[test]
    fn pages_are_bounded_and_lines_keep_their_numbers() {
        let (mut newest, mut kept) = (LogPage::default(), std::collections::BTreeMap::new());
        for turn in 0..200u64 {
            let lines = (0..5).map(|n| line(format!("{} {}", turn * 5 + n, "x".repeat(900))));
            let pages = newest.extended(lines);
            pages.iter().for_each(|page| drop(kept.insert(slot(page.page), page.clone())));
            newest = pages.last().unwrap().clone();
        }
        assert_eq!(kept.len(), usize::from(limits::LOG_PAGES_MAX));
        assert!(kept.values().all(|page| mundi_model::cbor::encode(page).len() <= limits::LOG_PAGE_BYTES_MAX + 64));
        assert_eq!(newest.end(), 1_000);
        for page in kept.values() {
            for (number, line) in (page.first..).zip(&page.lines) {
                assert!(line.text.starts_with(&format!("{number} ")), "{number}: {}", line.text);
            }
        }
    }

    #[test]
    fn a_turn_that_logs_more_than_is_kept_leaves_the_newest() {
        let lines = (0..1_000).map(|n| line(format!("{n} {}", "x".repeat(1_000))));
        let pages = LogPage::default().extended(lines);
        assert_eq!(pages.len(), usize::from(limits::LOG_PAGES_MAX));
        assert_eq!(pages.last().unwrap().end(), 1_000);
    }

    proptest! {
        #[test]
        fn keys_sort_by_slot(a: u64, b: u64) {
            let (universe, world) = (laws::universe(), laws::world());
            laws::keys_are_ordered((a, b), |slot| key(universe, world, *slot), |key| parse(universe, world, key))?;
        }

        #[test]
        fn the_value_survives(page: u64, first: u64, text: String, noise: Vec<u8>) {
            laws::value_survives(Family::WorldLog, &LogPage { page, first, lines: vec![line(text)] }, &noise)?;
        }
    }
}
