//! Claims: taken from the queue, extended while calls run, looked for when a commit is in doubt, reaped when others crashed.

use super::{
    AdapterWorker, nanos,
    round::{Empty, Round},
};
use crate::{
    effects::slots::{InDoubt, Offer, StartEffect},
    metrics::Metric,
};
use mundi_engine::Engine;
use mundi_model::limits;
use mundi_store::{
    StoreError,
    blob::Blobs,
    keyspace::{QueueShard, Shard, queue_notify::Seen},
    protocol::{ClaimEffects, ExtendClaims, FindClaims, KindCap, ReapEffects, Reaped, ShardsToReap, claim_effects},
    run,
};
use std::collections::BTreeSet;

impl<E: Engine, B: Blobs> AdapterWorker<E, B> {
    /// Claims what there is room for, of every kind that may have something.
    pub(super) async fn claim<'a>(
        &'a self,
        round: &mut Round<'a, E, B>,
        seen: &[(&'a str, Seen)],
    ) -> Result<(), StoreError> {
        round.capped = false;
        let first = round.first_kind.checked_rem(seen.len()).unwrap_or(0);
        round.first_kind = first + 1;
        for (kind, seen) in seen[first..].iter().chain(&seen[..first]) {
            let due = |empty: &Empty| empty.retry_ns.is_some_and(|retry_ns| retry_ns <= self.clock.now_ns());
            if round.empty.get(kind).is_some_and(|empty| empty.seen == *seen && !due(empty)) {
                continue;
            }
            round.empty.remove(kind);
            let is_capped = self.pace.is_limited()
                || self.config.universe_caps.get(*kind).is_some_and(|cap| *cap != KindCap::default());
            round.slots.offer(kind, if is_capped { Offer::None } else { Offer::Surplus }); // what waits must find some
            let room = self.pace.room(round.running.len()).min(limits::CLAIMS_MAX);
            let slots = round.slots.take(kind, room, self.clock.now_ns());
            if slots.is_empty() {
                // A reserved slot may become free without a call that ends, and so does the pace.
                round.capped |= room == 0 || round.running_of(kind) < self.calls_max(kind);
                continue;
            }
            let claim = self.claim_of(kind, slots.len());
            round.put_off.remove(*kind);
            let claims = match round.during(claim_effects(&self.engine, &*self.clock, &claim)).await {
                Ok(claims) => claims,
                Err(error) => {
                    let FindClaims { queue_shards, token, .. } = claim.find_again();
                    round.in_doubt.push(InDoubt { queue_shards, token, slots });
                    return Err(error);
                }
            };
            for (effect, slot) in claims.effects.into_iter().zip(slots) {
                round.start(StartEffect { effect, slot });
            }
            round.capped |= claims.capped;
            round.ended |= claims.more; // look again at once, but at other kinds and other duties, too
            if !claims.capped && !claims.more && !round.put_off.contains(*kind) {
                round.empty.insert(kind, Empty { seen: seen.clone(), retry_ns: claims.next_retry_ns });
                round.slots.offer(kind, if is_capped { Offer::None } else { Offer::All });
            }
        }
        Ok(())
    }

    /// Looks whether commits with an unknown result have claimed something: it is carried out now, and not when the claims have expired.
    pub(super) async fn settle_doubts<'a>(&'a self, round: &mut Round<'a, E, B>) -> Result<(), StoreError> {
        while let Some(InDoubt { queue_shards, token, slots }) = round.in_doubt.pop() {
            let find = FindClaims { universe: self.universe, queue_shards, token };
            match round.during(run(&self.engine, &*self.clock, &find)).await {
                Ok(found) => {
                    let effects = found.output.into_iter().zip(slots);
                    effects.for_each(|(effect, slot)| round.start(StartEffect { effect, slot }));
                }
                Err(error) => {
                    round.in_doubt.push(InDoubt { queue_shards: find.queue_shards, token, slots });
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Ends the claims that an earlier process made under this worker's number: each is an attempt that failed.
    pub(super) async fn release_earlier_claims(&self) -> Result<(), StoreError> {
        let (universe, now_ns, gone) = (self.universe, self.clock.now_ns(), Some(self.worker));
        let (kinds, items_max) = (self.adapters.keys().cloned().collect(), limits::CLAIMS_MAX);
        let look = ShardsToReap { universe, kinds, items_max, now_ns, gone };
        for queue_shard in run(&self.engine, &*self.clock, &look).await?.output {
            let reap = ReapEffects { universe, queue_shard, touched: false, items_max, now_ns, gone };
            loop {
                let reaped = run(&self.engine, &*self.clock, &reap).await?.output;
                self.note_reaped(&reaped);
                if reaped == (Reaped { next_deadline_ns: reaped.next_deadline_ns, ..Reaped::default() }) {
                    break; // what is left is held by others
                }
            }
        }
        Ok(())
    }

    fn note_reaped(&self, reaped: &Reaped) {
        if reaped.retrying + reaped.buried > 0 {
            self.report.count(|counters| {
                counters.requeues += reaped.retrying as u64;
                counters.dead_letters += reaped.buried as u64;
            });
            self.metrics.add(Metric::DeadLetters, reaped.buried as u64);
        }
    }

    /// How many calls of a kind may run.
    pub(super) fn calls_max(&self, kind: &str) -> usize {
        let named = self.config.kind_calls_max.get(kind).copied();
        named.unwrap_or_else(|| {
            self.adapters.get(kind).map_or(0, |adapter| adapter.calls_max()).min(self.config.calls_max)
        })
    }

    fn claim_of(&self, kind: &str, items_max: usize) -> ClaimEffects {
        let mut token = [0; 16];
        self.entropy.fill(&mut token);
        ClaimEffects {
            universe: self.universe,
            kind: kind.to_owned(),
            worker: self.worker,
            token,
            items_max,
            ttl_ns: nanos(self.config.claim_ttl),
            now_ns: self.clock.now_ns(),
            first: Shard::of(&token),
            cap: self.config.universe_caps.get(kind).copied().unwrap_or_default(),
        }
    }

    /// Extends what is held, drops what is not wanted any more, and reaps what others left.
    pub(super) async fn upkeep(&self, round: &mut Round<'_, E, B>) -> Result<(), StoreError> {
        let now_ns = self.clock.now_ns();
        let ttl_ns = nanos(self.config.claim_ttl);
        let claims: Vec<_> = round.running.values().map(|running| running.claim).collect();
        for claims in claims.chunks(limits::CLAIMS_MAX) {
            let extend = ExtendClaims { claims: claims.to_vec(), deadline_ns: now_ns.saturating_add(ttl_ns) };
            let extended = round.during(run(&self.engine, &*self.clock, &extend)).await?.output;
            for claim in extended.lost.iter().chain(&extended.withdrawn) {
                if let Some(running) = round.running.get(&claim.seq) {
                    running.abort.abort();
                }
            }
        }
        let universe = self.universe;
        let (kinds, items_max) = (self.adapters.keys().cloned().collect(), limits::CLAIMS_MAX);
        let look = ShardsToReap { universe, kinds, items_max, now_ns, gone: None };
        let wanting = round.during(run(&self.engine, &*self.clock, &look)).await?.output;
        let touched = std::mem::take(&mut round.touched);
        let queue_shards: BTreeSet<QueueShard> = wanting.into_iter().chain(touched.iter().copied()).collect();
        for queue_shard in queue_shards {
            let reap = ReapEffects {
                universe,
                queue_shard,
                touched: touched.contains(&queue_shard),
                items_max,
                now_ns,
                gone: None,
            };
            let reaped = round.during(run(&self.engine, &*self.clock, &reap)).await?.output;
            self.note_reaped(&reaped);
        }
        round.upkeep_ns = now_ns.saturating_add(ttl_ns / 3);
        Ok(())
    }
}
