//! Payloads of commands, and their answers.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::{IntoParams, ToSchema};

/// The fields that every command may have.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// The same for each attempt of one command; the header `Idempotency-Key` if it is left out, and a new one if that is left out, too.
    pub(super) operation_id: Option<String>,
    /// Tells clients apart that share a token.
    pub(super) client: Option<String>,
}

/// The header of every command.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it stands in the document; the header is read with the others")]
pub(crate) struct OperationHeader {
    /// The operation id, where the body has none.
    #[param(rename = "Idempotency-Key")]
    idempotency_key: Option<String>,
}

/// A form that says who sends it.
pub(crate) trait CommandForm: DeserializeOwned + Send {
    fn sender(&mut self) -> Sender;
}

macro_rules! command_forms {
    ($($form:ty),*) => {$(
        impl CommandForm for $form {
            fn sender(&mut self) -> Sender {
                Sender { operation_id: self.operation_id.take(), client: self.client.take() }
            }
        }
    )*};
}
command_forms!(ResourcesForm, ReserveForm, EnqueueForm, CancelForm, HolderForm, LeaseForm, RevokeForm);

/// The result of a command.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommandResult {
    /// `ok`, or `noop` if there was nothing to do.
    pub(super) result: String,
    /// The height of the command in the journal of its shard. Reads wait for it with `at_least`.
    pub(super) lsn: u64,
    pub(super) slot: u64,
    pub(super) shard: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_id: Option<String>,
    /// With the lease's id the token that each command of its holder carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_epoch: Option<u64>,
    /// From this slot on a lease that is still reserved expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadline_slot: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resource_ids: Vec<String>,
    /// A place in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ticket: Option<String>,
    /// Under which it can be sent again.
    pub(super) operation_id: String,
    /// Whether the outcome of the command is known.
    pub(super) outcome: &'static str,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourcesForm {
    /// At most 1000.
    pub(super) resources: Vec<ResourceForm>,
    pub(super) operation_id: Option<String>,
    pub(super) client: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceForm {
    /// A name, from which its id follows, or an id (`r_…`).
    pub(super) resource: String,
    /// At most 8.
    #[serde(default)]
    pub(super) labels: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveForm {
    /// Names or ids of the resources, which must lie in one shard. Left out, so many of a label are chosen.
    pub(super) resources: Option<Vec<String>>,
    /// Of the resources that are chosen; any if it is left out.
    pub(super) label: Option<String>,
    /// How many are chosen: 1 if nothing is said.
    pub(super) count: Option<u32>,
    /// A name or an id (`holder_…`).
    pub(super) holder: String,
    /// After so many slots the reservation expires, unless it is activated.
    pub(super) ttl_slots: u64,
    pub(super) operation_id: Option<String>,
    pub(super) client: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnqueueForm {
    /// Of the resources that are chosen; any if it is left out.
    pub(super) label: Option<String>,
    /// How many: 1 if nothing is said.
    pub(super) count: Option<u32>,
    pub(super) holder: String,
    pub(super) ttl_slots: u64,
    /// Answers when the lease is there, and not at once with a ticket.
    #[serde(default)]
    pub(super) wait: bool,
    pub(super) operation_id: Option<String>,
    pub(super) client: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelForm {
    pub(super) ticket: String,
    pub(super) holder: String,
    pub(super) operation_id: Option<String>,
    pub(super) client: Option<String>,
}

/// The token of a holder.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HolderForm {
    pub(super) lease_id: String,
    pub(super) lease_epoch: u64,
    pub(super) holder: String,
    pub(super) operation_id: Option<String>,
    pub(super) client: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseForm {
    pub(super) lease_id: String,
    pub(super) operation_id: Option<String>,
    pub(super) client: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevokeForm {
    pub(super) lease_id: String,
    /// A watcher reclaims the lease so long after it saw the revoke: for a pool that is watched. Left out, someone else reclaims it.
    pub(super) reclaim_after_ms: Option<u64>,
    pub(super) operation_id: Option<String>,
    pub(super) client: Option<String>,
}
