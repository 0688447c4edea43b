//! Call another world: an effect whose receipt is the other world's reply.
//!
//! Two transactions of two worlds do it, and none waits for the other:
//!
//! 1. [`call_world`], by the holder of the caller's effect: enqueues the event at its destination under the name of the intent, notes
//!    beside the inbox which effect waits for the reply ([`open_call`]), and puts the effect aside until its deadline. The
//!    claim ends with it: nobody holds a slot while the other world works.
//! 2. [`answer_caller`], inside the turn of the destination that replies: puts the receipt into the caller's inbox and ends the effect.
//!    The reply is on record at the destination exactly if the receipt is in the caller's inbox, or the caller did not wait any more.
//!
//! Guarantees: a call is enqueued at most once, by the argument of `fabric_send`: only a transaction that finds the claim held and the
//! effect open enqueues it, and its name stays for as long as the effect is open. It has exactly one receipt: reply, deadline, operator
//! and cancellation all read and write the caller's [`effect_dedupe`], so that one of them ends the effect and the others find it ended.
//!
//! The state after a crash:
//! - before 1: the claim runs out, and another attempt begins anew;
//! - after 1, whatever dies: the effect lies among those that wait, the call in the inbox. The destination's turn answers it from any
//!   process. If none does, the effect is claimed at its deadline, and its receipt says `timeout`;
//! - around 2: the turn is committed with the receipt, or not at all and is made again;
//! - after 2: the receipt is in the caller's inbox, and the ready queue says so.
//!
//! A destination that replies after the deadline finds the effect ended: its reply is on record there, and goes nowhere.
//!
//! Unknown commit: run again. A call that finds its claim gone and its name at the destination was applied. A turn recognizes itself by
//! its head (`commit_turn`).

use crate::protocol::{
    Answer, EffectClaim, EffectError, Enqueue, FabricMessage, Failure, NewItem, Repeat, WokenBy,
    enqueue::{Placement, placed, spill_all},
    fail_effect,
    settle_effect::{Held, Terminal, answer, defer, leave_slot, remove_withdrawn},
};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    blob::Blobs,
    keyspace::{
        effect_attempt::{self, EffectAttempts},
        effect_dedupe::{self, EffectStatus},
        effect_inflight::{self, EffectInflight},
        effect_pending::{EffectItem, EffectTerms},
        effect_retry::{self, RetryPlace},
        inbox_dedupe::{self, DedupeId, SendingEffect},
        open_call::{self, OpenCall},
    },
    run,
};
use mundi_engine::{Engine, Read, ReadPlan, Source, Transaction};
use mundi_model::{
    Code, Height, InboxSeq, UniverseId, Value, WorldId, limits,
    mutants::{Mutant, planted},
    record::{InboxItem, Origin, Payload, ReceiptStatus, ReplyOutcome},
};
use std::collections::BTreeMap;

/// The kind of a call to another world, as the kernel names it.
pub(in crate::protocol) const WORLD_CALL: &str = "world.call";

/// A call on its way: a message that its destination replies to.
#[derive(Debug, Clone)]
pub struct WorldCall {
    pub message: FabricMessage,
    /// When its effect ends without a reply.
    pub deadline_ns: u64,
}

/// The result of an attempt at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Called {
    /// It stands in the destination's inbox, and its effect waits for the reply.
    Waiting { seq: InboxSeq, already_enqueued: bool },
    /// Nobody waits for it: it was answered or withdrawn before.
    Over,
}

/// Enqueues the call in `universe`, and puts its effect aside.
pub async fn call_world<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    universe: UniverseId,
    call: WorldCall,
    woken_by: WokenBy,
) -> Result<Called, StoreError> {
    let WorldCall { message, deadline_ns } = call;
    let name = message.id.dedupe();
    let FabricMessage { claim, from, to, input, correlation_id, trace, headers, dedupe_window_ns, .. } = message;
    let origin =
        Origin { correlation_id, trace, sender: Some(from), headers, wants_reply: true, ..Origin::new(clock.now_ns()) };
    let mut new = [NewItem { item: InboxItem { input, origin }, dedupe: Some(name) }];
    spill_all(blobs, universe, &mut new).await?;
    let effect = SendingEffect::new(claim.universe, claim.queue_shard, claim.seq, claim.world, claim.intent);
    let enqueue = Enqueue::new(universe, to, &new, clock.now_ns(), dedupe_window_ns)?;
    let enqueue = enqueue.woken_by(woken_by).sent_by(effect);
    let done = run(engine, clock, &CallWorld { universe, to, name, claim, effect, deadline_ns, enqueue }).await?;
    let Some(place) = done.output else { return Ok(Called::Over) };
    #[expect(clippy::expect_used, reason = "one item in, one place out")]
    let placed = placed(&[place], done.stamp).first().copied().expect("the place of the one item");
    Ok(Called::Waiting { seq: placed.seq, already_enqueued: placed.before })
}

struct CallWorld {
    universe: UniverseId,
    to: WorldId,
    name: DedupeId,
    claim: EffectClaim,
    effect: SendingEffect,
    deadline_ns: u64,
    enqueue: Enqueue,
}

