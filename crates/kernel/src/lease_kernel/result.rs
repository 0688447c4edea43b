//! The result of a command: one of nineteen codes, and the values that the submitter needs to go on.

use minicbor::{Decode, Encode};
use mundi_model::{
    Code, Height,
    pool::{LeaseId, ResourceId},
};
use serde::{Deserialize, Serialize};

macro_rules! result_codes {
    ($($(#[$doc:meta])* $variant:ident = $n:literal, $text:literal, $code:expr;)*) => {
        /// The result of a command. Numbers are persisted: never renumbered, never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
        #[cbor(index_only)]
        #[serde(rename_all = "snake_case")]
        pub enum ResultCode {
            $($(#[$doc])* #[n($n)] $variant,)*
        }

        impl ResultCode {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The error that a refusal is to a caller; `None` for what is none.
            pub const fn error(self) -> Option<Code> {
                match self { $(Self::$variant => $code,)* }
            }
        }
    };
}

result_codes! {
    Ok = 0, "ok", None;
    /// There was nothing to do.
    Noop = 1, "noop", None;
    AlreadyExists = 2, "already_exists", Some(Code::AlreadyExists);
    ResourceTableFull = 3, "resource_table_full", Some(Code::ResourceTableFull);
    ResourceNotFound = 4, "resource_not_found", Some(Code::ResourceNotFound);
    ResourceBusy = 5, "resource_busy", Some(Code::ResourceBusy);
    BundleTooLarge = 6, "bundle_too_large", Some(Code::PoolBundleTooLarge);
    TtlOutOfRange = 7, "ttl_out_of_range", Some(Code::TtlOutOfRange);
    LeaseTableFull = 8, "lease_table_full", Some(Code::LeaseTableFull);
    LeaseMemberTableFull = 9, "lease_member_table_full", Some(Code::LeaseMemberTableFull);
    LeaseNotFound = 10, "lease_not_found", Some(Code::LeaseNotFound);
    LeaseRetired = 11, "lease_retired", Some(Code::LeaseRetired);
    ExpirationIndexFull = 12, "expiration_index_full", Some(Code::ExpirationIndexFull);
    OperationTableFull = 13, "operation_table_full", Some(Code::OperationTableFull);
    OperationConflict = 14, "operation_conflict", Some(Code::OperationConflict);
    InvalidState = 15, "invalid_state", Some(Code::InvalidState);
    HolderMismatch = 16, "holder_mismatch", Some(Code::HolderMismatch);
    StaleEpoch = 17, "stale_epoch", Some(Code::StaleEpoch);
    SlotOverflow = 18, "slot_overflow", Some(Code::SlotOverflow);
    /// Of the queue in front of the kernel, not of the kernel.
    QueueFull = 32, "queue_full", Some(Code::QueueFull);
    /// Of the queue in front of the kernel, not of the kernel.
    TicketNotFound = 33, "ticket_not_found", Some(Code::TicketNotFound);
}

/// A command's result as it is answered, and kept for those who ask again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Outcome {
    #[n(0)]
    pub result: ResultCode,
    /// The height of the command that came to it.
    #[n(1)]
    pub lsn: Height,
    #[n(2)]
    pub slot: u64,
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<LeaseId>,
    /// The lease's epoch after the command.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_epoch: Option<u64>,
    #[n(5)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_slot: Option<u64>,
    /// Of a reservation: the members, in their order. Of a creation that is refused: the one that it is refused for.
    #[n(6)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_ids: Vec<ResourceId>,
    /// A place in the queue.
    #[n(7)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<LeaseId>,
}

/// Why a command did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Result(ResultCode),
    /// A resource is the reason.
    At(ResultCode, ResourceId),
    /// The host ended the step.
    Stop(crate::program::Stop),
}

impl From<crate::program::Stop> for Refused {
    fn from(stop: crate::program::Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<ResultCode> for Refused {
    fn from(code: ResultCode) -> Self {
        Self::Result(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_nineteen_results_and_the_queue_two() {
        assert_eq!(ResultCode::ALL.len(), 19 + 2);
        for code in ResultCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            if let Some(error) = code.error() {
                assert_eq!(error.as_str().to_lowercase().trim_start_matches("pool_"), code.as_str());
            }
        }
    }
}
