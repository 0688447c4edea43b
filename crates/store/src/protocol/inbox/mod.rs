//! The inbox of a world, and the names of the items that were sent to it.

pub(in crate::protocol) mod call_world;
pub(in crate::protocol) mod compact_inbox;
pub(in crate::protocol) mod enqueue;
pub(in crate::protocol) mod expire_dedupe;
pub(in crate::protocol) mod fabric_send;
pub(in crate::protocol) mod inbox_end;
pub(in crate::protocol) mod oldest_unread;
pub(in crate::protocol) mod peek_inbox;
pub(in crate::protocol) mod read_ahead;

pub use call_world::{Called, WorldCall, call_world};
pub use compact_inbox::{CompactInbox, Compacted, compact_inbox};
pub use enqueue::{Enqueue, Enqueued, NewItem, WokenBy, enqueue, enqueue_woken_by};
pub use expire_dedupe::{ExpireDedupe, expire_dedupe};
pub use fabric_send::{FabricMessage, FindMessage, MessageId, Sent, fabric_receipt, fabric_send};
pub use inbox_end::InboxEnd;
pub use oldest_unread::OldestUnread;
pub use peek_inbox::{PeekInbox, Peeked};
pub use read_ahead::{Ahead, ReadAhead};
