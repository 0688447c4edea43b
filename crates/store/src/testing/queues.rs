//! Worlds that ask for effects and set timers, without a program.

use super::Fixture;
use crate::{
    Clock, Fence, StoreError,
    blob::Blobs,
    journal::Batch,
    keyspace::{
        QueueShard,
        effect_dedupe::EffectStatus,
        effect_inflight,
        effect_pending::{EffectItem, EffectLease, EffectTerms},
        queue::{Claim, QueueSeq},
        timer_due::TimerItem,
    },
    protocol::{ClaimedEffect, CommitTurn, EffectClaim, InProcess},
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    Height, IntentHash, Stamp, UniverseId, WorkerId, WorldId,
    child::{CHILD_SPAWN, ChildId},
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

/// A turn that spawns a child per parameters given; returns their ids.
pub async fn spawn_children<E: Engine, B: Blobs>(
    store: &Fixture<E, B>,
    fence: Fence,
    params: &[Vec<u8>],
    active_max: u64,
) -> Result<Vec<ChildId>, StoreError> {
    let mut turn = Turn::read(store, fence).await?;
    let terms = EffectTerms { children_active_max: Some(active_max), ..EffectTerms::default() };
    turn.ask(fence, &vec![CHILD_SPAWN; params.len()], terms, store.clock.now_ns());
    for (item, params) in turn.effects.iter_mut().zip(params) {
        item.params = Payload::Inline(params.clone());
    }
    let (intents, _) = turn.commit(store, fence).await?;
    Ok(intents.iter().map(ChildId::of_intent).collect())
}

/// As [`ask`], for effects that name a lease.
pub async fn ask_leased<E: Engine, B: Blobs>(
    store: &Fixture<E, B>,
    fence: Fence,
    kinds: &[&str],
    terms: EffectTerms,
    lease: &EffectLease,
) -> Result<Vec<IntentHash>, StoreError> {
    let mut turn = Turn::read(store, fence).await?;
    turn.ask(fence, kinds, terms, store.clock.now_ns());
    turn.effects.iter_mut().for_each(|item| item.lease = Some(lease.clone()));
    Ok(turn.commit(store, fence).await?.0)
}

/// As [`ask`], with a free slot for each.
pub async fn ask_in_process<E: Engine, B: Blobs>(
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
        let (universe, queue_shard, seq) =
            (store.universe, QueueShard::of(&item.kind, item.intent), QueueSeq::new(stamp?, index));
        let proof =
            EffectClaim { universe, queue_shard, seq, token: claim.token, world: item.world, intent: item.intent };
        Some(ClaimedEffect { proof, claim, item })
    };
    Ok((0..).zip(effects).filter_map(claimed).collect())
}

const WORKER: WorkerId = match WorkerId::new(1) {
    Some(worker) => worker,
    None => panic!("it is not zero"),
};

/// An effect in a slot, without the turn that would have asked for it.
pub async fn held_effect<E: Engine>(
    engine: &E,
    universe: UniverseId,
    world: WorldId,
    kind: &str,
    intent: IntentHash,
) -> Result<EffectClaim, StoreError> {
    let claim = Claim { token: [5; 16], worker: WORKER, deadline_ns: u64::MAX, attempt: 1 };
    let item = EffectItem {
        world,
        intent,
        height: Height::new(1),
        kind: kind.to_owned(),
        params: Payload::Inline(Vec::new()),
        label: String::new(),
        policy_context: None,
        published_at_ns: 1,
        trace: None,
        correlation_id: None,
        call: None,
        terms: EffectTerms::default(),
        lease: None,
    };
    let mut tx = engine.begin().await?;
    effect_inflight::publish(&mut tx, universe, 0, &claim, &item, Some(EffectStatus::Pending))?;
    let stamp = tx.commit().await?.stamp();
    let seq = QueueSeq::new(stamp.unwrap_or(Stamp::new(0, 0)), 0); // something was written
    Ok(EffectClaim { universe, queue_shard: QueueShard::of(kind, intent), seq, token: claim.token, world, intent })
}

/// A claim that nobody holds, for calls of adapters that do not ask for it.
pub fn unheld(universe: UniverseId, world: WorldId, intent: IntentHash) -> EffectClaim {
    let (queue_shard, seq) = (QueueShard::of("unheld", intent), QueueSeq::new(Stamp::new(0, 0), 0));
    EffectClaim { universe, queue_shard, seq, token: [0; 16], world, intent }
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
            call: None,
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
                call: None,
                terms,
                lease: None,
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
            expects_end: None,
            in_process: InProcess { claims: self.claims, ..InProcess::default() },
            logs: Vec::new(),
            authorities: Vec::new(),
            paused: None,
            ready: false,
            now_ns: store.clock.now_ns(),
        };
        let stamp = store.run(&turn).await?.stamp;
        Ok((self.intents, stamp))
    }
}
