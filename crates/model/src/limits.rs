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
