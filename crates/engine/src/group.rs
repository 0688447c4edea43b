//! A group in the making: commits that become durable together, in the order in which they were added.
//!
//! Engines that put commits in order in this process share it. It knows what those before have written, which decides
//! whether the next one may join; where the values below come from is the engine's business.

use crate::{
    CommitError, Committed,
    overlay::{Overlay, Write},
    recent::Writes,
};
use bytes::Bytes;
use futures_channel::oneshot;
use mundi_model::Stamp;
use std::collections::{BTreeMap, btree_map::Entry};

/// A group ends before this many bytes, so that it stays far below the limits of what carries it.
pub(crate) const GROUP_BYTES: usize = 2 << 20;
/// The bytes of a write besides key and value, with room to spare.
pub(crate) const PER_WRITE_BYTES: usize = 8;
/// The order within a group is the two-byte part of a stamp.
const GROUP_COMMITS_MAX: usize = Stamp::ORDER_DIRECT as usize;

/// The outcome of a commit.
pub(crate) type Answer = Result<Committed, CommitError>;

#[derive(Default)]
pub(crate) struct Group {
    pub(crate) writes: Writes,
    /// Where the last write to each key stands; made for the first commit that depends on what others wrote.
    places: Option<BTreeMap<Bytes, usize>>,
    pub(crate) bytes: usize,
    pub(crate) callers: Callers,
    /// The prefixes of what is soon read, as the plans of its commits say.
    #[cfg(feature = "postgres")]
    pub(crate) rereads: Vec<Bytes>,
}

/// The engine's lookups for one commit.
#[derive(Default)]
pub(crate) struct Found {
    /// The new values of its counters.
    pub(crate) sums: Vec<(Bytes, Bytes)>,
    /// The keys that its deleted ranges hold.
    pub(crate) cleared: Vec<Bytes>,
}

/// Those who wait for a group.
#[derive(Default)]
pub(crate) struct Callers {
    pub(crate) answers: Vec<(oneshot::Sender<Answer>, Stamp)>,
    /// Commits that lost a race. They are told once the winner is visible: sooner, they would run again on the
    /// state that they have just lost on.
    pub(crate) conflicts: Vec<oneshot::Sender<Answer>>,
}

impl Group {
    pub(crate) fn is_full(&self) -> bool {
        self.callers.answers.len() >= GROUP_COMMITS_MAX || self.bytes >= GROUP_BYTES
    }

    /// The stamp of the next commit.
    pub(crate) fn stamp(&self, version: u64) -> Stamp {
        // A group has fewer than 2^16 commits.
        Stamp::new(version, u16::try_from(self.callers.answers.len()).unwrap_or(u16::MAX))
    }

    /// Whether a commit depends on nothing that those before it in the group have written.
    pub(crate) fn allows(&mut self, overlay: &Overlay) -> bool {
        let reads = &overlay.reads;
        if reads.keys.is_empty() && reads.ranges.is_empty() {
            return true;
        }
        let places = self.places();
        !reads.keys.iter().any(|key| places.contains_key(key))
            && !reads.ranges.iter().any(|(start, end)| places.range::<Bytes, _>(start..end.max(start)).next().is_some())
    }

    /// The keys of a range that the group writes.
    pub(crate) fn written<'a>(&'a mut self, start: &'a Bytes, end: &'a Bytes) -> impl Iterator<Item = &'a Bytes> {
        self.places().range::<Bytes, _>(start..end.max(start)).map(|(key, _)| key)
    }

    /// The value of a key after the group: `Some(None)` if it is deleted.
    pub(crate) fn value(&mut self, key: &Bytes) -> Option<&Option<Bytes>> {
        let place = *self.places().get(key)?;
        Some(&self.writes[place].1)
    }

    fn places(&mut self) -> &mut BTreeMap<Bytes, usize> {
        let Self { places, writes, .. } = self;
        places.get_or_insert_with(|| writes.iter().zip(0..).map(|((key, _), place)| (key.clone(), place)).collect())
    }

    /// Adds the writes of one commit, with ranges, additions and stamps filled in.
    pub(crate) fn add(&mut self, stamp: Stamp, overlay: Overlay, found: Found, answer: oneshot::Sender<Answer>) {
        for key in found.cleared {
            self.write(key, None);
        }
        for (key, write) in overlay.writes.into_writes() {
            match write {
                Write::Put(value) => self.write(key, Some(value)),
                Write::Delete => self.write(key, None),
                Write::Add(_) => {}
            }
        }
        for (key, sum) in found.sums {
            self.write(key, Some(sum));
        }
        for put in overlay.stamped {
            self.write(put.key(stamp), Some(put.value));
        }
        #[cfg(feature = "postgres")]
        self.rereads.extend(overlay.rereads);
        self.callers.answers.push((answer, stamp));
    }

    /// All writes of a group become visible at once: of several to one key, the last is enough.
    fn write(&mut self, key: Bytes, value: Option<Bytes>) {
        self.bytes += PER_WRITE_BYTES + key.len() + value.as_ref().map_or(0, Bytes::len);
        if let Some(places) = &mut self.places {
            match places.entry(key.clone()) {
                Entry::Occupied(place) => return self.writes[*place.get()].1 = value,
                Entry::Vacant(place) => drop(place.insert(self.writes.len())),
            }
        }
        self.writes.push((key, value));
    }

    /// In order of keys. The sort is stable: the later of two writes to a key stays later.
    pub(crate) fn sort(&mut self) {
        self.places = None;
        self.writes.sort_by(|(one, _), (other, _)| one.cmp(other));
        #[cfg(feature = "postgres")]
        self.rereads.sort();
    }
}

impl Callers {
    pub(crate) fn len(&self) -> usize {
        self.answers.len() + self.conflicts.len()
    }

    /// The group is durable and visible.
    pub(crate) fn succeed(self) {
        refuse_all(self.conflicts);
        for (answer, stamp) in self.answers {
            let _gone = answer.send(Ok(Committed::At(stamp)));
        }
    }

    pub(crate) fn fail(self, error: &CommitError) {
        for (answer, _) in self.answers {
            let _gone = answer.send(Err(error.clone()));
        }
        refuse_all(self.conflicts);
    }
}

pub(crate) fn refuse_all(conflicts: Vec<oneshot::Sender<Answer>>) {
    for answer in conflicts {
        let _gone = answer.send(Err(CommitError::Conflict));
    }
}
