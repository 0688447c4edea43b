//! A transaction of the memory engine with one thing wrong.

use crate::{
    engine::{Wrong, drawn, is_too_large},
    fault::Fault,
};
use bytes::Bytes;
use mundi_engine::{
    CommitError, Committed, Engine, EngineError, Page, RangeRead, Read, ReadPlan, Transaction,
    memory::MemoryTransaction,
};
use mundi_model::{Code, Coded, Stamp, limits};
use std::sync::atomic::Ordering;

#[derive(Debug, Clone)]
pub(crate) enum Write {
    Put(Bytes, Bytes),
    Stamped(Bytes, Bytes, Bytes),
    Add(Bytes, i64),
    Delete(Bytes),
    DeleteRange(Bytes, Bytes),
}

impl Write {
    pub(crate) fn to(&self, tx: &mut MemoryTransaction) -> Result<(), EngineError> {
        match self.clone() {
            Self::Put(key, value) => tx.put(&key, value),
            Self::Stamped(prefix, suffix, value) => tx.put_stamped(&prefix, &suffix, value),
            Self::Add(key, delta) => tx.add(&key, delta),
            Self::Delete(key) => tx.delete(&key),
            Self::DeleteRange(start, end) => tx.delete_range(&start, &end),
        }
    }

    /// The key, if it writes to one that is known.
    fn key(&self) -> Option<&Bytes> {
        match self {
            Self::Put(key, _) | Self::Add(key, _) | Self::Delete(key) => Some(key),
            Self::Stamped(..) | Self::DeleteRange(..) => None,
        }
    }

    fn clears(&self, key: &[u8]) -> bool {
        matches!(self, Self::DeleteRange(start, end) if **start <= *key && *key < **end)
    }
}

pub(crate) struct WrongTransaction {
    wrong: Wrong,
    /// Taken by the commit.
    inner: Option<MemoryTransaction>,
    /// Reads about the same snapshot, and knows no writes.
    bare: MemoryTransaction,
    writes: Vec<Write>,
    reads: Vec<(Bytes, Option<Bytes>)>,
    ranges: Vec<(RangeRead, Page)>,
    planned: Vec<Read>,
    new_keys: Vec<Bytes>,
    is_poisoned: bool,
}

impl WrongTransaction {
    pub(crate) fn new(wrong: &Wrong, inner: MemoryTransaction, bare: MemoryTransaction) -> Self {
        Self {
            wrong: wrong.clone(),
            inner: Some(inner),
            bare,
            writes: Vec::new(),
            reads: Vec::new(),
            ranges: Vec::new(),
            planned: Vec::new(),
            new_keys: Vec::new(),
            is_poisoned: false,
        }
    }

    pub(crate) fn with(mut self, plan: ReadPlan) -> Self {
        (self.planned, self.new_keys) = (plan.reads, plan.new_keys);
        self
    }

    fn inner(&mut self) -> &mut MemoryTransaction {
        self.inner.as_mut().unwrap()
    }

    fn write(&mut self, write: Write) -> Result<(), EngineError> {
        let answer = write.to(self.inner());
        match (&answer, self.wrong.fault) {
            (Ok(()), _) => self.writes.push(write),
            (Err(_), Fault::RefusalPoisons) => self.is_poisoned = true,
            (Err(error), fault) if forgives(fault, error.code()) => return Ok(()),
            _ => {}
        }
        answer
    }

    fn forgiven<T>(&mut self, answer: Result<T, EngineError>, instead: T) -> Result<T, EngineError> {
        match answer {
            Err(error) if forgives(self.wrong.fault, error.code()) => Ok(instead),
            Err(error) => {
                self.is_poisoned |= self.wrong.fault == Fault::RefusalPoisons;
                Err(error)
            }
            Ok(value) => Ok(value),
        }
    }

    fn has_written(&self, key: &[u8]) -> bool {
        self.writes.iter().any(|write| write.clears(key) || write.key().is_some_and(|written| written == key))
    }

