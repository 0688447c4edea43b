//! Records that are ready to be appended: sealed, contiguous, chained, within bounds.

use super::JournalError;
use crate::{StoreError, keyspace::journal_entry, keyspace::journal_head::JournalHead, keyspace::manifest_at};
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{
    Code, Hash, Height, IntentHash, UniverseId, WorldId, limits,
    record::{Body, Held, InboxItem, Ingress, Input, Record, Rejected, Reply, ReplyOutcome, Sealed, StepFailed},
};
use std::collections::BTreeSet;

/// A run of sealed records. That they continue each other was checked when the batch was made; that they
/// continue the journal is checked in the transaction that appends them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    start: JournalHead,
    end: JournalHead,
    records: Vec<Bytes>,
    /// From which height on another manifest holds.
    manifests: Vec<(Height, Hash)>,
    intents: Vec<(IntentHash, Height)>,
    cancelled: Vec<IntentHash>,
    replies: Vec<(Height, Reply)>,
    /// The newest input. What follows from its step stands above it.
    taken: Height,
    failures: Failures,
}

/// The failed steps in a run of records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failures {
    /// Somebody dealt with the failures before these: the world was upgraded, resumed, or its input retried or skipped.
    pub are_new: bool,
    pub count: u64,
    /// The newest one: the height of the record whose step failed, or of the hold if its input was not consumed; code and reason.
    pub last: Option<(Height, String, String)>,
}

impl Failures {
    /// Takes a record at this height into account. `taken` is the height of the newest input at or below it.
    fn note(&mut self, height: Height, taken: Height, body: &Body) {
        match body {
            Body::StepFailed(StepFailed { code, .. }) if code == Code::StepSkipped.as_str() => {}
            Body::StepFailed(StepFailed { code, reason }) => self.add(taken, code, reason),
            Body::Held(Held { code, reason, failed: Some(_) }) => self.add(height, code, reason),
            Body::ManifestChange(_) => *self = Self { are_new: true, ..Self::default() },
            Body::Ingress(Ingress { item: InboxItem { input: Input::Control { command, .. }, .. }, .. })
                if ["resume", "retry", "skip"].contains(&command.as_str()) =>
            {
                *self = Self { are_new: true, ..Self::default() };
            }
            _ => {}
        }
    }

    fn add(&mut self, height: Height, code: &str, reason: &str) {
        self.count += 1;
        self.last = Some((height, code.to_owned(), reason.to_owned()));
    }
}

impl Batch {
    /// Seals bodies one after the other, from a head that was read.
    pub fn from_bodies(head: JournalHead, bodies: impl IntoIterator<Item = Body>) -> Result<Self, JournalError> {
        let mut batch = Self::empty(head);
        for body in bodies {
            refuse_reserved(batch.end.height, &body)?;
            batch.seal(body)?;
        }
        batch.bounded()
    }

    /// Takes records that were made elsewhere, and checks that they continue each other.
    pub fn from_records(records: Vec<Record>) -> Result<Self, JournalError> {
        Self::from_sealed(records.into_iter().map(Record::into_sealed).collect())
    }

    /// As [`Self::from_records`], of records that are sealed already.
    pub fn from_sealed(records: Vec<Sealed>) -> Result<Self, JournalError> {
        let Some(first) = records.first().map(Sealed::record) else {
            return Err(JournalError::BatchInvalid { records: 0, max: limits::BATCH_RECORDS_MAX });
        };
        let mut batch = Self::empty(JournalHead { height: first.height, chain: first.prev });
        for (place, sealed) in records.into_iter().enumerate() {
            let record = sealed.record();
            refuse_reserved(record.height, &record.body)?;
            let JournalHead { height, chain } = batch.end;
            if record.height != height {
                return Err(JournalError::HeightInvalid { place, expected: height, found: record.height });
            }
            if record.prev != chain {
                return Err(JournalError::ChainBroken { height, expected: chain, found: record.prev });
            }
            batch.push(sealed)?;
        }
        batch.bounded()
    }

