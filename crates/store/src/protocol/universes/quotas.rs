//! Quotas: set those of a universe or of a token, and charge a token with what is brought in with it.
//!
//! Guarantees: a charge is made if no bound is crossed by it, and not at all otherwise; concurrent charges of one token conflict,
//! so together they stay within the bound, in every process. Each is made once and given back once.
//! Unknown commit: run again. Writing quotas is idempotent. Each change of a token's usage has a number, and one that is among the last
//! changes was made before. Should more than [`TOKEN_CHANGES_REMEMBERED`](limits::TOKEN_CHANGES_REMEMBERED) changes of the same token come
//! between a commit without an answer and its repetition, it is made twice: no client of one token has so many requests in progress that
//! this is expected.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        quotas::{self, Quotas},
        token::{self, TokenId},
        token_usage::{self, TokenUsage},
    },
};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId,
    mutants::{Mutant, planted},
};

/// Sets the quotas of a universe; `None` leaves all of them to the configuration.
#[derive(Debug, Clone, Copy)]
pub struct WriteQuotas {
    pub universe: UniverseId,
    pub quotas: Option<Quotas>,
}

impl Protocol for WriteQuotas {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        match &self.quotas {
            Some(quotas) => quotas::write(tx, self.universe, quotas),
            None => Ok(tx.delete(quotas::key(self.universe).as_bytes())?),
        }
    }
}

/// Reads what was set for a universe.
#[derive(Debug, Clone, Copy)]
pub struct ReadQuotas {
    pub universe: UniverseId,
}

impl Protocol for ReadQuotas {
    type Output = Option<Quotas>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<Quotas>, StoreError> {
        quotas::read(tx, self.universe).await
    }
}

/// Sets the quotas of a token. Says whether there is one.
#[derive(Debug, Clone, Copy)]
pub struct SetTokenQuotas {
    pub id: TokenId,
    pub quotas: Option<Quotas>,
}

impl Protocol for SetTokenQuotas {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let Some(record) = token::read(tx, self.id).await? else { return Ok(false) };
        token::write(tx, self.id, &token::TokenRecord { quotas: self.quotas, ..record })?;
        Ok(true)
    }
}

/// Charges a token with what is brought in with it, if its quotas leave room; `give_back` takes a charge back.
#[derive(Debug, Clone, Copy)]
pub struct ChargeToken {
    pub id: TokenId,
    pub amount: TokenUsage,
    pub quotas: Quotas,
    pub give_back: bool,
    /// Drawn for this one change.
    pub change: u64,
}

/// The result of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charged {
    Yes,
    /// Nothing was charged: this is what was brought in before.
    No(TokenUsage),
}

impl Protocol for ChargeToken {
    type Output = Charged;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Charged, StoreError> {
        let stored = token_usage::read(tx, self.id).await?.unwrap_or_default();
        if stored.has(self.change) && !planted(Mutant::ChargeRepeated) {
            return Ok(Charged::Yes);
        }
        let before = stored.usage();
        match self.plan(before) {
            Some(after) => {
                token_usage::write(tx, self.id, &stored.after(self.change, after))?;
                Ok(Charged::Yes)
            }
            None => Ok(Charged::No(before)),
        }
    }
}

