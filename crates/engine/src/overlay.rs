//! The transaction's own side: what it has written and what it has depended on, over any snapshot.
//!
//! Own writes stay here until the commit on every engine. FoundationDB could keep them itself, but there a key with a stamp makes the range
//! in which it may come to lie unreadable for its own transaction.

use crate::{EngineError, Page, RangeRead, transaction_size as size, write_set::WriteSet};
use bytes::{Bytes, BytesMut};
use mundi_model::{Stamp, limits};

/// The change of a transaction to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    Put(Bytes),
    Delete,
    /// On top of whatever is there at commit.
    Add(i64),
}

/// A put whose key is not known before the commit.
#[derive(Debug, Clone)]
pub(crate) struct StampedPut {
    prefix: Bytes,
    suffix: Bytes,
    pub(crate) value: Bytes,
}

impl StampedPut {
    /// The key before and behind its stamp.
    #[cfg(any(test, feature = "foundationdb"))]
    pub(crate) fn around(&self) -> (&[u8], &[u8]) {
        (&self.prefix, &self.suffix)
    }

    pub(crate) fn key(&self, stamp: Stamp) -> Bytes {
        let mut key = BytesMut::with_capacity(self.prefix.len() + Stamp::LEN + self.suffix.len());
        key.extend_from_slice(&self.prefix);
        key.extend_from_slice(stamp.as_bytes());
        key.extend_from_slice(&self.suffix);
        key.freeze()
    }
}

/// Room for what most transactions read, so that it is made once.
const KEYS_READ_USUAL: usize = 8;

/// The reads on which the commit of a transaction depends. Ranges are `start..end`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads {
    pub(crate) keys: Vec<Bytes>,
    pub(crate) ranges: Vec<(Bytes, Bytes)>,
}

/// The writes and reads of a transaction, gathered until commit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    /// These come after `cleared`: a delete of a range takes out the writes that it covers.
    pub(crate) writes: WriteSet,
    pub(crate) cleared: Vec<(Bytes, Bytes)>,
    pub(crate) stamped: Vec<StampedPut>,
    pub(crate) reads: Reads,
    /// Keys under these prefixes are read soon after they are written, as its plan says.
    #[cfg(feature = "postgres")]
    pub(crate) rereads: Vec<Bytes>,
    /// Keys under these prefixes hold nothing before they are put, as its plan says.
    #[cfg(feature = "postgres")]
    pub(crate) new_keys: Vec<Bytes>,
    size: size::Size,
}

impl Overlay {
    pub(crate) fn is_read_only(&self) -> bool {
        self.writes.is_empty() && self.cleared.is_empty() && self.stamped.is_empty()
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Bytes) -> Result<(), EngineError> {
        check_key(key)?;
        check_value(&value)?;
        self.size.add(size::of_put(key.len(), value.len()))?;
        self.writes.insert(Bytes::copy_from_slice(key), Write::Put(value));
        Ok(())
    }

    pub(crate) fn put_stamped(&mut self, prefix: &[u8], suffix: &[u8], value: Bytes) -> Result<(), EngineError> {
        let len = prefix.len() + Stamp::LEN + suffix.len();
        if prefix.is_empty() || prefix[0] == u8::MAX || len > limits::KEY_BYTES_MAX {
            return Err(EngineError::KeyInvalid { len, first: prefix.first().copied() });
        }
        check_value(&value)?;
        self.size.add(size::of_put(len, value.len()))?;
        let (prefix, suffix) = (Bytes::copy_from_slice(prefix), Bytes::copy_from_slice(suffix));
        self.stamped.push(StampedPut { prefix, suffix, value });
        Ok(())
    }

    pub(crate) fn add(&mut self, key: &[u8], delta: i64) -> Result<(), EngineError> {
        check_key(key)?;
        self.size.add(size::of_put(key.len(), size_of::<i64>()))?;
        let write = match self.writes.get(key) {
            Some(Write::Put(value)) => Write::Put(added(Some(value), delta)),
            Some(Write::Delete) => Write::Put(added(None, delta)),
            Some(Write::Add(before)) => Write::Add(before.wrapping_add(delta)),
            None if self.is_cleared(key) => Write::Put(added(None, delta)),
            None => Write::Add(delta),
        };
        self.writes.insert(Bytes::copy_from_slice(key), write);
        Ok(())
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), EngineError> {
        check_key(key)?;
        self.size.add(size::of_delete(key.len()))?;
        self.writes.insert(Bytes::copy_from_slice(key), Write::Delete);
        Ok(())
    }

