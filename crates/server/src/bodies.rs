//! The memory that request bodies take, and that of answers which wait to be read: for each of both one budget for the process, one
//! for each universe and one for each token.
//!
//! Bytes of bodies are counted as they arrive, not as they are announced: an announcement costs a client nothing. They are held until
//! the request is answered. Those of answers are held until they are handed to the system.

use mundi_model::UniverseId;
use mundi_store::values::TokenId;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// A budget for the bodies, or the answers, that are in memory at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyBudgets {
    pub bytes_max: usize,
    pub per_universe_bytes_max: usize,
    pub per_token_bytes_max: usize,
}

impl Default for BodyBudgets {
    fn default() -> Self {
        Self { bytes_max: 256 << 20, per_universe_bytes_max: 128 << 20, per_token_bytes_max: 64 << 20 }
    }
}

impl BodyBudgets {
    /// The largest body that could ever be taken.
    pub(crate) fn body_bytes_max(&self) -> usize {
        self.bytes_max.min(self.per_universe_bytes_max).min(self.per_token_bytes_max)
    }
}

/// Bytes of each body that are not counted: no more than a connection may take for the head of a request anyway. Nearly all bodies are smaller.
pub(crate) const UNCOUNTED_BYTES: usize = 16 * 1024;

/// The bodies of a process, or its answers.
pub struct Bodies {
    what: &'static str,
    budgets: BodyBudgets,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    all: usize,
    universes: BTreeMap<UniverseId, usize>,
    tokens: BTreeMap<TokenId, usize>,
}

/// The owner of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) universe: Option<UniverseId>,
    pub(crate) token: Option<TokenId>,
}

/// The share of one body.
pub(crate) struct HeldBody {
    bodies: Arc<Bodies>,
    owner: Owner,
    bytes: usize,
}

/// Which budget is used up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {what} of {whose} take up to {max} bytes at a time")]
pub(crate) struct BodiesFull {
    what: &'static str,
    whose: &'static str,
    max: usize,
}

impl Bodies {
    pub(crate) fn new(budgets: BodyBudgets) -> Arc<Self> {
        Arc::new(Self { what: "bodies", budgets, used: Mutex::default() })
    }

    /// The same for answers.
    pub(crate) fn of_answers(budgets: BodyBudgets) -> Arc<Self> {
        Arc::new(Self { what: "answers", budgets, used: Mutex::default() })
    }

    /// The bytes in use now.
    pub(crate) fn bytes(&self) -> u64 {
        self.used.lock().all as u64
    }

    pub(crate) fn budgets(&self) -> &BodyBudgets {
        &self.budgets
    }

    pub(crate) fn hold(self: &Arc<Self>, owner: Owner) -> HeldBody {
        HeldBody { bodies: self.clone(), owner, bytes: 0 }
    }
}

impl HeldBody {
    /// The body takes so much from now on, unless it takes more already.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), BodiesFull> {
        if bytes <= self.bytes.max(UNCOUNTED_BYTES) {
            return Ok(());
        }
        let (more, Owner { universe, token }) = (bytes - self.bytes, self.owner);
        let BodyBudgets { bytes_max, per_universe_bytes_max, per_token_bytes_max } = self.bodies.budgets;
        let mut used = self.bodies.used.lock();
        let of_universe = universe.and_then(|id| used.universes.get(&id)).copied().unwrap_or_default();
        let of_token = token.and_then(|id| used.tokens.get(&id)).copied().unwrap_or_default();
        let budgets = [
            ("a token", of_token, per_token_bytes_max),
            ("a universe", of_universe, per_universe_bytes_max),
            ("this process", used.all, bytes_max),
        ];
        if let Some((whose, _, max)) = budgets.into_iter().find(|(_, taken, max)| taken.saturating_add(more) > *max) {
            return Err(BodiesFull { what: self.bodies.what, whose, max });
        }
        used.take(self.owner, more);
        drop(used);
        self.bytes = bytes;
        Ok(())
    }

    /// So much more is taken already: other requests are refused until it is returned.
    pub(crate) fn add(&mut self, more: usize) {
        self.bodies.used.lock().take(self.owner, more);
        self.bytes += more;
    }
}

impl Used {
    fn take(&mut self, Owner { universe, token }: Owner, more: usize) {
        self.all += more;
        if let Some(universe) = universe {
            *self.universes.entry(universe).or_default() += more;
        }
        if let Some(token) = token {
            *self.tokens.entry(token).or_default() += more;
        }
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.bodies.used.lock();
        used.all -= self.bytes;
        give_back(&mut used.universes, self.owner.universe, self.bytes);
        give_back(&mut used.tokens, self.owner.token, self.bytes);
    }
}

fn give_back<I: Ord>(used: &mut BTreeMap<I, usize>, of: Option<I>, bytes: usize) {
    let Some(of) = of else { return };
    if let Some(taken) = used.get_mut(&of) {
        *taken -= bytes;
        if *taken == 0 {
            used.remove(&of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: usize = 1 << 10;

    fn universe(first: u8) -> Option<UniverseId> {
        Some(UniverseId::from_bytes([first; 16]))
    }

    fn bodies() -> Arc<Bodies> {
        let (bytes_max, per_universe_bytes_max, per_token_bytes_max) = (300 * KB, 200 * KB, 100 * KB);
        Bodies::new(BodyBudgets { bytes_max, per_universe_bytes_max, per_token_bytes_max })
    }

    #[test]
    fn each_budget_bounds_its_own_and_no_other() {
        let bodies = bodies();
        let mut grown = Vec::new();
        let mut grow = |universe, token, kb: usize| {
            let mut held = bodies.hold(Owner { universe, token });
            held.grow_to(kb * KB).map(|()| grown.push(held)).map_err(|full| full.whose)
        };
        assert_eq!(grow(universe(1), Some(1), 100), Ok(()));
        assert_eq!(grow(universe(1), Some(1), 17), Err("a token"));
        assert_eq!(grow(universe(1), Some(2), 100), Ok(()));
        assert_eq!(grow(universe(1), Some(3), 17), Err("a universe"));
        assert_eq!(grow(universe(2), Some(4), 100), Ok(()));
        assert_eq!(grow(universe(3), None, 17), Err("this process"));
        assert_eq!(grow(universe(3), None, 16), Ok(()), "small ones are not counted");
    }

    #[test]
    fn what_is_taken_without_asking_counts_for_those_who_ask() {
        let bodies = bodies();
        let owner = Owner { universe: universe(1), token: Some(1) };
        let mut held = bodies.hold(owner);
        held.add(150 * KB);
        assert!(bodies.hold(owner).grow_to(17 * KB).is_err());
        assert_eq!(bodies.bytes(), 150 * 1_024);
        drop(held);
        assert_eq!(bodies.bytes(), 0);
    }

    #[test]
    fn what_is_given_back_is_free_and_leaves_nothing_behind() {
        let bodies = bodies();
        let owner = Owner { universe: universe(1), token: Some(1) };
        let mut held = bodies.hold(owner);
        held.grow_to(20 * KB).unwrap();
        held.grow_to(90 * KB).unwrap();
        held.grow_to(30 * KB).unwrap();
        assert!(bodies.hold(owner).grow_to(17 * KB).is_err());
        drop(held);
        bodies.hold(owner).grow_to(100 * KB).unwrap();
        let used = bodies.used.lock();
        assert!(used.all == 0 && used.universes.is_empty() && used.tokens.is_empty());
    }
}
