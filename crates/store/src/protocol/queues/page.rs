//! Listings in pages: what they have in common.

use mundi_model::limits;

/// Some of what was asked for. Each page is one consistent moment; two pages are two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, C> {
    pub items: Vec<T>,
    /// Where the next page continues; `None` at the end. A page may be short, or empty, and not be the last.
    pub next: Option<C>,
}

impl<T, C> Page<T, C> {
    pub(in crate::protocol) fn new() -> Self {
        Self { items: Vec::new(), next: None }
    }
}

/// Entries that a range reads at least: fewer cost as much.
const CHUNK_MIN: usize = 16;

/// How much a listing may still take and look at.
pub(in crate::protocol) struct Room {
    items: usize,
    looks: usize,
}

impl Room {
    pub(in crate::protocol) fn new(items_max: usize) -> Self {
        Self { items: items_max.clamp(1, limits::LIST_ITEMS_MAX), looks: limits::LIST_LOOKS_MAX }
    }

    /// How many are read by the next range. What it leaves over is for the next page.
    pub(in crate::protocol) fn looks(&self) -> usize {
        self.looks
    }

    /// How many are read by the next range of a listing that reads on until it has enough: hardly more than it returns, if all are taken.
    pub(in crate::protocol) fn chunk(&self) -> usize {
        self.items.max(CHUNK_MIN).min(self.looks)
    }

    /// One was looked at.
    pub(in crate::protocol) fn spend(&mut self, taken: bool) {
        self.looks = self.looks.saturating_sub(1);
        self.items = self.items.saturating_sub(usize::from(taken));
    }

    pub(in crate::protocol) fn is_spent(&self) -> bool {
        self.items == 0 || self.looks == 0
    }
}