    /// For the protocols that own a reserved kind of record.
    pub(crate) fn reserved(head: JournalHead, bodies: impl IntoIterator<Item = Body>) -> Result<Self, JournalError> {
        let mut batch = Self::empty(head);
        bodies.into_iter().try_for_each(|body| batch.seal(body))?;
        batch.bounded()
    }

    /// No records, at this place of a journal.
    pub(crate) fn empty(head: JournalHead) -> Self {
        Self {
            start: head,
            end: head,
            records: Vec::new(),
            manifests: Vec::new(),
            intents: Vec::new(),
            cancelled: Vec::new(),
            replies: Vec::new(),
            taken: head.height,
            failures: Failures::default(),
        }
    }

    fn seal(&mut self, body: Body) -> Result<(), JournalError> {
        let JournalHead { height, chain } = self.end;
        self.push(Record { height, prev: chain, body }.into_sealed())
    }

    fn push(&mut self, sealed: Sealed) -> Result<(), JournalError> {
        let (height, chain) = (self.end.height, sealed.hash());
        let (body, bytes) = sealed.into_parts();
        if bytes.len() > limits::VALUE_BYTES_MAX {
            return Err(JournalError::RecordTooLarge { height, len: bytes.len(), max: limits::VALUE_BYTES_MAX });
        }
        self.records.push(bytes.into());
        self.end = JournalHead { height: height.next(), chain };
        if matches!(body, Body::Ingress(_)) {
            self.taken = height;
        }
        self.failures.note(height, self.taken, &body);
        match body {
            Body::ManifestChange(change) => self.manifests.push((height.next(), change.to)),
            Body::Intent(intent) => self.intents.push((intent.hash, height)),
            Body::Cancel(intent) => self.cancelled.push(intent),
            Body::Reply(reply) => self.replies.push((height, reply)),
            // Whoever sent it can find out why it was refused, also if it did not wait.
            Body::Rejected(Rejected { seq, code, reason, .. }) => {
                self.replies
                    .push((height, Reply { to: seq, outcome: ReplyOutcome::Failed(code, reason, Some(height)) }));
            }
            _ => {}
        }
        Ok(())
    }

    fn bounded(mut self) -> Result<Self, JournalError> {
        if !self.cancelled.is_empty() {
            let announced: BTreeSet<_> = self.intents.iter().map(|(intent, _)| *intent).collect();
            self.cancelled.retain(|intent| !announced.contains(intent));
        }
        match self.records.len() {
            1..=limits::BATCH_RECORDS_MAX => Ok(self),
            records => Err(JournalError::BatchInvalid { records, max: limits::BATCH_RECORDS_MAX }),
        }
    }

    /// The head that it continues.
    pub fn start(&self) -> JournalHead {
        self.start
    }

