//! Which state is the newest, and which older ones someone still reads.

use super::tree::Tree;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// A state that can be read: its version in the log, and the tree's sequence number that sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) version: u64,
    pub(super) seqno: u64,
}

#[derive(Clone)]
pub(super) struct Snapshots(Arc<Mutex<Table>>);

struct Table {
    newest: Snapshot,
    /// Open snapshots by sequence number and by the millisecond of their beginning, so that a forgotten one
    /// expires; with their version and how many there are.
    open: BTreeMap<(u64, u64), (u64, usize)>,
}

impl Table {
    /// Never backwards, whoever comes late: nobody may begin below what was told to be the oldest.
    fn renew(&mut self, newest: Snapshot) {
        if newest.seqno > self.newest.seqno {
            self.newest = newest;
        }
    }
}

impl Snapshots {
    pub(super) fn new(newest: Snapshot) -> Self {
        Self(Arc::new(Mutex::new(Table { newest, open: BTreeMap::new() })))
    }

    pub(super) fn newest(&self) -> Snapshot {
        self.0.lock().newest
    }

    /// A version was shown: from now on transactions begin there.
    pub(super) fn publish(&self, newest: Snapshot) {
        self.0.lock().renew(newest);
    }

    /// The tree changed its files: the same version can be read with a later number, which lets go of the
    /// files before. Whatever was published since stays.
    pub(super) fn publish_if_unchanged(&self, tree: &Tree) {
        let later = tree.newest();
        let mut table = self.0.lock();
        if table.newest.version == later.version {
            table.renew(later);
        }
    }

    pub(super) fn open(&self, now_ms: u64) -> OpenSnapshot {
        let mut table = self.0.lock();
        let snapshot = table.newest;
        table.open.entry((snapshot.seqno, now_ms)).or_insert((snapshot.version, 0)).1 += 1;
        OpenSnapshot { snapshots: self.clone(), snapshot, begun_ms: now_ms }
    }

    /// The oldest state that someone who began at `begun_after_ms` or later may read.
    pub(super) fn oldest(&self, begun_after_ms: u64) -> Snapshot {
        let table = self.0.lock();
        let open = table.open.iter().filter(|((_, begun_ms), _)| *begun_ms >= begun_after_ms);
        let oldest = open.map(|(&(seqno, _), &(version, _))| Snapshot { version, seqno }).next();
        oldest.unwrap_or(table.newest)
    }
}

/// Keeps a state readable until it is dropped.
pub(super) struct OpenSnapshot {
    snapshots: Snapshots,
    snapshot: Snapshot,
    begun_ms: u64,
}

impl OpenSnapshot {
    pub(super) fn at(&self) -> Snapshot {
        self.snapshot
    }
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        let mut table = self.snapshots.0.lock();
        let place = (self.snapshot.seqno, self.begun_ms);
        if let Some((_, count)) = table.open.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                table.open.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_takes_nobody_back() {
        let snapshots = Snapshots::new(Snapshot { version: 1, seqno: 5 });
        snapshots.publish(Snapshot { version: 1, seqno: 11 });
        let oldest = snapshots.oldest(0);
        snapshots.publish(Snapshot { version: 1, seqno: 10 });
        assert_eq!((snapshots.newest(), snapshots.open(0).at()), (oldest, oldest));
    }
}