    async fn faulty_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        match self.wrong.fault {
            Fault::NoKeyConflicts | Fault::ReadsUncounted => self.inner().get_snapshot(key).await,
            Fault::ReadsLatest if !self.has_written(key) => self.wrong.newest(key).await,
            Fault::OwnWritesUnseen => self.bare.get(key).await,
            Fault::PrefetchedSkipOwnWrites if self.planned.contains(&Read::get(key)) => self.bare.get(key).await,
            Fault::PrefetchedReadLatest if self.planned.contains(&Read::get(key)) && !self.has_written(key) => {
                self.wrong.newest(key).await
            }
            Fault::PlannedUnnoticed if self.planned.contains(&Read::get(key)) => self.inner().get_snapshot(key).await,
            Fault::OwnRangeDeletesUnseen if self.writes.iter().any(|write| write.clears(key)) => {
                self.bare.get(key).await
            }
            Fault::OwnAddsUnseen if self.writes.iter().any(|write| matches!(write, Write::Add(at, _) if at == key)) => {
                self.bare.get(key).await
            }
            Fault::MixedSnapshots if !self.reads.is_empty() => {
                Wrong::linger();
                self.wrong.newest(key).await
            }
            Fault::DeletionsUnnoticed => self.inner().get_snapshot(key).await,
            Fault::LocksNeighbours => {
                let beside = RangeRead::new(key.to_vec(), [key, b"\xff"].concat(), 100);
                self.inner().range(beside).await?;
                self.inner().get(key).await
            }
            _ => self.inner().get(key).await,
        }
    }

    async fn faulty_range(&mut self, mut read: RangeRead) -> Result<Page, EngineError> {
        let limit = read.limit;
        let same = |planned: &Read| matches!(planned, Read::Range(range) if range.clone().snapshot() == read.clone().snapshot());
        let is_planned = self.planned.iter().any(same);
        match self.wrong.fault {
            Fault::PlannedUnnoticed if is_planned => read.snapshot = true,
            Fault::SnapshotReadsConflict => read.snapshot = false,
            Fault::NoRangeConflicts | Fault::PhantomBlind | Fault::StampedUnnoticed => read.snapshot = true,
            Fault::LimitLocksAll if !read.snapshot => {
                self.inner().range(RangeRead { limit: limits::RANGE_ITEMS_MAX, ..read.clone() }).await?;
            }
            Fault::EndInclusive if read.end != b"\xff"[..] => read.end = [&read.end[..], &[0]].concat().into(),
            Fault::ReverseTakesFirst if read.reverse => read.limit = limits::RANGE_ITEMS_MAX,
            _ => {}
        }
        let mut page = match self.wrong.fault {
            Fault::RangesSkipOwnWrites | Fault::OwnWritesUnseen => self.bare.range(read.clone()).await?,
            Fault::PrefetchedSkipOwnWrites if is_planned => self.bare.range(read.clone()).await?,
            Fault::ReverseSkipsOwnWrites if read.reverse => self.bare.range(read.clone()).await?,
            Fault::ReadsLatest if self.writes.is_empty() => self.wrong.store.begin().await?.range(read.clone()).await?,
            _ => self.inner().range(read.clone()).await?,
        };
        match self.wrong.fault {
            Fault::PhantomBlind => {
                for (key, _) in page.items.clone() {
                    self.inner().get(&key).await?;
                }
            }
            Fault::SignedOrder => page.items.sort_by_key(|(key, _)| signed(key)),
            Fault::ReverseTakesFirst if read.reverse && page.items.len() > limit => {
                page.items.drain(..page.items.len() - limit);
                page.more = true;
            }
            Fault::MoreNever => page.more = false,
            Fault::MoreAlways => page.more = true,
            Fault::PagesUnbounded => self.read_on(&read, &mut page).await?,
            _ => {}
        }
        Ok(page)
    }

    /// Reads page after page as if they were one.
    async fn read_on(&mut self, read: &RangeRead, page: &mut Page) -> Result<(), EngineError> {
        let mut read = read.clone();
        while let Some((last, _)) = page.items.last().filter(|_| page.more && page.items.len() < read.limit) {
            read.start = [&last[..], &[0]].concat().into();
            let next = self.inner().range(read.clone()).await?;
            page.items.extend(next.items);
            page.more = next.more;
        }
        Ok(())
    }

    /// Whether a fault refuses what is right, or `None` if there is nothing to say.
    async fn faulty_refusal(&mut self) -> Result<Option<bool>, EngineError> {
        match self.wrong.fault {
            Fault::SelfConflict => Ok(self.reads.iter().any(|(key, _)| self.has_written(key)).then_some(true)),
            Fault::WritesConflict => {
                for key in self.writes.iter().filter_map(|write| write.key().cloned()).collect::<Vec<_>>() {
                    if self.bare.get(&key).await? != self.wrong.newest(&key).await? {
                        return Ok(Some(true));
                    }
                }
                Ok(None)
            }
            Fault::DeletionsUnnoticed => {
                for (key, seen) in &self.reads {
                    let now = self.wrong.newest(key).await?;
                    if now.is_some() && now != *seen {
                        return Ok(Some(true));
                    }
                }
                Ok(None)
            }
            Fault::StampedUnnoticed => {
                for (read, seen) in &self.ranges {
                    let mut now = self.wrong.store.begin().await?.range(read.clone()).await?;
                    now.items.retain(|(key, _)| key.len() <= Stamp::LEN);
                    if now.items != seen.items {
                        return Ok(Some(true));
                    }
                }
                Ok(None)
            }
            _ => Ok(self.is_poisoned.then_some(true)),
        }
    }

    /// Writes again what was written, the way of the fault, in a transaction of its own.
    async fn rewritten(&mut self, stamp: Stamp) -> Result<Committed, CommitError> {
        let mut tx = self.wrong.store.begin().await?;
        for write in self.writes.clone() {
            self.rewrite(&mut tx, &write, stamp).await?;
        }
        tx.delete(b"~")?; // it may turn out that there was nothing to write
        tx.commit().await
    }

    async fn rewrite(&mut self, tx: &mut MemoryTransaction, write: &Write, stamp: Stamp) -> Result<(), EngineError> {
        match (self.wrong.fault, write) {
            (Fault::RangeDeleteAtSnapshot, Write::DeleteRange(start, end)) => {
                let read = RangeRead::new(start.clone(), end.clone(), limits::RANGE_ITEMS_MAX);
                let page = self.bare.range(read).await?;
                page.items.iter().try_for_each(|(key, _)| tx.delete(key))
            }
            (Fault::RangeDeleteEndInclusive, Write::DeleteRange(start, end)) if end != &b"\xff"[..] => {
                tx.delete_range(start, &[end, &[0][..]].concat())
            }
            (Fault::AddsAtSnapshot, Write::Add(key, delta)) => {
                let sum = number(self.bare.get(key).await?).wrapping_add(*delta);
                tx.put(key, sum.to_le_bytes().to_vec())
            }
            (Fault::AddsSaturate, Write::Add(key, delta)) => {
                let sum = number(tx.get(key).await?).saturating_add(*delta);
                tx.put(key, sum.to_le_bytes().to_vec())
            }
            (Fault::StampsDrawnEarly, Write::Stamped(prefix, suffix, value)) => {
                tx.put(&[&prefix[..], stamp.as_bytes(), suffix].concat(), value.clone())
            }
            (_, write) => write.to(tx),
        }
    }

    async fn as_they_are(&mut self, writes: &[Write]) -> Result<Committed, CommitError> {
        let mut tx = self.wrong.store.begin().await?;
        for write in writes {
            write.to(&mut tx)?;
        }
        tx.commit().await
    }

    async fn faulty_commit(&mut self) -> Result<Committed, CommitError> {
        let inner = self.inner.take().unwrap();
        let half = self.writes.len().div_ceil(2);
        let writes = std::mem::take(&mut self.writes);
        self.writes = writes.clone();
        match self.wrong.fault {
            _ if self.writes.is_empty() && self.wrong.fault != Fault::ReadersConflict => inner.commit().await,
            Fault::TornForReaders => {
                let plain = writes[..half].iter().filter(|write| !matches!(write, Write::Add(..) | Write::Stamped(..)));
                self.as_they_are(&plain.cloned().collect::<Vec<_>>()).await?;
                Wrong::linger();
                inner.commit().await
            }
            Fault::LosesHalf => self.as_they_are(&writes[..half]).await,
            Fault::KeepsRefused => match inner.commit().await {
                Err(CommitError::Conflict) => {
                    self.as_they_are(&writes).await?;
                    Err(CommitError::Conflict)
                }
                answer => answer,
            },
            Fault::ReadersConflict => {
                let mut inner = inner;
                inner.delete(b"~")?;
                let answer = inner.commit().await?;
                Ok(if self.writes.is_empty() { Committed::ReadOnly } else { answer })
            }
            Fault::RangeDeleteAtSnapshot => {
                Wrong::linger();
                self.rewritten(drawn(&self.wrong)).await
            }
            Fault::RangeDeleteLast => {
                let (last, first): (Vec<_>, Vec<_>) =
                    writes.into_iter().partition(|write| matches!(write, Write::DeleteRange(..)));
                self.as_they_are(&[first, last].concat()).await
            }
            Fault::RangeDeleteEndInclusive => self.rewritten(drawn(&self.wrong)).await,
            Fault::AddsAtSnapshot => {
                Wrong::linger();
                self.rewritten(drawn(&self.wrong)).await
            }
            Fault::AddsSaturate => self.rewritten(drawn(&self.wrong)).await,
            Fault::AddsConflict => {
                let mut inner = inner;
                for write in &writes {
                    if let Write::Add(key, _) = write {
                        inner.get(key).await?;
                    }
                }
                Wrong::linger();
                inner.commit().await
            }
            Fault::StampMismatch => match inner.commit().await? {
                Committed::At(_) => {
                    Ok(Committed::At(Stamp::new(self.wrong.shared.next_stamp.fetch_add(1, Ordering::SeqCst), 1)))
                }
                read_only => Ok(read_only),
            },
            Fault::StampsDrawnEarly => {
                let stamp = drawn(&self.wrong);
                Wrong::linger();
                self.rewritten(stamp).await?;
                Ok(Committed::At(stamp))
            }
            Fault::AcknowledgesEarly => {
                let owed = self.wrong.shared.owed.lock().replace(inner);
                if let Some(owed) = owed {
                    let _lost = owed.commit().await;
                }
                Ok(Committed::At(drawn(&self.wrong)))
            }
            Fault::ConflictAfterApply => {
                let answer = inner.commit().await;
                let is_lie = self.wrong.shared.commits.fetch_add(1, Ordering::SeqCst) % 5 == 4;
                if is_lie { Err(CommitError::Conflict) } else { answer }
            }
            Fault::RangeDeletesTorn => {
                let answer = inner.commit().await;
                if is_too_large(&answer) {
                    self.delete_some().await?;
                }
                answer
            }
            Fault::OldCommits => match inner.commit().await {
                Err(CommitError::Conflict) => self.as_they_are(&writes).await,
                answer => answer,
            },
            _ => inner.commit().await,
        }
    }

    async fn delete_some(&self) -> Result<Committed, CommitError> {
        let mut tx = self.wrong.store.begin().await?;
        for (key, _) in tx.range(RangeRead::prefix(b"", 100).snapshot()).await?.items {
            tx.delete(&key)?;
        }
        tx.commit().await
    }
}