impl Protocol for CallWorld {
    /// Where the call stands; `None` if nobody waits for it.
    type Output = Option<Placement>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn source(&self) -> Source {
        self.enqueue.source()
    }

    fn read_plan(&self) -> ReadPlan {
        let ReadPlan { mut reads, .. } = self.enqueue.read_plan();
        reads.extend(Held::reads(&self.claim));
        ReadPlan::reads(reads)
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<Placement>, StoreError> {
        let EffectClaim { world, intent, .. } = self.claim;
        match self.claim.held(tx).await? {
            Held::Mine(held) => self.call(tx, &held).await.map(Some),
            Held::Withdrawn(held) => remove_withdrawn(tx, &self.claim, held.is_in_slot()).map(|()| None),
            Held::Answered | Held::Over => Ok(None),
            // An earlier run of this attempt has ended its claim, if the call is there.
            Held::Lost => match inbox_dedupe::read(tx, self.universe, self.to, self.name).await? {
                Some(seq) => Ok(Some(Placement::Known(seq))),
                None => Err(EffectError::ClaimLost { world, intent }.into()),
            },
        }
    }
}

impl CallWorld {
    async fn call<T: Transaction>(&self, tx: &mut T, held: &EffectInflight) -> Result<Placement, StoreError> {
        let places = self.enqueue.run(tx).await?;
        #[expect(clippy::expect_used, reason = "one item in, one place out")]
        let place = *places.first().expect("the place of the one item");
        let place_ns = self.put_aside(tx, held).await?;
        let EffectItem { correlation_id, trace, call, .. } = held.item.clone();
        let open = OpenCall { effect: self.effect, place_ns, correlation_id, trace, call };
        match place {
            Placement::New { index, .. } => open_call::open(tx, self.universe, self.to, index, &open)?,
            // An operator brought its effect forward: it lies elsewhere now. A destination that was deleted answers nobody.
            Placement::Known(seq) => {
                if open_call::read(tx, self.universe, self.to, seq).await?.is_some() {
                    open_call::write(tx, self.universe, self.to, seq, &open)?;
                }
            }
        }
        Ok(place)
    }

    /// Ends the claim. The effect is claimed again at its deadline, as the attempt that it is; says where it lies until then.
    async fn put_aside<T: Transaction>(&self, tx: &mut T, held: &EffectInflight) -> Result<u64, StoreError> {
        let EffectClaim { universe, queue_shard, seq, .. } = self.claim;
        let before = match held.claim.attempt > 1 {
            true => effect_attempt::read(tx, universe, queue_shard.shard(), seq).await?,
            false => None,
        };
        // It has had its turn under a rate.
        let attempts = EffectAttempts {
            attempts: held.claim.attempt - 1,
            not_before_ns: self.deadline_ns,
            granted: true,
            ..before.unwrap_or_default()
        };
        tx.delete(effect_inflight::key(universe, queue_shard, seq).as_bytes())?;
        leave_slot(tx, universe, held)?;
        defer(tx, universe, queue_shard, seq, &held.item, &attempts).await
    }
}

/// The read of [`answer_caller`] if the call at this place came from a world.
pub(in crate::protocol) fn reads(universe: UniverseId, world: WorldId, call: InboxSeq) -> Read {
    open_call::key(universe, world, call).planned()
}

/// A reply, in the turn that gives it.
pub(in crate::protocol) struct Replied<'r> {
    pub(in crate::protocol) universe: UniverseId,
    pub(in crate::protocol) world: WorldId,
    /// The call.
    pub(in crate::protocol) to: InboxSeq,
    pub(in crate::protocol) outcome: &'r ReplyOutcome,
    pub(in crate::protocol) now_ns: u64,
}

/// How many receipts a turn has put into which inboxes: items of one commit and one inbox are told apart by their index.
pub(in crate::protocol) struct Receipts {
    own: (UniverseId, WorldId),
    own_before: u16,
    by_world: BTreeMap<(UniverseId, WorldId), u16>,
}

impl Receipts {
    /// Of a turn that has put so many into its own inbox.
    pub(in crate::protocol) fn new(own: (UniverseId, WorldId), own_before: u16) -> Self {
        Self { own, own_before, by_world: BTreeMap::new() }
    }

    fn before(&self, world: (UniverseId, WorldId)) -> u16 {
        let of_turn = if world == self.own { self.own_before } else { 0 };
        of_turn + self.by_world.get(&world).copied().unwrap_or(0)
    }

    /// The worlds that got one, each as often as it did.
    pub(in crate::protocol) fn takers(self) -> Vec<(UniverseId, WorldId)> {
        self.by_world.into_iter().flat_map(|(world, count)| std::iter::repeat_n(world, count.into())).collect()
    }
}

