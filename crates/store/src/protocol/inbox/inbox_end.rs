//! Proof that an inbox was read to its end.
//!
//! Only a read that found no item behind its last one makes an [`InboxEnd`] (`read_turn`), and only the inbox' counter, which
//! every enqueue raises, keeps it true at a later version ([`InboxEnd::at`]). A turn gives an item that bypasses the inbox its
//! place from this proof, and `commit_turn` refuses a cursor that passes such a place without it. So no turn moves the cursor
//! over an item that it has not read.

use crate::keyspace::{inbox_depth::Depth, notify::Seen};
use crate::protocol::{Peeked, TurnItem};
use mundi_model::{
    InboxSeq,
    mutants::{Mutant, planted},
    record::InboxItem,
};
use std::sync::Arc;

/// Up to a version, an inbox holds no item after a certain one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxEnd {
    /// The last item that was read, or the cursor if there was none after it.
    last: Option<InboxSeq>,
    /// While the counter says this, nothing was enqueued.
    notify: Seen,
    version: u64,
}

impl InboxEnd {
    /// For a read that found no item after `last` at `version`, and nowhere else.
    pub(in crate::protocol) fn found(last: Option<InboxSeq>, notify: Seen, version: u64) -> Self {
        Self { last, notify, version }
    }

    pub fn last(&self) -> Option<InboxSeq> {
        self.last
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub(in crate::protocol) fn notify(&self) -> &Seen {
        &self.notify
    }

    /// The same at a later version, if nothing was enqueued up to it.
    pub fn at(&self, peeked: &Peeked) -> Option<Self> {
        let is_same = peeked.notify == self.notify && peeked.version >= self.version;
        is_same.then(|| Self { version: peeked.version, ..self.clone() })
    }

    /// The end once a cursor is committed: nothing is after the cursor. `None` if the cursor has not passed all
    /// items that were read.
    pub fn after(self, cursor: Option<InboxSeq>) -> Option<Self> {
        (self.last <= cursor).then_some(Self { last: cursor, ..self })
    }

    /// An item that bypasses the inbox: behind all that was read, and before all that is enqueued later.
    pub fn direct(&self, index: u16, item: Arc<InboxItem>) -> TurnItem {
        TurnItem { seq: self.place(index), item, depth: Depth::default() }
    }

    fn place(&self, index: u16) -> InboxSeq {
        let ahead = if planted(Mutant::DirectAhead) { 8 } else { 0 };
        InboxSeq::direct(self.version + ahead, index)
    }

    /// Whether a cursor may move from `read`, behind which nothing else was read, to the place of a direct item.
    pub(in crate::protocol) fn lets_pass(&self, read: Option<InboxSeq>, through: InboxSeq) -> bool {
        self.last == read && (self.place(0)..=self.place(u16::MAX)).contains(&through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::Stamp;

    fn seq(version: u64) -> Option<InboxSeq> {
        Some(InboxSeq::new(Stamp::new(version, 0), 0))
    }

    #[test]
    fn it_is_true_at_a_later_version_only_while_the_counter_stands_still() {
        let end = InboxEnd::found(seq(4), Seen::of(1), 7);
        let peeked = |count, version| Peeked { notify: Seen::of(count), version };
        assert_eq!(end.at(&peeked(1, 9)).map(|end| end.version()), Some(9));
        assert_eq!(end.at(&peeked(2, 9)), None, "something was enqueued");
        assert_eq!(end.at(&peeked(1, 6)), None, "the past says nothing of what was read since");
    }

    #[test]
    fn it_outlives_a_turn_that_took_all_that_was_read_and_no_other() {
        let end = InboxEnd::found(seq(4), Seen::of(1), 7);
        assert_eq!(end.clone().after(seq(3)), None);
        assert_eq!(end.clone().after(None), None);
        assert_eq!(end.after(seq(4)).and_then(|end| end.last()), seq(4));
    }

    #[test]
    fn a_direct_item_passes_nothing_but_what_was_read() {
        let end = InboxEnd::found(seq(4), Seen::of(1), 7);
        let place = |version| InboxSeq::direct(version, 0);
        assert!(end.lets_pass(seq(4), place(7)));
        assert!(!end.lets_pass(seq(3), place(7)), "the last item that was read is left out");
        assert!(!end.lets_pass(None, place(7)));
        assert!(!end.lets_pass(seq(4), place(8)), "what came up to 8 was not read");
    }
}
