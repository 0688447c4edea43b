//! Recorded forks: a branch is answered from its parent's receipts while it asks for what its parent asked for.
//!
//! Intents are compared in their order since the fork, by kind and parameters: names cover the world, and heights shift
//! with whatever else a turn appends. What matches is answered with the parent's receipt, in the transaction of the turn
//! that asked; where the parent has none, with an error: nothing that the parent asked for is carried out again. What becomes
//! of the first intent that does not match, the policy says: [`dispatch`](crate::effects::dispatch).
//!
//! A sandbox continues where a recording ends, so there each occurrence is compared for itself: the second question of one kind
//! with the same parameters is answered as the parent's second one was, whatever came between. What the parent has no receipt
//! for is answered by the script, or with an error.

use crate::{Plane, RuntimeError, effects::dispatch::Verdict, yielding::ReplayPace};
use mundi_kernel::{
    fork::Fork,
    intents::{OpenIntent, TIMER_SET},
    turn::{Publish, Recorded, TurnOutput},
};
use mundi_model::{
    Code, Coded, Hash, Height, IntentHash, UniverseId, WorldId,
    answers::Answers,
    cbor, limits,
    mutants::{Mutant, planted},
    record::{Body, InboxItem, Ingress, Input, Intent, Payload, Receipt, ReceiptStatus},
};
use mundi_store::{
    Fence,
    blob::Blobs,
    journal::{History, JournalError, StoredRecord},
    protocol::{Failure, Repeat, describe_failure},
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A recorded fork that asks for something else than its parent did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diverged {
    pub world: WorldId,
    /// Where the intent would stand.
    pub height: Height,
    pub intent: IntentHash,
    pub kind: String,
    pub label: String,
    pub parent: WorldId,
    /// The intent that the parent had in its place, and its height.
    pub expected: Option<(Height, String)>,
}

impl std::fmt::Display for Diverged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { world, height, intent, kind, label, parent, expected } = self;
        write!(f, "at height {height} {world} asks for `{kind}` (`{label}`, {intent}), ")?;
        match expected {
            Some((at, asked)) if asked == kind => write!(f, "and {parent} at {at} for that with other parameters"),
            Some((at, asked)) => write!(f, "and {parent} at {at} for `{asked}`"),
            None => write!(f, "and {parent} for nothing more since the fork"),
        }
    }
}

/// The parent's journal since the fork, read as far as it was needed.
pub(crate) struct Recording<P: Plane> {
    own: WorldId,
    place: (UniverseId, WorldId),
    since: Height,
    /// The next height to read.
    next: Height,
    history: Option<History<P::Engine, P::Segments>>,
    /// The parent's intents that the branch has not repeated yet, with the number of the first one.
    asked: VecDeque<Asked>,
    first: u64,
    /// Of a sandbox.
    occurrences: Option<Occurrences>,
    script: Option<Script>,
}

struct Asked {
    height: Height,
    hash: IntentHash,
    kind: String,
    params: Payload,
    receipt: Option<Receipt>,
}

/// The intents of parent and branch since the fork, by content.
#[derive(Default)]
struct Occurrences {
    /// The parent's, in order.
    theirs: BTreeMap<Hash, Vec<IntentHash>>,
    count: usize,
    /// Where the parent's receipts stand.
    receipts: BTreeMap<IntentHash, Height>,
    /// The branch's, by number.
    ours: BTreeMap<u64, Hash>,
}

impl<P: Plane> Recording<P> {
    pub(crate) fn new(fence: Fence, recording: mundi_kernel::Recording) -> Self {
        Self {
            own: fence.world,
            place: (fence.universe, recording.parent),
            since: recording.since,
            next: recording.since,
            history: None,
            asked: VecDeque::new(),
            first: 0,
            occurrences: None,
            script: None,
        }
    }

    /// The answer to an intent; or, if the parent did not ask for it next, what it asked for instead.
    pub(crate) async fn answer(
        &mut self,
        plane: &P,
        publish: &Publish,
    ) -> Result<Result<Receipt, Option<(Height, String)>>, RuntimeError> {
        let Some(Recorded::Nth(nth)) = publish.recorded else { return Ok(Err(None)) };
        let intent = &publish.intent;
        let Some(asked) = self.nth(plane, nth).await? else { return Ok(Err(None)) };
        if (&asked.kind, &asked.params) != (&intent.kind, &intent.params) {
            return Ok(Err(Some((asked.height, asked.kind.clone()))));
        }
        Ok(Ok(answer_to(intent, self.receipt(plane).await?)))
    }

