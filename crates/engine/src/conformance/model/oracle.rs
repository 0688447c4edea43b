//! The oracle: the expected results, from whole copies of a sorted map.

use super::script::STAMPED;
use crate::{
    EngineError, Page, Transaction,
    conformance::tools::{Items, counter},
};
use bytes::Bytes;
use mundi_model::Stamp;
use std::{collections::BTreeMap, collections::BTreeSet, sync::Arc};

pub(super) type Map = BTreeMap<Bytes, Bytes>;

/// The contents of the store, and the writes of each commit.
#[derive(Default)]
pub(super) struct Oracle {
    pub(super) now: Arc<Map>,
    commits: Vec<Effect>,
    last_stamp: Option<Stamp>,
}

/// The keys that a commit wrote to, and those among them that really changed.
#[derive(Default)]
struct Effect {
    changed: BTreeSet<Bytes>,
    written: Coverage,
}

/// Keys, and ranges of keys.
#[derive(Clone, Default)]
struct Coverage {
    keys: BTreeSet<Bytes>,
    ranges: Vec<(Bytes, Bytes)>,
}

impl Coverage {
    fn has(&self, key: &Bytes) -> bool {
        self.keys.contains(key) || self.ranges.iter().any(|(start, end)| start <= key && key < end)
    }

    fn meets(&self, start: &Bytes, end: &Bytes) -> bool {
        self.keys.range(start.clone()..end.clone()).next().is_some()
            || self.ranges.iter().any(|(from, to)| from < end && start < to)
    }
}

#[derive(Debug, Clone)]
pub(super) enum Write {
    Put(Bytes, Bytes),
    PutStamped(Bytes, Bytes),
    Add(Bytes, i64),
    Delete(Bytes),
    DeleteRange(Bytes, Bytes),
}

/// A range that a transaction read, and what of it was answered by its own writes.
struct Dependency {
    start: Bytes,
    end: Bytes,
    own: Coverage,
}

/// An open transaction.
pub(super) struct Open {
    /// The snapshot with the own writes on top.
    view: Map,
    began_after: usize,
    writes: Vec<Write>,
    /// The keys that no longer depend on the snapshot.
    own: Coverage,
    dependencies: Vec<Dependency>,
}

/// The verdict of the contract about a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It wrote nothing.
    ReadOnly,
    /// Nothing that it depends on was written to.
    MustSucceed,
    /// A key that it depends on was changed.
    MustConflict,
    /// A key that it depends on was written to without being changed (deleted while absent, put to the value
    /// that it had), or it read a key that it had itself written before, and that was changed. An engine need
    /// not tell these from a change.
    MayConflict,
}

impl Oracle {
    pub(super) fn begin(&self) -> Open {
        Open {
            view: (*self.now).clone(),
            began_after: self.commits.len(),
            writes: Vec::new(),
            own: Coverage::default(),
            dependencies: Vec::new(),
        }
    }

    pub(super) fn verdict(&self, open: &Open) -> Verdict {
        if open.writes.is_empty() {
            return Verdict::ReadOnly;
        }
        let since = &self.commits[open.began_after..];
        let met = |is_met: fn(&Dependency, &Effect) -> bool| {
            open.dependencies.iter().any(|dependency| since.iter().any(|effect| is_met(dependency, effect)))
        };
        if met(Dependency::is_changed_by) {
            Verdict::MustConflict
        } else if met(Dependency::is_written_by) {
            Verdict::MayConflict
        } else {
            Verdict::MustSucceed
        }
    }

    /// Applies a transaction at this stamp; `false` if the stamp does not rise.
    pub(super) fn commit(&mut self, open: &Open, stamp: Stamp) -> bool {
        let before = self.now.clone();
        let now = Arc::make_mut(&mut self.now);
        let mut effect = Effect::default();
        for write in &open.writes {
            write.apply(now, Some(stamp));
            write.cover(&mut effect.written, Some(stamp));
        }
        let keys = before.keys().chain(now.keys());
        effect.changed = keys.filter(|key| before.get(*key) != now.get(*key)).cloned().collect();
        self.commits.push(effect);
        let rises = self.last_stamp < Some(stamp);
        self.last_stamp = Some(stamp);
        rises
    }
}

