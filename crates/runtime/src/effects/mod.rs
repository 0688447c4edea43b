//! Effects of worlds: which intents are carried out (`dispatch`), which of them start at once ([`slots`]), and the role that
//! carries them out ([`AdapterWorker`]) by adapters.
//!
//! - [`Adapter`]: the one trait between the queue and the outside.
//! - [`policy`]: what an effect was allowed by; [`attempts`], [`EffectPace`]: how many begin.
//! - [`signature`]: receipts that their adapter signs.

mod adapter;
pub mod attempts;
pub(crate) mod dispatch;
mod lease;
mod pace;
pub mod policy;
pub(crate) mod recording;
pub mod signature;
pub mod slots;
mod terms;
mod worker;

pub use adapter::{Adapter, Call, denied, failed, invalid, refused, too_large};
pub use pace::{EffectPace, Unpaced};
pub(crate) use terms::effect_terms;
pub use terms::usual_retry;
pub use worker::{AdapterWorker, AdapterWorkerConfig};