    pub(crate) fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<(), EngineError> {
        check_bound(start)?;
        check_bound(end)?;
        if start >= end {
            return Ok(());
        }
        self.size.add(size::of_delete_range(start.len(), end.len()))?;
        let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        self.writes.remove_range(&start, &end);
        self.cleared.push((start, end));
        Ok(())
    }

    /// The keys that it puts and that hold nothing before, as its plan says.
    #[cfg(feature = "postgres")]
    pub(crate) fn puts_of_new_keys(&self) -> impl Iterator<Item = &Bytes> {
        let is_new = |key: &Bytes| self.new_keys.iter().any(|prefix| key.starts_with(prefix));
        let puts = self.writes.iter().filter(|(_, write)| matches!(write, Write::Put(_)));
        puts.map(|(key, _)| key).filter(move |key| is_new(key))
    }

    /// Whether a read of this key needs nothing of the snapshot.
    #[cfg(feature = "postgres")]
    pub(crate) fn decides(&self, key: &[u8]) -> Result<bool, EngineError> {
        check_key(key)?;
        Ok(match self.writes.get(key) {
            Some(Write::Put(_) | Write::Delete) => true,
            Some(Write::Add(_)) => false,
            None => self.is_cleared(key),
        })
    }

    /// Whether these items of a range, the first ones in the order of the read, make up a page whatever comes after them.
    #[cfg(feature = "postgres")]
    pub(crate) fn fills_page(&self, read: &RangeRead, stored: &[(Bytes, Bytes)]) -> bool {
        let (mut items, mut bytes) = (0, 0);
        for (key, value) in stored {
            match self.writes.get(key) {
                Some(Write::Delete) => {}
                Some(Write::Put(_) | Write::Add(_)) => items += 1, // of another size than what is stored
                None if self.is_cleared(key) => {}
                None => (items, bytes) = (items + 1, bytes + key.len() + value.len()),
            }
        }
        items >= read.limit || bytes >= limits::RANGE_BYTES_MAX
    }

    /// Whether a range read can find nothing at all; one that is out of bounds is refused.
    pub(crate) fn is_empty_range(read: &RangeRead) -> Result<bool, EngineError> {
        if read.limit == 0 || read.limit > limits::RANGE_ITEMS_MAX {
            return Err(EngineError::RangeInvalid { limit: read.limit });
        }
        check_bound(&read.start)?;
        check_bound(&read.end)?;
        Ok(read.start >= read.end)
    }

    /// Whether what it finds in a range may be another thing than what the snapshot holds there.
    pub(crate) fn touches(&self, read: &RangeRead) -> bool {
        !self.cleared.is_empty()
            || !self.writes.is_empty() && self.writes.range(&read.start, &read.end, false).next().is_some()
    }

    /// A read of one key, of which `base` gives the snapshot's value.
    pub(crate) fn get(
        &mut self,
        key: &[u8],
        depends: bool,
        base: impl FnOnce(&[u8]) -> Result<Option<Bytes>, EngineError>,
    ) -> Result<Option<Bytes>, EngineError> {
        check_key(key)?;
        let pending = match self.writes.get(key) {
            Some(Write::Put(value)) => return Ok(Some(value.clone())),
            Some(Write::Delete) => return Ok(None),
            Some(Write::Add(delta)) => Some(*delta),
            None if self.is_cleared(key) => return Ok(None),
            None => None,
        };
        if depends {
            self.size.add(size::of_read(key.len()))?;
        }
        let stored = base(key)?;
        if depends {
            if self.reads.keys.is_empty() {
                self.reads.keys.reserve(KEYS_READ_USUAL);
            }
            self.reads.keys.push(Bytes::copy_from_slice(key));
        }
        Ok(match pending {
            Some(delta) => Some(added(stored.as_ref(), delta)),
            None => stored,
        })
    }

    /// A range read, over the snapshot's items of that range in the order of the read.
    pub(crate) fn range(
        &mut self,
        read: &RangeRead,
        base: impl Iterator<Item = Result<(Bytes, Bytes), EngineError>>,
    ) -> Result<Page, EngineError> {
        if Self::is_empty_range(read)? {
            return Ok(Page { items: Vec::new(), more: false });
        }
        let page = self.merge(read, base)?;
        if !read.snapshot {
            let (start, end) = part_read(read, &page);
            self.size.add(size::of_range_read(start.len(), end.len()))?;
            self.reads.ranges.push((start, end));
        }
        Ok(page)
    }

