//! Dispatch decides about every intent. Only this module decides whether an effect may be carried out.
//!
//! A turn passes its intents to dispatch; a fork and an import pass those that they inherit. Intents that the world's policy
//! suppresses are answered in the transaction that journals them; only the rest become [`EffectItem`]s, which are
//! made in this module alone. Of these, one that finds a free slot of this process starts as soon as it is durable ([`Starts`]); the
//! others go into the queue.

use super::{
    lease::lease_of,
    slots::{RegisteredSlots, ReservedSlot},
};
use crate::{
    Plane, RuntimeError,
    effects::{
        recording::{self, Recording, Script},
        terms::effect_terms,
    },
    objects::{AtHand, with_objects},
    trace::child_of,
};
use mundi_kernel::{
    Confined,
    fork::Fork,
    intents::OpenIntent,
    manifest::Retry,
    turn::{Publish, PublishTimer, TurnOutput},
};
use mundi_model::{
    Code, Coded, Height, InboxSeq, IntentHash, Stamp, UniverseId,
    child::{CHILD_SPAWN, ChildSpec, Lane, SpecInvalid},
    mutants::{Mutant, planted},
    record::{Body, EffectPolicy, Payload, Receipt, Sealed},
};
use mundi_store::{
    Fence, StoreError,
    blob::Blobs,
    keyspace::{
        child_budget::ChildBudget,
        effect_pending::{EffectItem, EffectLease},
        queue::Claim,
        timer_due::TimerItem,
    },
    protocol::{Failure, Inherited, ReadBudget, Repeat},
};
use std::collections::BTreeMap;

/// The decision about one intent.
#[derive(Debug)]
pub(crate) enum Verdict {
    CarryOut,
    /// The world gets this receipt, with the turn that asked.
    Answer(Receipt),
}

/// The decisions about the intents of a turn.
#[derive(Debug)]
pub(crate) struct Decided {
    /// `None` if no policy keeps anything inside.
    verdicts: Option<Vec<Verdict>>,
    /// The first one that the parent did not ask for, in a fork that goes its own way then.
    pub(crate) ended_by: Option<IntentHash>,
}

/// Decides about the intents of a turn of a world with this policy. `recording` remembers what was read of the parent, from one turn to the next.
pub(crate) async fn decide<P: Plane>(
    plane: &P,
    fence: Fence,
    recording: &mut Option<Recording<P>>,
    (of, confined): (mundi_kernel::Recording, Option<Confined>),
    output: &TurnOutput,
) -> Result<Decided, RuntimeError> {
    let publish = &output.publish;
    if publish.is_empty() {
        return Ok(Decided { verdicts: Some(Vec::new()), ended_by: None });
    }
    let recording = recording.get_or_insert_with(|| Recording::new(fence, of));
    let (mut verdicts, mut ended_by) = (Vec::with_capacity(publish.len()), None);
    match confined {
        Some(Confined::Sandbox { answers }) => verdicts = recording.answer_all(plane, of, answers, output).await?,
        Some(Confined::Recorded) => {
            for asked in publish {
                let answer = recording.answer(plane, asked).await?;
                let receipt = answer.map_err(|expected| recording.diverged(asked, output, expected))?;
                verdicts.push(Verdict::Answer(receipt));
            }
        }
        None => {
            for asked in publish {
                let answer = match ended_by {
                    None => recording.answer(plane, asked).await?.ok(),
                    Some(_) => None,
                };
                if answer.is_none() {
                    ended_by.get_or_insert(asked.intent.hash);
                }
                verdicts.push(answer.map_or(Verdict::CarryOut, Verdict::Answer));
            }
        }
    }
    Ok(Decided { verdicts: Some(verdicts), ended_by })
}

impl Decided {
    /// For a world that no policy binds: all is carried out.
    pub(crate) fn unbound(of: Option<mundi_kernel::Recording>) -> Result<Self, mundi_kernel::Recording> {
        of.map_or(Ok(Self { verdicts: None, ended_by: None }), Err)
    }

    /// Separates the intents that are carried out from the receipts of the rest.
    fn split(
        self,
        fence: Fence,
        output: &TurnOutput,
        announced: &Announced,
        now_ns: u64,
    ) -> (Vec<EffectItem>, Vec<Receipt>) {
        let (mut effects, mut receipts) = (Vec::new(), Vec::new());
        let carried_out = std::iter::repeat_with(|| Verdict::CarryOut).take(output.publish.len()).collect();
        for (publish, verdict) in output.publish.iter().zip(self.verdicts.unwrap_or(carried_out)) {
            match verdict {
                Verdict::CarryOut if is_bad_child(publish, output).is_some() => {
                    receipts.extend(is_bad_child(publish, output).map(|bad| child_refused(&publish.intent, &bad)));
                }
                Verdict::CarryOut => match lease_of(fence.universe, params_of(publish, output)) {
                    Ok(lease) => effects.extend(announced.effect(fence, publish, lease, now_ns)),
                    Err(reason) => receipts.push(lease_refused(&publish.intent, reason)),
                },
                Verdict::Answer(receipt) => receipts.push(receipt),
            }
        }
        (effects, receipts)
    }
}

