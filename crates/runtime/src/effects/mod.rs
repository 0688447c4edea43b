//! Effects of worlds: which intents are carried out (`dispatch`), and which of them start at once ([`slots`]).

pub(crate) mod dispatch;
pub mod slots;
