//! Effects of worlds: which of them are carried out, and by whom.

pub(crate) mod dispatch;
pub mod slots;
