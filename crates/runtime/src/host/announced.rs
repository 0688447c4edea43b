//! What a turn asks for, as it is published: with the height, the trace, the correlation id and the call of the step that asked.

use crate::{terms::effect_terms, trace::child_of};
use mundi_kernel::turn::{Publish, PublishTimer};
use mundi_model::{
    Height, InboxSeq, IntentHash,
    record::{Body, Sealed},
};
use mundi_store::{
    Fence,
    keyspace::{effect_pending::EffectItem, timer_due::TimerItem},
};
use std::collections::BTreeMap;

/// Where each intent of a turn is on record, with the trace and the correlation id of the item that led to it.
pub(super) struct Announced {
    intents: BTreeMap<IntentHash, Announcement>,
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
    pub(super) fn of(records: &[Sealed]) -> Self {
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
        Self { intents }
    }

    pub(super) fn effect(&self, fence: Fence, publish: &Publish, now_ns: u64) -> Option<EffectItem> {
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
            terms: effect_terms(&publish.policies),
            correlation_id,
            call,
        })
    }

    pub(super) fn timer(&self, fence: Fence, timer: &PublishTimer, now_ns: u64) -> Option<TimerItem> {
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