impl ChargeToken {
    /// The usage of the token after the charge; `None` if that were too much.
    fn plan(&self, before: TokenUsage) -> Option<TokenUsage> {
        let Self { amount, quotas, give_back, .. } = self;
        let one = |before: u64, amount: u64, max: Option<u64>| match give_back {
            true => Some(before.saturating_sub(amount)),
            false => before.checked_add(amount).filter(|after| amount == 0 || max.is_none_or(|max| *after <= max)),
        };
        Some(TokenUsage {
            worlds: one(before.worlds, amount.worlds, quotas.worlds_max)?,
            bytes: one(before.bytes, amount.bytes, quotas.stored_bytes_max)?,
            blobs: one(before.blobs, amount.blobs, quotas.blobs_max)?,
            programs: one(before.programs, amount.programs, quotas.programs_max)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualClock;
    use mundi_engine::Memory;
    use mundi_model::limits;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn charge(worlds: u64, bytes: u64, give_back: bool) -> ChargeToken {
        let quotas = Quotas { worlds_max: Some(2), stored_bytes_max: Some(10), ..Quotas::default() };
        let amount = TokenUsage { worlds, bytes, ..TokenUsage::default() };
        let change = CHANGES.fetch_add(1, Ordering::Relaxed);
        ChargeToken { id: 7, amount, quotas, give_back, change }
    }

    static CHANGES: AtomicU64 = AtomicU64::new(1);

    #[test]
    fn a_token_is_charged_up_to_its_bounds_and_gets_back_what_came_to_nothing() {
        pollster::block_on(async {
            let (engine, clock) = (Memory::new(), ManualClock::at_ns(1));
            let run = async |charge: ChargeToken| crate::run(&engine, &clock, &charge).await.unwrap().output;
            assert_eq!(run(charge(1, 4, false)).await, Charged::Yes);
            assert_eq!(run(charge(1, 6, false)).await, Charged::Yes);
            let full = TokenUsage { worlds: 2, bytes: 10, ..TokenUsage::default() };
            assert_eq!(run(charge(1, 0, false)).await, Charged::No(full));
            assert_eq!(run(charge(0, 1, false)).await, Charged::No(full));
            assert_eq!(run(charge(1, 6, true)).await, Charged::Yes);
            assert_eq!(run(charge(1, 7, false)).await, Charged::No(TokenUsage { worlds: 1, bytes: 4, ..full }));
            assert_eq!(run(charge(1, 6, false)).await, Charged::Yes);
        });
    }

    #[test]
    fn what_is_not_asked_for_is_not_held_against_a_token_whose_bound_was_lowered() {
        let lowered =
            ChargeToken { quotas: Quotas { worlds_max: Some(0), ..Quotas::default() }, ..charge(0, 3, false) };
        let before = TokenUsage { worlds: 5, ..TokenUsage::default() };
        assert_eq!(lowered.plan(before), Some(TokenUsage { bytes: 3, ..before }));
        assert_eq!(
            ChargeToken { amount: TokenUsage { worlds: 1, ..TokenUsage::default() }, ..lowered }.plan(before),
            None
        );
    }

    proptest! {
        /// However changes are repeated, those of one token add up to each of them made once, and never pass a bound.
        #[test]
        fn repeated_charges_count_once_and_stay_within_the_bounds(
            steps in proptest::collection::vec((0_u64..3, 0_u64..6, any::<bool>(), 1_usize..4), 1..60),
        ) {
            pollster::block_on(async {
                let (engine, clock) = (Memory::new(), ManualClock::at_ns(1));
                let run = async |charge: &ChargeToken| crate::run(&engine, &clock, charge).await.unwrap().output;
                let (mut made, mut expected) = (Vec::new(), TokenUsage::default());
                for (worlds, bytes, ends, repeats) in steps {
                    let ended = if ends { made.pop() } else { None };
                    let next = match ended {
                        Some(ChargeToken { amount, .. }) => charge(amount.worlds, amount.bytes, true),
                        None => charge(worlds, bytes, false),
                    };
                    let first = run(&next).await;
                    for _ in 1..repeats {
                        assert_eq!(run(&next).await, first, "a repetition hears what the first one would have");
                    }
                    let ChargeToken { amount, give_back, .. } = next;
                    match (first, give_back) {
                        (Charged::No(_), _) => {}
                        (Charged::Yes, true) => {
                            expected.worlds -= amount.worlds;
                            expected.bytes -= amount.bytes;
                        }
                        (Charged::Yes, false) => {
                            expected.worlds += amount.worlds;
                            expected.bytes += amount.bytes;
                            made.push(next);
                        }
                    }
                    let mut tx = mundi_engine::Engine::begin(&engine).await.unwrap();
                    let found = token_usage::read(&mut tx, 7).await.unwrap().unwrap_or_default();
                    assert_eq!(found.usage(), expected);
                    assert!(expected.worlds <= 2 && expected.bytes <= 10);
                    assert!(found.changes.unwrap_or_default().len() <= limits::TOKEN_CHANGES_REMEMBERED);
                }
            });
        }
    }
}