    /// The reason for an intent that the parent did not have.
    pub(crate) fn diverged(
        &self,
        publish: &Publish,
        output: &TurnOutput,
        expected: Option<(Height, String)>,
    ) -> RuntimeError {
        let intent = &publish.intent;
        let is_it = |body: &Body| matches!(body, Body::Intent(found) if found.hash == intent.hash);
        let record = output.records.iter().map(|sealed| sealed.record()).find(|record| is_it(&record.body));
        RuntimeError::ForkDiverged(Box::new(Diverged {
            world: self.own,
            height: record.map_or(intent.place.height, |record| record.height),
            intent: intent.hash,
            kind: intent.kind.clone(),
            label: intent.label.clone(),
            parent: self.place.1,
            expected,
        }))
    }

    /// The parent's intent of this number since the fork: it is the first one that is kept, then.
    async fn nth(&mut self, plane: &P, nth: u64) -> Result<Option<&Asked>, RuntimeError> {
        if nth < self.first {
            // The turn that asked for more did not happen: read again.
            (self.next, self.history, self.first) = (self.since, None, 0);
            self.asked.clear();
        }
        loop {
            while self.first < nth && self.asked.pop_front().is_some() {
                self.first += 1; // the branch withdrew its own before it was published
            }
            if !self.asked.is_empty() {
                return Ok(self.asked.front());
            }
            if !self.read_asked(plane).await? {
                return Ok(None);
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
            if self.asked.len() >= limits::RECORDING_AHEAD_MAX || !self.read_asked(plane).await? {
                return Ok(None);
            }
        }
    }

    async fn read_asked(&mut self, plane: &P) -> Result<bool, RuntimeError> {
        let Some(page) = self.page(plane).await? else { return Ok(false) };
        for record in page {
            match decode(self.place.1, &record)? {
                Body::Intent(Intent { hash, kind, params, .. }) if kind != TIMER_SET => {
                    self.asked.push_back(Asked { height: record.height, hash, kind, params, receipt: None });
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

    /// Reads on in the parent's journal; nothing at its end, or if it is not here.
    async fn page(&mut self, plane: &P) -> Result<Option<Vec<StoredRecord>>, RuntimeError> {
        if self.history.is_none() {
            self.history = open(plane, self.place, self.next).await?;
        }
        let Some(history) = &mut self.history else { return Ok(None) };
        let page = history.next_page().await?;
        match page.as_ref().and_then(|page| page.last()) {
            Some(last) => self.next = last.height.next(),
            None => self.history = None, // the parent may be further the next time
        }
        Ok(page)
    }

    /// Answers every intent of a turn of a sandbox.
    pub(crate) async fn answer_all(
        &mut self,
        plane: &P,
        recording: mundi_kernel::Recording,
        answers: Option<Hash>,
        output: &TurnOutput,
    ) -> Result<Vec<Verdict>, RuntimeError> {
        let universe = self.place.0;
        let asked: Vec<(IntentHash, Hash)> =
            output.records.iter().filter_map(|sealed| content(&sealed.record().body)).collect();
        let before = recording.asked.saturating_sub(asked.len() as u64);
        self.compare_with_parent(plane, before).await?;
        if self.script.is_none() {
            self.script = Some(Script::load(plane, universe, answers).await?);
        }
        let mut numbers = BTreeMap::new();
        if let Some(occurrences) = &mut self.occurrences {
            occurrences.ours.split_off(&before); // of a turn that did not happen
            for (nth, (intent, content)) in (before..).zip(&asked) {
                occurrences.note_own(nth, *content);
                numbers.insert(*intent, nth);
            }
        }
        let mut verdicts = Vec::with_capacity(output.publish.len());
        for Publish { intent, .. } in &output.publish {
            let nth = numbers.get(&intent.hash).copied().unwrap_or(before);
            let found = self.occurrences.as_ref().and_then(|occurrences| occurrences.receipt_at(nth));
            let found = match found {
                Some(height) => receipt_at(plane, self.place, height).await?,
                None => None,
            };
            verdicts.push(match (found, &self.script) {
                (Some(found), _) => Verdict::Answer(answer_to(intent, Some(found))),
                (None, _) if planted(Mutant::SandboxLeaks) => Verdict::CarryOut,
                (None, Some(script)) => Verdict::Answer(script.answer(plane, universe, nth + 1, intent).await?),
                (None, None) => Verdict::Answer(sandboxed(intent)),
            });
        }
        Ok(verdicts)
    }

    /// Reads what the parent asked for meanwhile; and, for a sandbox that was just restored, what it asked for itself.
    async fn compare_with_parent(&mut self, plane: &P, before: u64) -> Result<(), RuntimeError> {
        let mut occurrences = self.occurrences.take().unwrap_or_default();
        if !occurrences.knows_own(before) {
            occurrences.ours = self.own_so_far(plane, before).await?;
        }
        let mut pace = ReplayPace::default();
        while occurrences.count < limits::SANDBOX_COMPARED_MAX
            && let Some(page) = self.page(plane).await?
        {
            for record in page {
                pace.step().await;
                let body = decode(self.place.1, &record)?;
                if let Some((intent, content)) = content(&body) {
                    occurrences.theirs.entry(content).or_default().push(intent);
                    occurrences.count += 1;
                }
                if let Body::Ingress(Ingress { item: InboxItem { input: Input::Receipt(receipt), .. }, .. }) = body {
                    occurrences.receipts.insert(receipt.intent, record.height);
                }
            }
        }
        self.occurrences = Some(occurrences);
        Ok(())
    }

    /// The intents of the branch before this turn, from its own journal.
    async fn own_so_far(&self, plane: &P, before: u64) -> Result<BTreeMap<u64, Hash>, RuntimeError> {
        let (own, mut asked) = ((self.place.0, self.own), Occurrences::default());
        let Some(mut history) = open(plane, own, self.since).await? else { return Ok(asked.ours) };
        let (mut nth, mut pace) = (0, ReplayPace::default());
        while nth < before.min(limits::SANDBOX_COMPARED_MAX as u64)
            && let Some(page) = history.next_page().await?
        {
            for record in page {
                pace.step().await;
                if let Some((_, content)) = content(&decode(own.1, &record)?) {
                    asked.note_own(nth, content);
                    nth += 1;
                }
            }
        }
        Ok(asked.ours)
    }

    /// Whether it is what a world with this state reads.
    fn is_of(&self, of: mundi_kernel::Recording) -> bool {
        (self.place.1, self.since) == (of.parent, of.since)
    }
}

/// The parents' records that released forks had read: a fork that comes back reads only those that were added since.
pub(crate) struct KeptRecordings<P: Plane>(Mutex<VecDeque<Recording<P>>>);

impl<P: Plane> Default for KeptRecordings<P> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<P: Plane> KeptRecordings<P> {
    pub(crate) fn keep(&self, mut recording: Recording<P>, of: mundi_kernel::Recording) {
        recording.history = None; // it is opened again where it ended
        if let Some(occurrences) = &mut recording.occurrences {
            occurrences.ours.split_off(&of.asked); // of a turn that did not happen: another worker may take another one
        }
        let mut kept = self.0.lock();
        kept.push_back(recording);
        if kept.len() > limits::RECORDINGS_KEPT_MAX {
            kept.pop_front();
        }
    }

    pub(crate) fn take(&self, world: WorldId, of: mundi_kernel::Recording) -> Option<Recording<P>> {
        let mut kept = self.0.lock();
        let place = kept.iter().position(|recording| recording.own == world)?;
        kept.remove(place).filter(|recording| recording.is_of(of))
    }
}

impl Occurrences {
    /// Whether all is here that the branch had asked for before, as far as it is compared. Another worker may have run it meanwhile.
    fn knows_own(&self, before: u64) -> bool {
        let compared = before.min(limits::SANDBOX_COMPARED_MAX as u64);
        compared == 0 || self.ours.contains_key(&(compared - 1))
    }

    fn note_own(&mut self, nth: u64, content: Hash) {
        if nth < limits::SANDBOX_COMPARED_MAX as u64 {
            self.ours.insert(nth, content);
        }
    }

    /// Where the receipt stands that the parent got for the same occurrence.
    fn receipt_at(&self, nth: u64) -> Option<Height> {
        let content = self.ours.get(&nth)?;
        let earlier = self.ours.range(..nth).filter(|(_, found)| *found == content).count();
        self.receipts.get(self.theirs.get(content)?.get(earlier)?).copied()
    }
}

/// An intent that a receipt answers, by name and by what it asks for.
fn content(body: &Body) -> Option<(IntentHash, Hash)> {
    match body {
        Body::Intent(Intent { hash, kind, params, .. }) if kind != TIMER_SET => {
            Some((*hash, Hash::of(&cbor::encode(&("mundi.asked.1", kind, params)))))
        }
        _ => None,
    }
}

/// The receipt that a record takes in.
async fn receipt_at<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    height: Height,
) -> Result<Option<Receipt>, RuntimeError> {
    let Some(history) = open(plane, place, height).await? else { return Ok(None) };
    let page = history.until(height.next()).pages_of(1).next_page().await?.unwrap_or_default();
    let Some(record) = page.iter().find(|record| record.height == height) else { return Ok(None) };
    Ok(match decode(place.1, record)? {
        Body::Ingress(Ingress { item: InboxItem { input: Input::Receipt(receipt), .. }, .. }) => Some(receipt),
        _ => None,
    })
}

/// The scripted answers of a sandbox, for intents that its parent's receipts do not answer.
pub(crate) struct Script {
    answers: Option<Answers>,
}

impl Script {
    pub(crate) async fn load<P: Plane>(
        plane: &P,
        universe: UniverseId,
        answers: Option<Hash>,
    ) -> Result<Self, RuntimeError> {
        let answers = match answers {
            Some(hash) => Some(Answers::from_bytes(&plane.blobs().get(universe, hash).await?)?),
            None => None,
        };
        Ok(Self { answers })
    }

    /// The scripted answer to the effect of this number, or an error.
    pub(crate) async fn answer<P: Plane>(
        &self,
        plane: &P,
        universe: UniverseId,
        nth: u64,
        intent: &OpenIntent,
    ) -> Result<Receipt, RuntimeError> {
        let Some(answers) = &self.answers else { return Ok(sandboxed(intent)) };
        let found = match &intent.params {
            Payload::Inline(params) => answers.find(nth, &intent.kind, params),
            Payload::Blob(hash, _) if answers.reads_params(&intent.kind) => {
                answers.find(nth, &intent.kind, &plane.blobs().get(universe, *hash).await?)
            }
            Payload::Blob(..) => answers.find(nth, &intent.kind, b""),
        };
        let Some(answer) = found else { return Ok(sandboxed(intent)) };
        Ok(Receipt {
            intent: intent.hash,
            kind: intent.kind.clone(),
            status: answer.status,
            payload: Payload::Inline(answer.payload.clone()),
            adapter: "script".to_owned(),
            signature: None,
            operator: None,
        })
    }
}

/// The parent's receipts for what was open when a branch was made, in the order of its intents. Reads the parent's journal from
/// the fork on until all are found.
pub(crate) async fn receipts_of_open<P: Plane>(
    plane: &P,
    parent: (UniverseId, WorldId),
    fork: &Fork,
) -> Result<Vec<Option<Receipt>>, RuntimeError> {
    let ancestor = |publish: &Publish| match publish.recorded {
        Some(Recorded::Open(ancestor)) => Some(ancestor),
        _ => None,
    };
    let wanted: Vec<_> = fork.publish.iter().map(ancestor).collect();
    let mut left: BTreeSet<IntentHash> = wanted.iter().copied().flatten().collect();
    let mut found = BTreeMap::new();
    let (mut history, mut pace) = (open(plane, parent, fork.genesis.forked_at).await?, ReplayPace::default());
    while !left.is_empty()
        && let Some(history) = &mut history
        && let Some(page) = history.next_page().await?
    {
        for record in page {
            pace.step().await;
            if let Body::Ingress(Ingress { item: InboxItem { input: Input::Receipt(receipt), .. }, .. }) =
                decode(parent.1, &record)?
                && left.remove(&receipt.intent)
            {
                found.insert(receipt.intent, receipt);
            }
        }
    }
    Ok(wanted.into_iter().map(|ancestor| found.remove(&ancestor?)).collect())
}

/// A journal; nothing if the world is not in this universe.
async fn open<P: Plane>(
    plane: &P,
    (universe, world): (UniverseId, WorldId),
    from: Height,
) -> Result<Option<History<P::Engine, P::Segments>>, RuntimeError> {
    match History::open(plane.engine(), plane.segments().clone(), universe, world, from).await {
        Ok(history) => Ok(Some(history)),
        Err(error) if matches!(error.code(), Code::WorldNotFound | Code::WorldDeleted) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn decode(world: WorldId, record: &StoredRecord) -> Result<Body, RuntimeError> {
    let height = record.height;
    let damaged = |cause: String| JournalError::RecordDamaged { world, height, cause };
    Ok(record.decode().map_err(|error| damaged(error.to_string()))?.body)
}

/// The parent's receipt under the branch's name for the intent.
pub(crate) fn answer_to(intent: &OpenIntent, recorded: Option<Receipt>) -> Receipt {
    let none = || {
        let reason = "the parent has no receipt for it".to_owned();
        let failure = Failure { code: Code::EffectNotRecorded, reason, repeat: Repeat::Never };
        refusal(intent, "recording", &failure)
    };
    // A signature is of the parent's intent, and says nothing of the branch's.
    recorded.map_or_else(none, |receipt| Receipt { intent: intent.hash, signature: None, ..receipt })
}

/// The answer to an effect of a sandbox without a recorded or scripted one.
fn sandboxed(intent: &OpenIntent) -> Receipt {
    let reason =
        "the world is a sandbox: nothing leaves it, and neither its parent nor a script answers this".to_owned();
    refusal(intent, "sandbox", &Failure { code: Code::EffectSandboxed, reason, repeat: Repeat::Never })
}

/// An `error` receipt that says why.
pub(crate) fn refusal(intent: &OpenIntent, adapter: &str, failure: &Failure) -> Receipt {
    Receipt {
        intent: intent.hash,
        kind: intent.kind.clone(),
        status: ReceiptStatus::Error,
        payload: describe_failure(failure, 0),
        adapter: adapter.to_owned(),
        signature: None,
        operator: None,
    }
}