/// Gives the reply to the world that waits for it, if one does. Says whether the call came from a world at all.
///
/// A caller that cannot take it, because what is stored of it is damaged, does not stop the turn: its deadline ends the call.
pub(in crate::protocol) async fn answer_caller<T: Transaction>(
    tx: &mut T,
    replied: &Replied<'_>,
    receipts: &mut Receipts,
) -> Result<bool, StoreError> {
    let Replied { universe, world, to, outcome, now_ns } = *replied;
    if planted(Mutant::ReplyUnpublished) {
        return Ok(false);
    }
    let Some(open) = open_call::read(tx, universe, world, to).await? else { return Ok(false) };
    tx.delete(open_call::key(universe, world, to).as_bytes())?;
    let SendingEffect { universe: home, world: caller, intent, seq, .. } = open.effect;
    let status = effect_dedupe::read(tx, home, caller, intent).await?.map(|dedupe| dedupe.status);
    if status != Some(EffectStatus::Pending) {
        return Ok(true);
    }
    let queue_shard = open.effect.queue_shard();
    let claim = EffectClaim { universe: home, queue_shard, seq, token: [0; 16], world: caller, intent };
    let terminal = Terminal {
        answer: receipt(outcome, home == universe),
        now_ns,
        dedupe_window_ns: limits::DEDUPE_WINDOW_NS,
        receipts_before: receipts.before((home, caller)),
        was_tried: false,
        failed: None,
        woken_by: WokenBy::ReadyQueue,
    };
    let place = RetryPlace { place_ns: open.place_ns, seq };
    match answer(tx, &claim, &item(open), terminal).await {
        Ok(true) => *receipts.by_world.entry((home, caller)).or_default() += 1,
        Ok(false) => {} // the caller is gone
        Err(StoreError::Damaged(_) | StoreError::World(_) | StoreError::Inbox(_)) => return Ok(true),
        Err(error) => return Err(error),
    }
    tx.delete(effect_retry::key(home, queue_shard, place).as_bytes())?;
    Ok(true)
}

/// The receipt of a reply, for its caller. An object of the content store belongs to one universe.
fn receipt(outcome: &ReplyOutcome, is_at_home: bool) -> Answer {
    let error = |code, reason: String, fields: Vec<(&str, Value)>| {
        let failure = Failure { code, reason, repeat: Repeat::Never };
        Answer::new(ReceiptStatus::Error, fail_effect::describe_with(&failure, 1, fields), "call")
    };
    match outcome {
        ReplyOutcome::Ok(Payload::Blob(_, bytes)) if !is_at_home => {
            let max = limits::PAYLOAD_INLINE_BYTES_MAX;
            let reason = format!("the reply has {bytes} bytes; from another universe at most {max} are taken");
            error(Code::EffectAnswerTooLarge, reason, Vec::new())
        }
        ReplyOutcome::Ok(payload) => Answer::new(ReceiptStatus::Ok, payload.clone(), "call"),
        ReplyOutcome::Failed(code, reason, height) => {
            let at = height.map_or(Value::Null, |height| Value::Integer(height.get().into()));
            let fields = vec![("failed_code", Value::Text(code.clone())), ("failed_at", at)];
            error(Code::CallFailed, format!("{code}: {reason}"), fields)
        }
    }
}

/// The item that a receipt is made of.
fn item(open: OpenCall) -> EffectItem {
    let OpenCall { effect, correlation_id, trace, call, .. } = open;
    EffectItem {
        world: effect.world,
        intent: effect.intent,
        height: Height::GENESIS,
        kind: WORLD_CALL.to_owned(),
        params: Payload::Inline(Vec::new()),
        label: String::new(),
        policy_context: None,
        published_at_ns: 0,
        trace,
        terms: EffectTerms::default(),
        correlation_id,
        call,
        lease: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{Hash, cbor};

    #[test]
    fn a_reply_is_the_payload_of_its_receipt_and_a_failure_says_where() {
        let small = Payload::Inline(vec![1]);
        let ok = receipt(&ReplyOutcome::Ok(small.clone()), false);
        assert_eq!((ok.status, ok.payload), (ReceiptStatus::Ok, small));
        let large = ReplyOutcome::Ok(Payload::Blob(Hash::of(b"x"), 99));
        assert_eq!(receipt(&large, true).status, ReceiptStatus::Ok);
        let far = fields(receipt(&large, false));
        assert_eq!(far["code"], Value::Text("EFFECT_ANSWER_TOO_LARGE".into()));
        let failed = ReplyOutcome::Failed("PROGRAM_FAILED".into(), "why".into(), Some(Height::new(7)));
        let failed = fields(receipt(&failed, true));
        assert_eq!(failed["code"], Value::Text("CALL_FAILED".into()));
        assert_eq!(failed["failed_code"], Value::Text("PROGRAM_FAILED".into()));
        assert_eq!(failed["failed_at"], Value::Integer(7.into()));
    }

    fn fields(answer: Answer) -> BTreeMap<String, Value> {
        assert_eq!(answer.status, ReceiptStatus::Error);
        match answer.payload {
            Payload::Inline(bytes) => match cbor::decode(&bytes).unwrap() {
                Value::Map(fields) => fields,
                other => panic!("{other:?}"),
            },
            Payload::Blob(..) => panic!("a small one"),
        }
    }
}