    fn merge(
        &self,
        read: &RangeRead,
        base: impl Iterator<Item = Result<(Bytes, Bytes), EngineError>>,
    ) -> Result<Page, EngineError> {
        let mut base = base.peekable();
        let mut own = self.writes.range(&read.start, &read.end, read.reverse);
        let mut own_next = own.next();
        let mut items = Vec::new();
        let mut bytes = 0;
        loop {
            if items.len() == read.limit || bytes >= limits::RANGE_BYTES_MAX {
                return Ok(Page { items, more: true });
            }
            let stored = match base.peek() {
                Some(Err(error)) => return Err(error.clone()),
                Some(Ok((key, value))) => Some((key.clone(), value.clone())),
                None => None,
            };
            let own_is_first = match (&own_next, &stored) {
                (None, None) => return Ok(Page { items, more: false }),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((own, _)), Some((stored, _))) => {
                    if read.reverse {
                        *own >= stored
                    } else {
                        *own <= stored
                    }
                }
            };
            let item = match (own_next, stored) {
                (Some((key, write)), stored) if own_is_first => {
                    let below = stored.filter(|(stored, _)| stored == key).map(|(_, value)| value);
                    if below.is_some() {
                        base.next();
                    }
                    own_next = own.next();
                    match write {
                        Write::Put(value) => Some((key.clone(), value.clone())),
                        Write::Delete => None,
                        Write::Add(delta) => Some((key.clone(), added(below.as_ref(), *delta))),
                    }
                }
                (_, stored) => {
                    base.next();
                    stored.filter(|(key, _)| !self.is_cleared(key))
                }
            };
            if let Some((key, value)) = item {
                bytes += key.len() + value.len();
                items.push((key, value));
            }
        }
    }

    fn is_cleared(&self, key: &[u8]) -> bool {
        self.cleared.iter().any(|(start, end)| **start <= *key && *key < **end)
    }

    /// The keys and values that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.size.bytes()
    }

    #[cfg(test)]
    pub(crate) fn counted(&self) -> usize {
        self.size.counted()
    }

    /// Counts keys that a deleted range turned out to hold.
    pub(crate) fn count_cleared(&mut self, bytes: usize) -> Result<(), EngineError> {
        self.size.add(size::of_listed(bytes))
    }
}

/// A read that its limit ended depends only on what lies up to its last item.
fn part_read(read: &RangeRead, page: &Page) -> (Bytes, Bytes) {
    match page.items.last() {
        Some((last, _)) if page.more && read.reverse => (last.clone(), read.end.clone()),
        Some((last, _)) if page.more => (read.start.clone(), successor(last)),
        _ => (read.start.clone(), read.end.clone()),
    }
}

/// The smallest key above `key`.
pub(crate) fn successor(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.extend_from_slice(&[0]);
    next.freeze()
}

/// A counter after an addition; what is not eight bytes counts as zero.
pub(crate) fn added(value: Option<&Bytes>, delta: i64) -> Bytes {
    let before = value.and_then(|value| <[u8; 8]>::try_from(&value[..]).ok()).map_or(0, i64::from_le_bytes);
    Bytes::copy_from_slice(&before.wrapping_add(delta).to_le_bytes())
}

pub(crate) fn check_key(key: &[u8]) -> Result<(), EngineError> {
    if key.is_empty() || key.len() > limits::KEY_BYTES_MAX || key[0] == u8::MAX {
        return Err(EngineError::KeyInvalid { len: key.len(), first: key.first().copied() });
    }
    Ok(())
}

/// The end of a range may be empty (nothing), or `0xff`: above all keys of layers.
fn check_bound(key: &[u8]) -> Result<(), EngineError> {
    if key.len() > limits::KEY_BYTES_MAX + 1 || (key.first() == Some(&u8::MAX) && key.len() > 1) {
        return Err(EngineError::KeyInvalid { len: key.len(), first: key.first().copied() });
    }
    Ok(())
}

fn check_value(value: &Bytes) -> Result<(), EngineError> {
    if value.len() > limits::VALUE_BYTES_MAX {
        return Err(EngineError::ValueTooLarge { len: value.len() });
    }
    Ok(())
}