fn forgives(fault: Fault, code: Code) -> bool {
    match code {
        Code::KeyInvalid => fault == Fault::KeysUnbounded,
        Code::ValueTooLarge => fault == Fault::ValuesUnbounded,
        Code::RangeInvalid => fault == Fault::LimitsUnbounded,
        Code::TransactionTooLarge => fault == Fault::SizeUnbounded,
        _ => false,
    }
}

fn signed(key: &[u8]) -> Vec<i8> {
    key.iter().map(|byte| byte.cast_signed()).collect()
}

fn number(value: Option<Bytes>) -> i64 {
    value.and_then(|value| <[u8; 8]>::try_from(&value[..]).ok()).map_or(0, i64::from_le_bytes)
}

impl Transaction for WrongTransaction {
    async fn version(&mut self) -> Result<u64, EngineError> {
        if self.wrong.fault == Fault::VersionAskedLater && !self.planned.is_empty() {
            Wrong::linger();
            return self.wrong.store.begin().await?.version().await;
        }
        let version = self.inner().version().await?;
        // One too many: it claims to have seen what it has not.
        Ok(if self.wrong.fault == Fault::VersionAhead { version + 1 } else { version })
    }

    fn prefetch<R: IntoIterator<Item = Read>>(&mut self, reads: impl FnOnce() -> R) {
        self.planned.extend(reads());
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let answer = self.faulty_get(key).await;
        let value = self.forgiven(answer, None)?;
        self.reads.push((Bytes::copy_from_slice(key), value.clone()));
        Ok(value)
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        match self.wrong.fault {
            Fault::SnapshotReadsConflict => self.inner().get(key).await,
            Fault::KeysUnbounded | Fault::RefusalPoisons => {
                let answer = self.inner().get_snapshot(key).await;
                self.forgiven(answer, None)
            }
            _ => self.inner().get_snapshot(key).await,
        }
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        let answer = self.faulty_range(read.clone()).await;
        let page = self.forgiven(answer, Page { items: Vec::new(), more: false })?;
        if !read.snapshot {
            self.ranges.push((read, page.clone()));
        }
        Ok(page)
    }

