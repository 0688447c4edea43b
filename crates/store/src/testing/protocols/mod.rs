//! Protocols that only tests need: small ones that stand for a whole turn, and pins, which nothing sets yet.

mod append_batch;
mod drain_inbox;
mod pin_blob;

pub use append_batch::AppendBatch;
pub use drain_inbox::{DrainInbox, Drained};
pub use pin_blob::{PinBlob, UnpinBlob};