/// The params of an intent of this turn; large ones are among the objects that the turn stores.
fn params_of<'o>(publish: &'o Publish, output: &'o TurnOutput) -> &'o [u8] {
    match &publish.intent.params {
        Payload::Inline(bytes) => bytes,
        Payload::Blob(hash, _) => {
            output.objects.iter().find(|(of, _)| of == hash).map_or(&[][..], |(_, bytes)| &bytes[..])
        }
    }
}

/// Why an intent that asks for a child cannot be one.
fn is_bad_child(publish: &Publish, output: &TurnOutput) -> Option<SpecInvalid> {
    if publish.intent.kind != CHILD_SPAWN {
        return None;
    }
    ChildSpec::read(params_of(publish, output)).err()
}

/// Tells the program that a child cannot be what it asked for.
fn child_refused(intent: &OpenIntent, bad: &SpecInvalid) -> Receipt {
    let failure = Failure { code: bad.code(), reason: bad.to_string(), repeat: Repeat::Never };
    recording::refusal(intent, "children", &failure)
}

/// Tells the program that the lease of its effect cannot be read.
fn lease_refused(intent: &OpenIntent, reason: String) -> Receipt {
    let failure = Failure { code: Code::EffectParamsInvalid, reason, repeat: Repeat::Never };
    recording::refusal(intent, "pool", &failure)
}

/// The effects that a turn publishes.
#[derive(Default)]
pub(crate) struct Dispatched {
    pub(crate) effects: Vec<EffectItem>,
    pub(crate) timers: Vec<TimerItem>,
    /// Of the intents that a policy keeps inside.
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) starts: Starts,
}

/// Turns the intents and timers of a turn into what is published, and reserves slots of this process for the effects.
pub(crate) fn dispatch<P: Plane>(
    (plane, fence): (&P, Fence),
    slots: &RegisteredSlots,
    decided: Decided,
    records: &[Sealed],
    output: &TurnOutput,
    now_ns: u64,
) -> Dispatched {
    let announced = Announced::of(records, plane.retry());
    let (effects, receipts) = decided.split(fence, output, &announced, now_ns);
    let timers = output.timers.iter().filter_map(|timer| announced.timer(fence, timer, now_ns)).collect();
    let starts = Starts::reserve(slots, &effects, now_ns, || plane.random());
    Dispatched { effects, timers, receipts, starts }
}

/// The effects of a turn that start in slots of this process, as far as any are free: for each effect its slot.
#[derive(Default)]
pub(crate) struct Starts(Vec<Option<ReservedSlot>>);

impl Starts {
    fn reserve(slots: &RegisteredSlots, effects: &[EffectItem], now_ns: u64, token: impl Fn() -> [u8; 16]) -> Self {
        if effects.is_empty() {
            return Self(Vec::new());
        }
        let Some(slots) = slots.lock().clone() else { return Self(Vec::new()) };
        Self(effects.iter().map(|item| slots.reserve(item, now_ns, &token)).collect())
    }

    /// For each effect the claim under which it is published.
    pub(crate) fn claims(&self) -> Vec<Option<Claim>> {
        self.0.iter().map(|slot| slot.as_ref().map(ReservedSlot::claim)).collect()
    }

    /// The turn is durable with this stamp, and published these effects as claimed, by their index.
    pub(crate) fn start(&mut self, universe: UniverseId, stamp: Stamp, effects: Vec<EffectItem>, claimed: &[u16]) {
        for (index, (item, slot)) in (0u16..).zip(effects.into_iter().zip(self.0.drain(..))) {
            if let Some(slot) = slot.filter(|_| claimed.binary_search(&index).is_ok()) {
                slot.start(universe, (stamp, index), item);
            }
        }
    }

    /// The turn was perhaps applied, or was applied without an answer: its effects are perhaps claimed for these slots.
    pub(crate) fn leave_in_doubt(&mut self, effects: &[EffectItem]) {
        for (item, slot) in effects.iter().zip(self.0.drain(..)) {
            slot.into_iter().for_each(|slot| slot.leave_in_doubt(item));
        }
    }
}