    fn put(&mut self, key: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        let is_new = self.wrong.fault == Fault::NewIsKept && self.new_keys.iter().any(|prefix| key.starts_with(prefix));
        let is_there = self.writes.iter().any(|write| matches!(write, Write::Put(at, _) if at == key));
        if is_new && is_there { Ok(()) } else { self.write(Write::Put(Bytes::copy_from_slice(key), value.into())) }
    }

    fn put_stamped(&mut self, prefix: &[u8], suffix: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        let (prefix, suffix) = (Bytes::copy_from_slice(prefix), Bytes::copy_from_slice(suffix));
        self.write(Write::Stamped(prefix, suffix, value.into()))
    }

    fn add(&mut self, key: &[u8], delta: i64) -> Result<(), EngineError> {
        self.write(Write::Add(Bytes::copy_from_slice(key), delta))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), EngineError> {
        self.write(Write::Delete(Bytes::copy_from_slice(key)))
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<(), EngineError> {
        self.write(Write::DeleteRange(Bytes::copy_from_slice(start), Bytes::copy_from_slice(end)))
    }

    async fn commit(mut self) -> Result<Committed, CommitError> {
        if self.wrong.fault == Fault::PlansConflict {
            for read in std::mem::take(&mut self.planned) {
                match read {
                    Read::Get(key) => drop(self.inner().get(&key).await?),
                    Read::Range(range) => drop(self.inner().range(range).await?),
                }
            }
        }
        if self.faulty_refusal().await? == Some(true) {
            return Err(CommitError::Conflict);
        }
        self.faulty_commit().await
    }
}

impl Drop for WrongTransaction {
    fn drop(&mut self) {
        let Some(abandoned) = self.inner.take() else { return };
        self.wrong.shared.dropped.lock().extend(self.writes.drain(..));
        if self.wrong.fault == Fault::KeepsAbandoned {
            let _answer = pollster::block_on(abandoned.commit());
        }
    }
}
