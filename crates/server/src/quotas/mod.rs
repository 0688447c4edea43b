//! Quotas: limits of universes and tokens, so that one tenant cannot use up the capacity of others.
//!
//! - `bucket`: rates, as a pure function of the time that it is told.
//! - `limits`: the quotas by name, in the configuration and in the API.
//! - `account`: what one universe or token takes of this process now: events, calls, streams, effects, fuel.
//! - `claims`: effects that external workers have claimed through this process.
//! - `counts`: what a universe holds: worlds, bytes, objects, programs; counted now and then, and added to meanwhile.
//! - `universe`: all of that for one universe, with the quotas that were set for it.
//! - `exceeded`: the refusal.
//!
//! Requests are refused before their body is read. Steps and effects are no requests: they are paced, which is to say that they
//! wait. Rates and gauges are those of this process; what a universe holds is of the universe, whichever process made it.

mod account;
mod bucket;
mod claims;
mod counts;
mod exceeded;
mod limits;
mod token_charge;
mod universe;

pub(crate) use account::{Held, TokenAccounts};
pub(crate) use counts::{Amounts, Reservation};
pub(crate) use exceeded::{QuotaExceeded, Refusals, Scope};
pub use limits::{Quota, QuotaDefaults, QuotaLimits};
pub(crate) use token_charge::{NotCharged, TokenCharge};
pub(crate) use universe::{QuotaUse, UniverseQuotas};
