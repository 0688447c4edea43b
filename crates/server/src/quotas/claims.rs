//! Effects that external workers have claimed through this process.
//!
//! A claim counts from before it is looked for until it is answered, failed or lost here, or until its time is over without a heartbeat that
//! came here. In a fleet, one that is kept or ended through another process is not known here: it counts until its time is over.

use mundi_model::IntentHash;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// Claims that are counted; a quota that is larger does not count those beyond.
const CLAIMS_COUNTED_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct ExternalClaims(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// With the time until which each is held.
    held: BTreeMap<IntentHash, u64>,
    /// Capacity reserved by claims in progress.
    reserved: u64,
}

impl State {
    fn count(&mut self, now_ns: u64) -> u64 {
        self.held.retain(|_, until_ns| *until_ns > now_ns);
        self.reserved.saturating_add(self.held.len() as u64)
    }
}

impl ExternalClaims {
    pub(super) fn count(&self, now_ns: u64) -> u64 {
        self.0.lock().count(now_ns)
    }

    /// Room for as many as are wanted and as are left of `max`; taken until the room is used or dropped.
    pub(super) fn room(this: &Arc<Self>, wanted: usize, max: u64, now_ns: u64) -> ClaimRoom {
        let mut state = this.0.lock();
        let left = if max == u64::MAX { max } else { max.saturating_sub(state.count(now_ns)) };
        let count = (wanted as u64).min(left);
        state.reserved += count;
        ClaimRoom { claims: this.clone(), count }
    }

    pub(super) fn keep(&self, intents: impl Iterator<Item = IntentHash>, until_ns: u64) {
        let mut state = self.0.lock();
        for intent in intents {
            state.held.entry(intent).and_modify(|until| *until = until_ns);
        }
    }

    pub(super) fn end(&self, intent: IntentHash) {
        self.0.lock().held.remove(&intent);
    }
}

/// Room for effects that are looked for.
pub(crate) struct ClaimRoom {
    claims: Arc<ExternalClaims>,
    count: u64,
}

impl ClaimRoom {
    pub(crate) fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    pub(super) fn used(self, intents: impl Iterator<Item = IntentHash>, until_ns: u64) {
        let mut state = self.claims.0.lock();
        let room = CLAIMS_COUNTED_MAX.saturating_sub(state.held.len());
        state.held.extend(intents.take(room).map(|intent| (intent, until_ns)));
    }
}

impl Drop for ClaimRoom {
    fn drop(&mut self) {
        self.claims.0.lock().reserved -= self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, Copy)]
    enum Op {
        Look(usize),
        /// Of what one looks for, so many are found.
        Find(usize),
        End,
        Pass(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0_usize..6).prop_map(Op::Look),
            (0_usize..6).prop_map(Op::Find),
            Just(Op::End),
            (0_u64..40).prop_map(Op::Pass),
        ]
    }

    proptest! {
        /// However claims are looked for, found, ended and forgotten, no more are held at a time than the quota allows.
        #[test]
        fn claims_never_pass_the_quota(max in 0_u64..8, ops in proptest::collection::vec(op(), 1..80)) {
            let (claims, mut now_ns, mut named) = (Arc::<ExternalClaims>::default(), 0, 0_u8);
            let (mut looking, mut held): (Vec<ClaimRoom>, Vec<(IntentHash, u64)>) = (Vec::new(), Vec::new());
            for op in ops {
                match op {
                    Op::Look(wanted) => looking.push(ExternalClaims::room(&claims, wanted, max, now_ns)),
                    Op::Find(count) => {
                        let Some(room) = looking.pop() else { continue };
                        let found: Vec<_> = (0..count.min(room.count())).map(|_| {
                            named = named.wrapping_add(1);
                            IntentHash::from_bytes([named; 32])
                        }).collect();
                        held.extend(found.iter().map(|intent| (*intent, now_ns + 30)));
                        room.used(found.into_iter(), now_ns + 30);
                    }
                    Op::End => {
                        if let Some((intent, _)) = held.pop() {
                            claims.end(intent);
                        }
                    }
                    Op::Pass(ns) => now_ns += ns,
                }
                held.retain(|(_, until_ns)| *until_ns > now_ns);
                let reserved: usize = looking.iter().map(ClaimRoom::count).sum();
                prop_assert!((held.len() + reserved) as u64 <= max);
                prop_assert_eq!(claims.count(now_ns), (held.len() + reserved) as u64, "and nothing is kept that is free");
            }
        }
    }
}
