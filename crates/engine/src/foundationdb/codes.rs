//! The meaning of FoundationDB's error codes, for a read and for a commit.
//!
//! The codes are those of the C API and never change their meaning (`flow/error_definitions.h` of release 7.3). They are listed here, and not
//! asked for by the predicates of the client library, because two of our answers differ from its predicates: a timeout or a cancellation
//! during a commit is `Unknown`, and so is every code that is not listed.

/// The certainty after a read that failed. Nothing was written by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadFailure {
    /// Its snapshot is gone: the transaction is run again.
    TooOld,
    /// It passes: as long as nothing was read, the same transaction asks again, after the pause that the client prescribes.
    Passes,
    /// The cluster does not answer.
    Unavailable,
    /// The cluster, its file or the client library cannot be used as they are.
    Invalid,
    /// All else.
    Fault,
}

/// The certainty after a commit that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitFailure {
    /// Surely not applied: another transaction came first, or the snapshot is older than the cluster remembers.
    Conflict,
    /// Surely not applied, and not because of another transaction: the very same commit may be sent again, after the pause that the client
    /// prescribes.
    Refused,
    /// Perhaps applied, and perhaps applied later.
    Unknown,
    /// Surely not applied: more than a transaction may hold.
    TooLarge,
    /// Surely not applied: the database is locked, for a restore or a switch to another cluster.
    Locked,
    /// Surely not applied: the client refused a call of ours.
    Fault,
}

pub(super) const TOO_MANY_WATCHES: i32 = 1032;

const TIMED_OUT: i32 = 1004;
const TRANSACTION_TOO_OLD: i32 = 1007;
const FUTURE_VERSION: i32 = 1009;
const NOT_COMMITTED: i32 = 1020;
const TRANSACTION_CANCELLED: i32 = 1025;
const CONNECTION_FAILED: i32 = 1026;
const WATCH_CANCELLED: i32 = 1029;
const TRANSACTION_TIMED_OUT: i32 = 1031;
const PROCESS_BEHIND: i32 = 1037;
const DATABASE_LOCKED: i32 = 1038;
const CLUSTER_VERSION_CHANGED: i32 = 1039;
const LOOKUP_FAILED: i32 = 1041;
const COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED: i32 = 1042;
const BATCH_TRANSACTION_THROTTLED: i32 = 1051;
const GRV_PROXY_MEMORY_LIMIT_EXCEEDED: i32 = 1078;
const OPERATION_CANCELLED: i32 = 1101;
const TAG_THROTTLED: i32 = 1213;
const PROXY_TAG_THROTTLED: i32 = 1223;
const TRANSACTION_THROTTLED_HOT_SHARD: i32 = 1235;
const FILE_NOT_FOUND: i32 = 1511;
const FILE_NOT_WRITABLE: i32 = 1514;
const FILE_TOO_LARGE: i32 = 1516;
const TRANSACTION_TOO_LARGE: i32 = 2101;
const CONNECTION_STRING_INVALID: i32 = 2104;
const API_VERSIONS: std::ops::RangeInclusive<i32> = 2200..=2203;
/// Calls that the client refuses before it sends anything: an invalid option, a key out of range, a value that is too large.
const REFUSED_CALLS: std::ops::RangeInclusive<i32> = 2000..=2299;

pub(super) fn read_failure(code: i32) -> ReadFailure {
    match code {
        TRANSACTION_TOO_OLD => ReadFailure::TooOld,
        FUTURE_VERSION
        | PROCESS_BEHIND
        | CLUSTER_VERSION_CHANGED
        | COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED
        | BATCH_TRANSACTION_THROTTLED
        | GRV_PROXY_MEMORY_LIMIT_EXCEEDED
        | TAG_THROTTLED
        | PROXY_TAG_THROTTLED
        | TRANSACTION_THROTTLED_HOT_SHARD => ReadFailure::Passes,
        TIMED_OUT
        | TRANSACTION_TIMED_OUT
        | TRANSACTION_CANCELLED
        | CONNECTION_FAILED
        | WATCH_CANCELLED
        | DATABASE_LOCKED
        | LOOKUP_FAILED
        | OPERATION_CANCELLED => ReadFailure::Unavailable,
        FILE_NOT_FOUND..=FILE_NOT_WRITABLE | 1515..=FILE_TOO_LARGE | CONNECTION_STRING_INVALID => ReadFailure::Invalid,
        code if API_VERSIONS.contains(&code) => ReadFailure::Invalid,
        _ => ReadFailure::Fault,
    }
}