    /// The head once it is appended.
    pub fn end(&self) -> JournalHead {
        self.end
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The canonical bytes of its records.
    pub fn records(&self) -> &[Bytes] {
        &self.records
    }

    pub(crate) fn announces(&self, intent: IntentHash, height: Height) -> bool {
        self.intents.contains(&(intent, height))
    }

    /// The intents of before that it withdraws. An intent that it announces and withdraws itself is never published.
    pub(crate) fn cancelled(&self) -> &[IntentHash] {
        &self.cancelled
    }

    /// The answers that it gives, and where.
    pub fn replies(&self) -> &[(Height, Reply)] {
        &self.replies
    }

    /// The steps that failed.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// The manifest that holds after it, if it changes the manifest.
    pub(crate) fn last_manifest(&self) -> Option<Hash> {
        self.manifests.last().map(|(_, manifest)| *manifest)
    }

    /// Writes the records and what is indexed of them; the head is the caller's.
    pub(crate) fn write<T: Transaction>(
        &self,
        tx: &mut T,
        universe: UniverseId,
        world: WorldId,
    ) -> Result<(), StoreError> {
        journal_entry::write(tx, universe, world, self.start.height, &self.records)?;
        for (from, manifest) in &self.manifests {
            manifest_at::write(tx, universe, world, *from, *manifest)?;
        }
        Ok(())
    }
}

/// Index and journal stay in step because only one protocol writes both.
fn refuse_reserved(height: Height, body: &Body) -> Result<(), JournalError> {
    let what = match body {
        Body::Genesis(_) => "genesis",
        Body::ForkGenesis(_) => "fork genesis",
        Body::Snapshot(_) => "snapshot note",
        Body::BaselineSnapshot(_) => "baseline note",
        _ => return Ok(()),
    };
    Err(JournalError::RecordReserved { height, what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{
        Code, Coded,
        record::{Custom, ManifestChange, Payload},
    };

    fn digest(n: u8) -> Body {
        Body::OutcomeDigest(Hash::of(&[n]))
    }

    fn head(height: u64) -> JournalHead {
        JournalHead { height: Height::new(height), chain: Hash::of(b"chain") }
    }

    fn records(head: JournalHead, count: u8) -> Vec<Record> {
        let mut prev = head.chain;
        let record = |n| {
            let record = Record { height: head.height.plus(u64::from(n)), prev, body: digest(n) };
            prev = record.seal().1;
            record
        };
        (0..count).map(record).collect()
    }

    #[test]
    fn bodies_and_records_make_the_same_batch() {
        let from_bodies = Batch::from_bodies(head(7), (0..3).map(digest)).unwrap();
        assert_eq!(from_bodies, Batch::from_records(records(head(7), 3)).unwrap());
        assert_eq!((from_bodies.start(), from_bodies.end().height), (head(7), Height::new(10)));
        assert_eq!(from_bodies.end().chain, Hash::of(&from_bodies.records()[2]));
    }

    #[test]
    fn a_gap_a_broken_link_and_an_empty_batch_are_refused() {
        let mut gap = records(head(7), 3);
        gap.remove(1);
        assert_eq!(Batch::from_records(gap).unwrap_err().code(), Code::ChainInvalid);
        let mut broken = records(head(7), 3);
        broken[1].body = digest(99);
        let refused = Batch::from_records(broken).unwrap_err();
        assert!(matches!(refused, JournalError::ChainBroken { height, .. } if height == Height::new(9)));
        assert_eq!(Batch::from_records(vec![]).unwrap_err().code(), Code::BatchInvalid);
    }

    #[test]
    fn an_oversized_record_is_refused() {
        let payload = Payload::Inline(vec![0; limits::VALUE_BYTES_MAX]);
        let body = Body::Custom(Custom { kind: "k".into(), payload });
        assert_eq!(Batch::from_bodies(head(0), [body]).unwrap_err().code(), Code::RecordTooLarge);
    }

    #[test]
    fn reserved_records_are_refused_in_either_form() {
        let genesis = Body::Genesis(mundi_model::record::Genesis {
            universe: UniverseId::from_bytes([1; 16]),
            world: WorldId::from_bytes([2; 16]),
            manifest: Hash::of(b"m"),
            now_ns: 0,
        });
        assert_eq!(Batch::from_bodies(head(0), [genesis.clone()]).unwrap_err().code(), Code::RecordReserved);
        let record = Record { height: Height::GENESIS, prev: Record::CHAIN_START, body: genesis };
        assert_eq!(Batch::from_records(vec![record]).unwrap_err().code(), Code::RecordReserved);
    }

    #[test]
    fn a_manifest_change_holds_from_the_next_height_on() {
        let change = ManifestChange { from: Hash::of(b"a"), to: Hash::of(b"b"), forced: false };
        let batch = Batch::from_bodies(head(4), [Body::ManifestChange(change), digest(0)]).unwrap();
        assert_eq!(batch.manifests, [(Height::new(5), Hash::of(b"b"))]);
    }
}
