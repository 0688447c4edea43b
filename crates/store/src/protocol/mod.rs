//! The transaction protocols, one file each. The header of each says what it guarantees and what happens
//! when a commit's result is unknown.

mod children;
mod content;
mod effects;
mod error;
mod inbox;
mod journal;
mod leases;
mod mail;
mod placement;
mod pools;
mod programs;
mod queues;
mod timers;
mod universes;
mod worlds;

pub use error::{DeadLetterError, EffectError, InboxError, LeaseError, MailError, SchemaError, WorldError};

pub use children::*;
pub use content::*;
pub use effects::*;
pub use inbox::*;
pub use journal::*;
pub use leases::*;
pub use mail::*;
pub use placement::*;
pub use pools::*;
pub use programs::*;
pub use queues::*;
pub use timers::*;
pub use universes::*;
pub use worlds::*;