pub(super) fn commit_failure(code: i32) -> CommitFailure {
    match code {
        NOT_COMMITTED | TRANSACTION_TOO_OLD => CommitFailure::Conflict,
        FUTURE_VERSION
        | PROCESS_BEHIND
        | COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED
        | BATCH_TRANSACTION_THROTTLED
        | GRV_PROXY_MEMORY_LIMIT_EXCEEDED
        | TAG_THROTTLED
        | PROXY_TAG_THROTTLED
        | TRANSACTION_THROTTLED_HOT_SHARD => CommitFailure::Refused,
        TRANSACTION_TOO_LARGE => CommitFailure::TooLarge,
        DATABASE_LOCKED => CommitFailure::Locked,
        code if REFUSED_CALLS.contains(&code) => CommitFailure::Fault,
        // commit_unknown_result and cluster_version_changed, timeouts and cancellations, and all that nobody here has thought of.
        _ => CommitFailure::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_may_have_been_applied_is_never_called_a_conflict_or_a_refusal() {
        let unknown = [
            1021, // commit_unknown_result
            1022, // commit_unknown_result_fatal
            CLUSTER_VERSION_CHANGED,
            TIMED_OUT,
            TRANSACTION_TIMED_OUT,
            TRANSACTION_CANCELLED,
            OPERATION_CANCELLED,
            CONNECTION_FAILED,
            1030, // request_maybe_delivered
            1100, // broken_promise
            4000, // unknown_error
            4100, // internal_error
            0,
            -1,
            i32::MAX,
        ];
        for code in unknown {
            assert_eq!(commit_failure(code), CommitFailure::Unknown, "{code}");
        }
    }

    #[test]
    fn only_the_two_codes_of_the_conflict_check_are_conflicts() {
        let conflicts: Vec<i32> = (0..5_000).filter(|code| commit_failure(*code) == CommitFailure::Conflict).collect();
        assert_eq!(conflicts, [TRANSACTION_TOO_OLD, NOT_COMMITTED]);
    }

    /// `RETRYABLE_NOT_COMMITTED` of the client, without the two conflicts and without the lock, which lasts.
    #[test]
    fn what_the_client_calls_surely_not_committed_is_sent_again() {
        let refused: Vec<i32> = (0..5_000).filter(|code| commit_failure(*code) == CommitFailure::Refused).collect();
        assert_eq!(refused, [1009, 1037, 1042, 1051, 1078, 1213, 1223, 1235]);
        assert_eq!(commit_failure(1038), CommitFailure::Locked);
    }

    #[test]
    fn the_bounds_of_the_client_are_ours() {
        assert_eq!(commit_failure(2101), CommitFailure::TooLarge);
        assert_eq!(commit_failure(2102), CommitFailure::Fault, "our bound on keys is below the client's");
        assert_eq!(
            commit_failure(2103),
            CommitFailure::Fault,
            "our bound on values is the client's, and checked before"
        );
    }

    #[test]
    fn a_read_says_whether_the_snapshot_or_the_cluster_is_gone() {
        assert_eq!(read_failure(1007), ReadFailure::TooOld);
        assert_eq!(read_failure(1009), ReadFailure::Passes);
        for code in [1004, 1025, 1031, 1101] {
            assert_eq!(read_failure(code), ReadFailure::Unavailable, "{code}");
        }
        for code in [1511, 1513, 1514, 1515, 1516, 2104, 2201, 2203] {
            assert_eq!(read_failure(code), ReadFailure::Invalid, "{code}");
        }
        assert_eq!(read_failure(4100), ReadFailure::Fault);
        assert_eq!(read_failure(TOO_MANY_WATCHES), ReadFailure::Fault, "it is told apart before: the key is polled");
    }
}
