//! Recorded forks: a branch is answered from its parent's receipts while it asks for what its parent asked for.
//!
//! Intents are compared in their order since the fork, by kind and parameters: names cover the world, and heights shift
//! with whatever else a turn appends. What matches is answered with the parent's receipt, in the transaction of the turn
//! that asked; where the parent has none, with an error: nothing that the parent asked for is carried out again. The first
//! intent that does not match ends the recording, by a record. From it on the branch has gone its own way, or has caught
//! up with its parent, and its effects are carried out as any world's.

use crate::{Plane, RuntimeError};
use mundi_kernel::{
    intents::{OpenIntent, TIMER_SET},
    turn::{Publish, Recorded},
};
use mundi_model::{
    Code, Height, IntentHash, UniverseId, WorldId, limits,
    record::{Body, InboxItem, Ingress, Input, Intent, Payload, Receipt, ReceiptStatus},
};
use mundi_store::{
    journal::{History, JournalError, StoredRecord},
    protocol::{Failure, Repeat, describe_failure},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The parent's journal since the fork, read as far as it was needed.
pub(crate) struct Recording<P: Plane> {
    place: (UniverseId, WorldId),
    /// The next height to read.
    next: Height,
    history: Option<History<P::Engine, P::Segments>>,
    /// What the parent asked for and the branch has not yet, with the number of the first one.
    asked: VecDeque<Asked>,
    first: u64,
}

struct Asked {
    hash: IntentHash,
    kind: String,
    params: Payload,
    receipt: Option<Receipt>,
}

/// What becomes of the intents of a turn.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) receipts: Vec<Receipt>,
    /// The first one that the parent did not ask for; it and those after it are published.
    pub(crate) ended_by: Option<IntentHash>,
}

impl Answers {
    pub(crate) fn contains(&self, intent: IntentHash) -> bool {
        self.receipts.iter().any(|receipt| receipt.intent == intent)
    }
}

impl<P: Plane> Recording<P> {
    pub(crate) fn new(universe: UniverseId, recording: mundi_kernel::Recording) -> Self {
        let place = (universe, recording.parent);
        Self { place, next: recording.since, history: None, asked: VecDeque::new(), first: 0 }
    }

    /// Answers intents in the order in which they were asked, up to the first that does not match.
    pub(crate) async fn answer(&mut self, plane: &P, publish: &[Publish]) -> Result<Answers, RuntimeError> {
        let mut answers = Answers::default();
        for Publish { intent, recorded, .. } in publish {
            let Some(Recorded::Nth(nth)) = *recorded else { continue };
            if !self.matches(plane, nth, intent).await? {
                answers.ended_by = Some(intent.hash);
                break;
            }
            answers.receipts.push(answer_to(intent, self.receipt(plane).await?));
        }
        Ok(answers)
    }

    /// Whether the parent's intent of this number asks for the same; it is the first one that is kept, then.
    async fn matches(&mut self, plane: &P, nth: u64, intent: &OpenIntent) -> Result<bool, RuntimeError> {
        loop {
            while self.first < nth && self.asked.pop_front().is_some() {
                self.first += 1; // the branch withdrew its own before it was published
            }
            if let Some(asked) = self.asked.front() {
                return Ok((&asked.kind, &asked.params) == (&intent.kind, &intent.params));
            }
            if !self.read(plane).await? {
                return Ok(false);
            }
        }
    }

    /// The receipt of the first intent that is kept.
    async fn receipt(&mut self, plane: &P) -> Result<Option<Receipt>, RuntimeError> {
        loop {
            let Some(asked) = self.asked.front() else { return Ok(None) };
            if asked.receipt.is_some() {
                return Ok(asked.receipt.clone());
            }
            if self.asked.len() >= limits::RECORDING_AHEAD_MAX || !self.read(plane).await? {
                return Ok(None);
            }
        }
    }

    /// Reads on in the parent's journal; `false` at its end.
    async fn read(&mut self, plane: &P) -> Result<bool, RuntimeError> {
        let history = match &mut self.history {
            Some(history) => history,
            None => self.history.insert(open(plane, self.place, self.next).await?),
        };
        let Some(page) = history.next_page().await? else {
            self.history = None; // the parent may be further the next time
            return Ok(false);
        };
        for record in page {
            self.next = record.height.next();
            match decode(self.place.1, &record)? {
                Body::Intent(Intent { hash, kind, params, .. }) if kind != TIMER_SET => {
                    self.asked.push_back(Asked { hash, kind, params, receipt: None });
                }
                Body::Ingress(Ingress { item: InboxItem { input: Input::Receipt(receipt), .. }, .. }) => {
                    if let Some(asked) = self.asked.iter_mut().find(|asked| asked.hash == receipt.intent) {
                        asked.receipt = Some(receipt);
                    }
                }
                _ => {}
            }
        }
        Ok(true)
    }
}

/// Answers what was open when a branch was made. Reads the parent's journal from the fork on until all have their receipt.
pub(crate) async fn answer_open<P: Plane>(
    plane: &P,
    parent: (UniverseId, WorldId),
    since: Height,
    publish: &[Publish],
) -> Result<Vec<Receipt>, RuntimeError> {
    let wanted = publish.iter().filter_map(|publish| match publish.recorded {
        Some(Recorded::Open(ancestor)) => Some((ancestor, &publish.intent)),
        _ => None,
    });
    let wanted: Vec<_> = wanted.collect();
    let mut left: BTreeSet<IntentHash> = wanted.iter().map(|(ancestor, _)| *ancestor).collect();
    let mut found = BTreeMap::new();
    let mut history = open(plane, parent, since).await?;
    while !left.is_empty()
        && let Some(page) = history.next_page().await?
    {
        for record in page {
            if let Body::Ingress(Ingress { item: InboxItem { input: Input::Receipt(receipt), .. }, .. }) =
                decode(parent.1, &record)?
                && left.remove(&receipt.intent)
            {
                found.insert(receipt.intent, receipt);
            }
        }
    }
    Ok(wanted.into_iter().map(|(ancestor, intent)| answer_to(intent, found.remove(&ancestor))).collect())
}

async fn open<P: Plane>(
    plane: &P,
    (universe, world): (UniverseId, WorldId),
    from: Height,
) -> Result<History<P::Engine, P::Segments>, RuntimeError> {
    Ok(History::open(plane.engine(), plane.segments().clone(), universe, world, from).await?)
}

pub(crate) fn decode(world: WorldId, record: &StoredRecord) -> Result<Body, RuntimeError> {
    let height = record.height;
    let damaged = |cause: String| JournalError::RecordDamaged { world, height, cause };
    Ok(record.decode().map_err(|error| damaged(error.to_string()))?.body)
}

/// The parent's receipt under the branch's name for the intent.
fn answer_to(intent: &OpenIntent, recorded: Option<Receipt>) -> Receipt {
    let none = || {
        let reason = "the parent has no receipt for it".to_owned();
        let failure = Failure { code: Code::EffectNotRecorded, reason, repeat: Repeat::Never };
        Receipt {
            intent: intent.hash,
            kind: intent.kind.clone(),
            status: ReceiptStatus::Error,
            payload: describe_failure(&failure, 0),
            adapter: "recording".to_owned(),
            signature: None,
            operator: None,
        }
    };
    // A signature is of the parent's intent, and says nothing of the branch's.
    recorded.map_or_else(none, |receipt| Receipt { intent: intent.hash, signature: None, ..receipt })
}
