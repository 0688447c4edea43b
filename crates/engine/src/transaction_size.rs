//! How much a transaction holds, counted as the client of FoundationDB counts it, so that what fits one engine fits all.
//!
//! There a transaction is its mutations and its conflict ranges. A put is one mutation and the range of its key, which has two ends: the key
//! counts three times. A deletion is a mutation of a range, so its key counts four times. A read that the commit depends on is a range. Each of
//! these begins with the prefix of the deployment. No key is counted for less than it costs there, so the client never refuses what was
//! accepted here.

use crate::EngineError;
use mundi_model::limits;

/// The bytes that the client needs for a mutation besides its keys and values. It was 40 bytes in release 7.1; later ones add checksums.
const MUTATION_BYTES: usize = 64;
/// The bytes that it needs for a range besides its ends.
const RANGE_BYTES: usize = 32;
/// The longest prefix in front of a key: a name, a separator, and the mark of the data.
pub(crate) const PREFIX_BYTES: usize = limits::ENGINE_PREFIX_BYTES_MAX + 2;

/// The costs that an operation counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Towards the bound of the contract.
    counted: usize,
    /// Its keys and values alone.
    raw: usize,
}

pub(crate) const fn of_put(key: usize, value: usize) -> Cost {
    Cost { counted: MUTATION_BYTES + value + PREFIX_BYTES + key + range(key, key + 1), raw: key + value }
}

pub(crate) const fn of_delete(key: usize) -> Cost {
    Cost { raw: key, ..of_delete_range(key, key + 1) }
}

pub(crate) const fn of_delete_range(start: usize, end: usize) -> Cost {
    Cost { counted: MUTATION_BYTES - RANGE_BYTES + 2 * range(start, end), raw: start + end }
}

/// The end of the range of a key is one byte longer than the key.
pub(crate) const fn of_read(key: usize) -> Cost {
    Cost { counted: range(key, key + 1), raw: key }
}

pub(crate) const fn of_range_read(start: usize, end: usize) -> Cost {
    Cost { counted: range(start, end), raw: start + end }
}

/// A key that a deleted range turned out to hold, in an engine that lists them.
pub(crate) const fn of_listed(key: usize) -> Cost {
    Cost { counted: key, raw: key }
}

const fn range(start: usize, end: usize) -> usize {
    RANGE_BYTES + 2 * PREFIX_BYTES + start + end
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Size {
    counted: usize,
    raw: usize,
    operations: usize,
}

impl Size {
    /// Keys and values, without what only FoundationDB counts.
    pub(crate) const fn bytes(&self) -> usize {
        self.raw
    }

    #[cfg(test)]
    pub(crate) const fn counted(&self) -> usize {
        self.counted
    }

    pub(crate) fn add(&mut self, cost: Cost) -> Result<(), EngineError> {
        let (counted, operations) = (self.counted + cost.counted, self.operations + 1);
        if counted > limits::TRANSACTION_BYTES_MAX || operations > limits::TRANSACTION_OPERATIONS_MAX {
            return Err(EngineError::TransactionTooLarge);
        }
        (self.counted, self.operations) = (counted, operations);
        self.raw += cost.raw;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_counts_at_least_what_the_bound_on_their_number_says() {
        let least = limits::TRANSACTION_BYTES_MAX / limits::TRANSACTION_OPERATIONS_MAX;
        for cost in [of_put(1, 0), of_delete(1), of_delete_range(0, 1), of_read(1), of_range_read(0, 1)] {
            assert!(cost.counted >= least, "{cost:?}");
        }
    }

    #[test]
    fn a_written_key_counts_three_times_a_deleted_one_four_times_and_a_read_one_twice() {
        assert_eq!(of_put(1_010, 7).counted - of_put(10, 7).counted, 3_000);
        assert_eq!(of_delete(1_010).counted - of_delete(10).counted, 4_000);
        assert_eq!(of_read(1_010).counted - of_read(10).counted, 2_000);
        assert_eq!(of_put(10, 7).raw, 17);
    }

    #[test]
    fn a_refused_operation_is_not_counted() {
        let mut size = Size::default();
        size.add(of_listed(limits::TRANSACTION_BYTES_MAX - 10)).unwrap();
        assert!(size.add(of_listed(11)).is_err());
        size.add(of_listed(10)).unwrap();
        assert!(size.add(of_listed(1)).is_err());
        assert_eq!(size.bytes(), limits::TRANSACTION_BYTES_MAX);
    }
}