impl Dependency {
    fn is_changed_by(&self, effect: &Effect) -> bool {
        effect.changed.range(self.start.clone()..self.end.clone()).any(|key| !self.own.has(key))
    }

    fn is_written_by(&self, effect: &Effect) -> bool {
        effect.written.meets(&self.start, &self.end)
    }
}

impl Write {
    pub(super) fn to(&self, tx: &mut impl Transaction) -> Result<(), EngineError> {
        match self {
            Self::Put(key, value) => tx.put(key, value.clone()),
            Self::PutStamped(prefix, value) => tx.put_stamped(prefix, b"", value.clone()),
            Self::Add(key, delta) => tx.add(key, *delta),
            Self::Delete(key) => tx.delete(key),
            Self::DeleteRange(start, end) => tx.delete_range(start, end),
        }
    }

    /// Whether it deletes a range in which stamped keys lie. The contract does not say whether that takes the
    /// stamped keys of the same transaction, which have no place yet; so no transaction does both.
    pub(super) fn takes_stamped(&self) -> bool {
        matches!(self, Self::DeleteRange(start, end) if **start <= *STAMPED && *STAMPED < **end)
    }

    pub(super) fn apply(&self, map: &mut Map, stamp: Option<Stamp>) {
        match self {
            Self::Put(key, value) => drop(map.insert(key.clone(), value.clone())),
            Self::PutStamped(prefix, value) => {
                if let Some(stamp) = stamp {
                    map.insert(stamped(prefix, stamp), value.clone());
                }
            }
            Self::Add(key, delta) => {
                let sum = counter(map.get(key)).wrapping_add(*delta);
                map.insert(key.clone(), Bytes::copy_from_slice(&sum.to_le_bytes()));
            }
            Self::Delete(key) => drop(map.remove(key)),
            Self::DeleteRange(start, end) => map.retain(|key, _| key < start || end <= key),
        }
    }

    fn cover(&self, coverage: &mut Coverage, stamp: Option<Stamp>) {
        match self {
            Self::Put(key, _) | Self::Add(key, _) | Self::Delete(key) => drop(coverage.keys.insert(key.clone())),
            Self::PutStamped(prefix, _) => coverage.keys.extend(stamp.map(|stamp| stamped(prefix, stamp))),
            Self::DeleteRange(start, end) => coverage.ranges.push((start.clone(), end.clone())),
        }
    }
}

fn stamped(prefix: &Bytes, stamp: Stamp) -> Bytes {
    [&prefix[..], stamp.as_bytes()].concat().into()
}

impl Open {
    pub(super) fn write(&mut self, write: Write) {
        write.apply(&mut self.view, None);
        // An add still depends on what lies beneath it.
        if !matches!(write, Write::Add(..)) {
            write.cover(&mut self.own, None);
        }
        self.writes.push(write);
    }

    pub(super) fn has_stamped(&self) -> bool {
        self.writes.iter().any(|write| matches!(write, Write::PutStamped(..)))
    }

    pub(super) fn get(&mut self, key: &Bytes, snapshot: bool) -> Option<Bytes> {
        if !snapshot {
            self.depend(key.clone(), successor(key));
        }
        self.view.get(key).cloned()
    }

    /// The items of a range, in the order of the read.
    pub(super) fn items(&self, start: &Bytes, end: &Bytes, reverse: bool) -> Items {
        let items = self.view.range(start.clone()..end.clone()).map(|(key, value)| (key.clone(), value.clone()));
        if reverse { items.rev().collect() } else { items.collect() }
    }

    /// Notes that this page was read: up to its last item if more may follow, else the whole range.
    pub(super) fn depend_on_page(&mut self, start: &Bytes, end: &Bytes, reverse: bool, page: &Page) {
        match page.items.last().filter(|_| page.more) {
            Some((last, _)) if reverse => self.depend(last.clone(), end.clone()),
            Some((last, _)) => self.depend(start.clone(), successor(last)),
            None => self.depend(start.clone(), end.clone()),
        }
    }

    fn depend(&mut self, start: Bytes, end: Bytes) {
        self.dependencies.push(Dependency { start, end, own: self.own.clone() });
    }
}

fn successor(key: &Bytes) -> Bytes {
    [&key[..], &[0]].concat().into()
}