/// Decides about what was open when a branch was made, or a world arrived.
pub(crate) async fn inherit<P: Plane>(
    plane: &P,
    universe: UniverseId,
    fork: &Fork,
    now_ns: u64,
) -> Result<Inherited, RuntimeError> {
    let parent = (universe, fork.genesis.parent);
    let budgets = budgets(plane, universe, fork).await?;
    let mut inherited = Inherited { timers: timers(fork, now_ns), budgets, ..Inherited::default() };
    let policy = match fork.genesis.policy {
        EffectPolicy::Suppress if planted(Mutant::ForkRepeats) => EffectPolicy::Live,
        policy => policy,
    };
    match policy {
        EffectPolicy::Live => {
            (inherited.effects, inherited.receipts) = effects(plane, universe, fork, now_ns).await?;
        }
        EffectPolicy::Dropped => {}
        EffectPolicy::Suppress => {
            inherited.receipts = fork.publish.iter().map(|publish| cancelled(&publish.intent)).collect();
        }
        EffectPolicy::Recorded | EffectPolicy::RecordedThenLive => {
            let found = recording::receipts_of_open(plane, parent, fork).await?;
            let answers = fork.publish.iter().zip(found);
            inherited.receipts = answers.map(|(publish, found)| recording::answer_to(&publish.intent, found)).collect();
        }
        EffectPolicy::Sandbox => {
            let found = recording::receipts_of_open(plane, parent, fork).await?;
            inherited.receipts = sandboxed(plane, universe, fork, found).await?;
        }
        // Its parent is elsewhere, and the answers that were on their way to its inbox stayed there.
        EffectPolicy::Kept => match fork.snapshot.confined() {
            Some(Confined::Sandbox { .. }) => {
                inherited.receipts = sandboxed(plane, universe, fork, vec![None; fork.publish.len()]).await?;
            }
            _ => {
                let answer = |publish: &Publish| recording::answer_to(&publish.intent, None);
                inherited.receipts = fork.publish.iter().map(answer).collect();
            }
        },
    }
    Ok(inherited)
}

/// The spending of the branch's children up to the fork, under the limits that its parent has now.
async fn budgets<P: Plane>(
    plane: &P,
    universe: UniverseId,
    fork: &Fork,
) -> Result<Vec<(Lane, ChildBudget)>, RuntimeError> {
    let spent = fork.snapshot.children_spent();
    let parent = match plane.run(&ReadBudget { universe, parent: fork.genesis.parent }).await {
        Ok(read) => read.output,
        Err(StoreError::World(_)) => Vec::new(), // it stayed in another universe
        Err(error) => return Err(error.into()),
    };
    let limit = |lane| parent.iter().find(|(of, _)| *of == lane).and_then(|(_, budget)| budget.limit);
    let budget = |lane| ChildBudget { total: spent.get(lane).unwrap_or(0), limit: limit(lane) };
    let budgets = Lane::ALL.into_iter().map(|lane| (lane, budget(lane)));
    Ok(budgets.filter(|(_, budget)| *budget != ChildBudget::default()).collect())
}

/// Answers each of a sandbox's open intents: with the receipt that was found, from its script, or with an error.
async fn sandboxed<P: Plane>(
    plane: &P,
    universe: UniverseId,
    fork: &Fork,
    found: Vec<Option<Receipt>>,
) -> Result<Vec<Receipt>, RuntimeError> {
    let answers = match fork.snapshot.confined() {
        Some(Confined::Sandbox { answers }) => answers,
        _ => None,
    };
    let script = Script::load(plane, universe, answers).await?;
    let mut receipts = Vec::with_capacity(found.len());
    for (publish, found) in fork.publish.iter().zip(found) {
        // What was open is not counted: it was asked for before the fork.
        receipts.push(match found {
            Some(found) => recording::answer_to(&publish.intent, Some(found)),
            None => script.answer(plane, universe, 0, &publish.intent).await?,
        });
    }
    Ok(receipts)
}

/// Tells the program of a branch that it waits in vain.
fn cancelled(intent: &OpenIntent) -> Receipt {
    let reason = match intent.kind.as_str() {
        CHILD_SPAWN => "the child belongs to the world that was forked, and the fork does not run it",
        _ => "it was open when the world was forked, and the fork dropped it",
    };
    let reason = reason.to_owned();
    let failure = Failure { code: Code::EffectCancelled, reason, repeat: Repeat::Never };
    recording::refusal(intent, "fork", &failure)
}

