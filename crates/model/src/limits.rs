//! Every bound in one place, each with its reason. What exceeds one is a typed error, never an allocation.

/// FoundationDB's bound on keys, which the strictest engine sets for all.
pub const KEY_BYTES_MAX: usize = 10_000;

/// FoundationDB's bound on values; larger payloads go to the content store and are referenced.
pub const VALUE_BYTES_MAX: usize = 100_000;

/// FoundationDB's bound on what a transaction writes and what it declares to have read.
pub const TRANSACTION_BYTES_MAX: usize = 10_000_000;

/// FoundationDB's bound on a transaction's age; it lets an engine forget old versions.
pub const TRANSACTION_AGE_MS_MAX: u64 = 5_000;

/// As many operations as a transaction could hold if each were empty; bounds per-operation overhead.
pub const TRANSACTION_OPERATIONS_MAX: usize = 200_000;

/// What one range read returns at most; more is read by another call from where it ended.
pub const RANGE_ITEMS_MAX: usize = 10_000;

/// What one range read returns at most in bytes (it may end with an item that goes beyond).
pub const RANGE_BYTES_MAX: usize = 4_000_000;

/// Deep enough for any data made by people, shallow enough for the smallest thread stack.
pub const VALUE_DEPTH_MAX: u32 = 64;

/// A journal record is one value of an engine, with room for what the store adds.
pub const RECORD_BYTES_MAX: usize = 90_000;

/// Payloads above this are content-store objects, so that a batch of records stays small.
pub const PAYLOAD_INLINE_BYTES_MAX: usize = 16_384;

/// What a program may pass in one payload: what an adapter or another world can take in one piece.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The key of a cell: a readable path. It also bounds the depth of the cell tree.
pub const CELL_KEY_BYTES_MAX: usize = 512;

/// The value of a cell; what is larger is a blob that a cell names.
pub const CELL_VALUE_BYTES_MAX: usize = 1 << 20;

/// Cell values above this are objects of their own, so that one edit does not rewrite its neighbours' bytes.
pub const CELL_INLINE_BYTES_MAX: usize = 1_024;

/// What a subtree of cells may weigh and still be one node: about one disk page.
pub const CELL_LEAF_BYTES_MAX: usize = 4_096;

/// What one scan of cells returns at most; more is read by another call from where it ended.
pub const SCAN_ITEMS_MAX: usize = 1_000;

/// What one scan of cells returns at most in bytes (it may end with an item that goes beyond).
pub const SCAN_BYTES_MAX: usize = 1 << 20;

/// Names: labels, effect kinds, schemas, inboxes, codes. Long enough for a path, short enough for an index.
pub const NAME_BYTES_MAX: usize = 256;

/// A sentence for people in a journal record.
pub const REASON_BYTES_MAX: usize = 1_024;

/// Host calls of one step: far above what a sane step does, and still bounded in time.
pub const STEP_CALLS_MAX: u64 = 1_000_000;

/// Bytes that one step may pass through its host, reading or writing.
pub const STEP_BYTES_MAX: u64 = 64 << 20;

/// Intents, cancels and replies of one step, which become records of the same transaction.
pub const STEP_OUTPUTS_MAX: u64 = 256;

/// Bytes of inline payloads that one step may add to its transaction: a tenth of what that may hold.
pub const STEP_OUTPUT_BYTES_MAX: u64 = 1_000_000;

/// Log lines of one step; they are not part of the outcome.
pub const STEP_LOGS_MAX: usize = 100;

/// Open intents of one world. They travel in each snapshot.
pub const OPEN_INTENTS_MAX: u64 = 10_000;

/// Timers of one world. They travel in each snapshot.
pub const TIMERS_MAX: u64 = 10_000;

/// Closed intents that a world remembers, to tell a repeated receipt from a stray one.
pub const CLOSED_INTENTS_MAX: u64 = 1_024;

/// Control commands that a paused world took ahead of the items before them.
pub const TAKEN_AHEAD_MAX: usize = 1_024;

/// Cells that are written before the tree is made of them: bounds what a scan passes over.
pub const UNSETTLED_CELLS_MAX: usize = 10_000;

/// A manifest with its inline schemas.
pub const MANIFEST_BYTES_MAX: usize = 1 << 20;
