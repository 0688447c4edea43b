//! The state that the loop of an adapter worker keeps between its rounds: the calls that run, and the known state of the queues.

use super::AdapterWorker;
use crate::{
    effects::slots::{EffectSlots, Handover, InDoubt, StartEffect},
    metrics::Metric,
};
use futures_channel::mpsc;
use futures_util::{
    FutureExt,
    future::{AbortHandle, Abortable, BoxFuture, poll_fn},
    stream::{FusedStream, FuturesUnordered, StreamExt},
};
use mundi_engine::Engine;
use mundi_store::{
    blob::Blobs,
    keyspace::{QueueShard, queue::QueueSeq, queue_notify::Seen},
    protocol::EffectClaim,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A call that runs.
pub(super) struct Running {
    pub(super) claim: EffectClaim,
    pub(super) kind: String,
    pub(super) abort: AbortHandle,
}

/// A call is over.
pub(super) struct Ended {
    pub(super) seq: QueueSeq,
    pub(super) next: Next,
}

/// When an effect may be claimed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Never,
    /// Only the queue knows.
    Unknown,
    At(u64),
}

/// Nothing of a kind was left to claim: there is nothing either until the counter changes, or a retry is due.
pub(super) struct Empty {
    pub(super) seen: Seen,
    pub(super) retry_ns: Option<u64>,
}

/// The state that the loop keeps between its rounds.
pub(super) struct Round<'a, E, B> {
    pub(super) worker: &'a AdapterWorker<E, B>,
    pub(super) slots: Arc<EffectSlots>,
    /// Effects that turns of this process start, and claims in doubt.
    pub(super) handovers: mpsc::UnboundedReceiver<Handover>,
    /// Claims of commits whose result is not known. Bounded by the slots.
    pub(super) in_doubt: Vec<InDoubt>,
    pub(super) calls: FuturesUnordered<BoxFuture<'a, Ended>>,
    pub(super) running: BTreeMap<QueueSeq, Running>,
    /// The kinds of which nothing was left to claim.
    pub(super) empty: BTreeMap<&'a str, Empty>,
    /// Where something was held since the last upkeep.
    pub(super) touched: BTreeSet<QueueShard>,
    /// When claims are to be extended and dead ones reaped.
    pub(super) upkeep_ns: u64,
    /// There is no room for some kind, and nobody says when there is: the whole universe has as many calls as it may, or a
    /// turn has reserved a slot and may not use it.
    pub(super) capped: bool,
    /// Calls ended while it looked, or the look did not see all: it looks again before it sleeps.
    pub(super) ended: bool,
    /// The kinds of those that may be tried again: a look that began before does not know when.
    pub(super) put_off: BTreeSet<String>,
    /// At which kind the next look begins: where the process makes as many attempts as it may, each has its turn.
    pub(super) first_kind: usize,
}

impl<'a, E: Engine, B: Blobs> Round<'a, E, B> {
    pub(super) fn new(
        worker: &'a AdapterWorker<E, B>,
        slots: Arc<EffectSlots>,
        handovers: mpsc::UnboundedReceiver<Handover>,
    ) -> Self {
        Self {
            worker,
            slots,
            handovers,
            in_doubt: Vec::new(),
            calls: FuturesUnordered::new(),
            running: BTreeMap::new(),
            empty: BTreeMap::new(),
            touched: BTreeSet::new(),
            upkeep_ns: 0,
            capped: false,
            ended: false,
            put_off: BTreeSet::new(),
            first_kind: 0,
        }
    }

    /// Whether all that it held is finished, and nothing can arrive any more.
    pub(super) fn is_over(&self) -> bool {
        self.calls.is_empty() && self.handovers.is_terminated()
    }

    fn note_held(&self) {
        self.worker.metrics.set(Metric::EffectsRunning, self.running.len() as u64);
        self.worker.pace.running(self.running.len());
    }

    pub(super) fn running_of(&self, kind: &str) -> usize {
        self.running.values().filter(|running| running.kind == kind).count()
    }

    pub(super) fn start(&mut self, StartEffect { effect, slot }: StartEffect) {
        let worker = self.worker;
        let (seq, claim) = (effect.proof.seq, effect.proof);
        let Some(adapter) = worker.adapters.get(slot.kind()) else { return };
        if effect.claim.attempt == 1 {
            let age_ns = worker.clock.now_ns().saturating_sub(effect.item.published_at_ns);
            worker.metrics.add(Metric::EffectAgeNs, age_ns);
            worker.metrics.raise(Metric::EffectAgeNsMax, age_ns);
        }
        worker.pace.began(1);
        let (abort, registration) = AbortHandle::new_pair();
        self.running.insert(seq, Running { claim, kind: slot.kind().to_owned(), abort });
        self.touched.insert(claim.queue_shard);
        self.note_held();
        let call = Abortable::new(worker.carry_out(adapter, effect, slot), registration);
        self.calls.push(call.map(move |next| Ended { seq, next: next.unwrap_or(Next::Unknown) }).boxed());
    }

    /// Waits for something while calls continue. The more of them end meanwhile, the more the next claim takes at once.
    pub(super) async fn during<O>(&mut self, other: impl Future<Output = O>) -> O {
        let mut other = pin!(other);
        poll_fn(|cx| {
            self.ended |= self.poll_calls(cx);
            other.as_mut().poll(cx)
        })
        .await
    }

    /// The same; `None` once any call is over.
    pub(super) async fn until_ended_or<O>(&mut self, other: impl Future<Output = O>) -> Option<O> {
        let mut other = pin!(other);
        poll_fn(|cx| if self.poll_calls(cx) { Poll::Ready(None) } else { other.as_mut().poll(cx).map(Some) }).await
    }

    /// Remembers when an effect of a kind may be claimed again, or that the queue must be asked.
    fn note_next(&mut self, kind: &str, next: Next) {
        match (next, self.empty.get_mut(kind)) {
            (Next::Never, _) => {}
            (Next::At(ns), Some(empty)) => empty.retry_ns = Some(empty.retry_ns.map_or(ns, |first| first.min(ns))),
            // A look that is under way may not have seen it.
            (Next::Unknown | Next::At(_), _) => {
                self.empty.remove(kind);
                self.put_off.insert(kind.to_owned());
            }
        }
    }

    /// Polls the calls that run, and starts those that were handed over; says whether one ended for which something may wait.
    pub(super) fn poll_calls(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        loop {
            while let Poll::Ready(Some(handover)) = self.handovers.poll_next_unpin(cx) {
                match handover {
                    Handover::Start(effect) => self.start(effect),
                    Handover::InDoubt(doubt) => {
                        self.in_doubt.push(doubt);
                        any = true;
                    }
                }
            }
            let Poll::Ready(Some(Ended { seq, next })) = self.calls.poll_next_unpin(cx) else { break };
            let Some(Running { kind, .. }) = self.running.remove(&seq) else { continue };
            self.note_held();
            self.note_next(&kind, next);
            any |= !self.empty.contains_key(kind.as_str());
        }
        any
    }
}