/// The effects that a live branch still waits for and repeats, and the receipts of those that it cannot repeat. A lease of its parent is not its own: the
/// claim finds that out.
async fn effects<P: Plane>(
    plane: &P,
    universe: UniverseId,
    fork: &Fork,
    now_ns: u64,
) -> Result<(Vec<EffectItem>, Vec<Receipt>), RuntimeError> {
    let load = |objects: &AtHand| plane.registry().manifest(objects, fork.note.manifest);
    let manifest = with_objects(plane, (universe, fork.genesis.parent), &mut AtHand::default(), load).await?;
    let (mut effects, mut receipts) = (Vec::new(), Vec::new());
    for publish in &fork.publish {
        let lease = match &publish.intent.params {
            Payload::Inline(bytes) => lease_of(universe, bytes),
            Payload::Blob(hash, _) => lease_of(universe, &plane.blobs().get(universe, *hash).await?),
        };
        let lease = match lease {
            Ok(lease) => lease,
            Err(reason) => {
                receipts.push(lease_refused(&publish.intent, reason));
                continue;
            }
        };
        effects.push(EffectItem {
            world: fork.genesis.world,
            intent: publish.intent.hash,
            height: publish.intent.place.height,
            kind: publish.intent.kind.clone(),
            params: publish.intent.params.clone(),
            label: publish.intent.label.clone(),
            policy_context: Some(publish.manifest),
            published_at_ns: now_ns,
            trace: None,
            correlation_id: None,
            call: None,
            terms: effect_terms(&manifest.manifest.effect_policies(&publish.intent.kind), plane.retry()),
            lease,
        });
    }
    Ok((effects, receipts))
}

/// The timers that run on in every branch.
fn timers(fork: &Fork, now_ns: u64) -> Vec<TimerItem> {
    let item = |timer: &PublishTimer| TimerItem {
        world: fork.genesis.world,
        intent: timer.timer,
        height: fork.genesis.forked_at,
        deliver_at_ns: timer.set.due_ns,
        payload: timer.set.payload.clone(),
        published_at_ns: now_ns,
        trace: None,
        correlation_id: None,
        call: None,
    };
    fork.timers.iter().map(item).collect()
}

/// Where each intent of a turn is journaled, with the trace and the correlation id of the item that led to it.
struct Announced {
    intents: BTreeMap<IntentHash, Announcement>,
    retry: Retry,
}

#[derive(Clone)]
struct Announcement {
    height: Height,
    trace: Option<String>,
    correlation_id: Option<String>,
    /// The call that the step worked for, if it did not answer it.
    call: Option<InboxSeq>,
}

impl Announced {
    fn of(records: &[Sealed], retry: Retry) -> Self {
        let (mut intents, mut trace, mut correlation) = (BTreeMap::<_, Announcement>::new(), None, None);
        let (mut call, mut of_step) = (None, Vec::new());
        for record in records.iter().map(Sealed::record) {
            match &record.body {
                Body::Ingress(ingress) => {
                    trace.clone_from(&ingress.item.origin.trace);
                    correlation.clone_from(&ingress.item.origin.correlation_id);
                    call = ingress.item.origin.call_at(ingress.seq);
                    of_step.clear();
                }
                // What the step asks for is not on behalf of a call any more.
                Body::Reply(reply) if call == Some(reply.to) => {
                    call = None;
                    for intent in of_step.drain(..) {
                        intents.entry(intent).and_modify(|announced| announced.call = None);
                    }
                }
                Body::Intent(intent) => {
                    let child = child_of(trace.as_ref(), intent.hash.as_bytes());
                    // A moment, not a while: it gives the hop its place between the item and the attempts.
                    tracing::debug_span!("intent", trace, span = child, intent = %intent.hash, kind = intent.kind);
                    let (height, correlation_id) = (record.height, correlation.clone());
                    intents.insert(intent.hash, Announcement { height, trace: child, correlation_id, call });
                    of_step.extend(call.map(|_| intent.hash));
                }
                _ => {}
            }
        }
        Self { intents, retry }
    }

    fn effect(&self, fence: Fence, publish: &Publish, lease: Option<EffectLease>, now_ns: u64) -> Option<EffectItem> {
        let intent = &publish.intent;
        let Announcement { height, trace, correlation_id, call } = self.intents.get(&intent.hash)?.clone();
        Some(EffectItem {
            world: fence.world,
            intent: intent.hash,
            height,
            kind: intent.kind.clone(),
            params: intent.params.clone(),
            label: intent.label.clone(),
            policy_context: Some(publish.manifest),
            published_at_ns: now_ns,
            trace,
            terms: effect_terms(&publish.policies, self.retry),
            correlation_id,
            call,
            lease,
        })
    }

    fn timer(&self, fence: Fence, timer: &PublishTimer, now_ns: u64) -> Option<TimerItem> {
        let Announcement { height, trace, correlation_id, call } = self.intents.get(&timer.timer)?.clone();
        Some(TimerItem {
            world: fence.world,
            intent: timer.timer,
            height,
            trace,
            correlation_id,
            call,
            deliver_at_ns: timer.set.due_ns,
            payload: timer.set.payload.clone(),
            published_at_ns: now_ns,
        })
    }
}
