//! Worlds that ask for effects and set timers, without a program.

use super::Fixture;
use crate::{
    Clock, Fence, StoreError,
    blob::Blobs,
    journal::Batch,
    keyspace::{
        Lane,
        effect_pending::{EffectItem, EffectTerms},
        queue::{Claim, QueueSeq},
        timer_due::TimerItem,
    },
    protocol::{ClaimedEffect, CommitTurn, EffectClaim, InHands},
};
use mundi_engine::Engine;
use mundi_model::{
    Height, IntentHash, Stamp,
    record::{Body, Input, Intent, Payload, Receipt},
};

/// A turn that asks for effects, one per kind given; returns their intents.
pub async fn ask<E: Engine, B: Blobs>(
    store: &Fixture<E, B>,
    fence: Fence,
    kinds: &[&str],
    terms: EffectTerms,
) -> Result<Vec<IntentHash>, StoreError> {
    let mut turn = Turn::read(store, fence).await?;
    turn.ask(fence, kinds, terms, store.clock.now_ns());
    Ok(turn.commit(store, fence).await?.0)
}

/// As [`ask`], of somebody who has a hand free for each.
pub async fn ask_in_hands<E: Engine, B: Blobs>(
    store: &Fixture<E, B>,
    fence: Fence,
    kinds: &[&str],
    terms: EffectTerms,
    claim: Claim,
) -> Result<Vec<ClaimedEffect>, StoreError> {
    let mut turn = Turn::read(store, fence).await?;
    turn.ask(fence, kinds, terms, store.clock.now_ns());
    turn.claims = kinds.iter().map(|_| Some(claim)).collect();
    let effects = turn.effects.clone();
    let (_, stamp) = turn.commit(store, fence).await?;
    let claimed = |(index, item): (u16, EffectItem)| {
        let (universe, lane, seq) = (store.universe, Lane::of(&item.kind, item.intent), QueueSeq::new(stamp?, index));
        let proof = EffectClaim { universe, lane, seq, token: claim.token, world: item.world, intent: item.intent };
        Some(ClaimedEffect { proof, claim, item })
    };
    Ok((0..).zip(effects).filter_map(claimed).collect())
}

/// A turn that sets timers for these times; returns their intents.
pub async fn set_timers<E: Engine, B: Blobs>(
    store: &Fixture<E, B>,
    fence: Fence,
    times_ns: &[u64],
) -> Result<Vec<IntentHash>, StoreError> {
    let now_ns = store.clock.now_ns();
    let mut turn = Turn::read(store, fence).await?;
    for &deliver_at_ns in times_ns {
        let (intent, height, payload) = turn.announce("timer.set");
        let world = fence.world;
        let published_at_ns = now_ns;
        turn.timers.push(TimerItem {
            world,
            intent,
            height,
            deliver_at_ns,
            payload,
            published_at_ns,
            trace: None,
            correlation_id: None,
        });
    }
    Ok(turn.commit(store, fence).await?.0)
}

/// The receipts that wait in a world's inbox, in order.
pub async fn receipts<E: Engine, B: Blobs>(store: &Fixture<E, B>, fence: Fence) -> Result<Vec<Receipt>, StoreError> {
    let items = store.read_turn(fence).await?.items;
    let receipt = |input: &Input| match input {
        Input::Receipt(receipt) => Some(receipt.clone()),
        _ => None,
    };
    Ok(items.iter().filter_map(|item| receipt(&item.item.input)).collect())
}

struct Turn {
    head: crate::keyspace::journal_head::JournalHead,
    cursor: Option<mundi_model::InboxSeq>,
    bodies: Vec<Body>,
    intents: Vec<IntentHash>,
    effects: Vec<EffectItem>,
    claims: Vec<Option<Claim>>,
    timers: Vec<TimerItem>,
}

impl Turn {
    async fn read<E: Engine, B: Blobs>(store: &Fixture<E, B>, fence: Fence) -> Result<Self, StoreError> {
        let input = store.read_turn(fence).await?;
        Ok(Self {
            head: input.head,
            cursor: input.cursor,
            bodies: Vec::new(),
            intents: Vec::new(),
            effects: Vec::new(),
            claims: Vec::new(),
            timers: Vec::new(),
        })
    }

    fn ask(&mut self, fence: Fence, kinds: &[&str], terms: EffectTerms, now_ns: u64) {
        for kind in kinds {
            let (intent, height, params) = self.announce(kind);
            self.effects.push(EffectItem {
                world: fence.world,
                intent,
                height,
                kind: (*kind).to_owned(),
                params,
                label: String::new(),
                policy_context: None,
                published_at_ns: now_ns,
                trace: None,
                correlation_id: None,
                terms,
            });
        }
    }

    fn announce(&mut self, kind: &str) -> (IntentHash, Height, Payload) {
        let height = Height::new(self.head.height.get() + self.bodies.len() as u64);
        let intent = IntentHash::of(format!("{kind} at {height} after {:?}", self.head.chain).as_bytes());
        let params = Payload::Inline(vec![0xf6]);
        let record = Intent { hash: intent, kind: kind.to_owned(), params: params.clone(), label: String::new() };
        self.bodies.push(Body::Intent(record));
        self.intents.push(intent);
        (intent, height, params)
    }

    async fn commit<E: Engine, B: Blobs>(
        self,
        store: &Fixture<E, B>,
        fence: Fence,
    ) -> Result<(Vec<IntentHash>, Option<Stamp>), StoreError> {
        let turn = CommitTurn {
            fence,
            cursor: self.cursor,
            consumed: None,
            records: Batch::from_bodies(self.head, self.bodies)?,
            effects: self.effects,
            timers: self.timers,
            receipts: Vec::new(),
            in_hands: InHands { claims: self.claims, ..InHands::default() },
            ready: false,
            now_ns: store.clock.now_ns(),
        };
        let stamp = store.run(&turn).await?.stamp;
        Ok((self.intents, stamp))
    }
}
