//! The section `[shell]`: how worker shells process their mailboxes.

use super::{ConfigError, check::within};
use mundi_model::limits;
use mundi_runtime::shell::{self, Policy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The reaction of a worker shell to a non-retryable failure. The message becomes a dead letter in any case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnNonRetryable {
    /// Continues with the next message.
    DeadLetter,
    /// Stops the shell; the process keeps running without it.
    Stop,
    /// The process drains and exits with the failure.
    Escalate,
}

impl From<shell::OnNonRetryable> for OnNonRetryable {
    fn from(policy: shell::OnNonRetryable) -> Self {
        match policy {
            shell::OnNonRetryable::DeadLetter => Self::DeadLetter,
            shell::OnNonRetryable::Stop => Self::Stop,
            shell::OnNonRetryable::Escalate => Self::Escalate,
        }
    }
}

impl From<OnNonRetryable> for shell::OnNonRetryable {
    fn from(policy: OnNonRetryable) -> Self {
        match policy {
            OnNonRetryable::DeadLetter => Self::DeadLetter,
            OnNonRetryable::Stop => Self::Stop,
            OnNonRetryable::Escalate => Self::Escalate,
        }
    }
}

/// How worker shells process their mailboxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShellSection {
    /// How long a claim on a message is valid.
    pub claim_ttl_ms: u64,
    /// Attempts of the transaction that ends a step; after that the claim expires.
    pub requeue_attempts_max: u32,
    /// Attempts of a message before it becomes a dead letter.
    pub retry_budget_max: u32,
    /// The wait before the second attempt; it doubles with each.
    pub backoff_ms: u64,
    /// Messages and timers of one tick.
    pub batch_max: usize,
    /// The longest wait between two attempts.
    pub backoff_ms_max: u64,
    /// The longest sleep between two polls.
    pub idle_ms_max: u64,
    /// The reaction of a shell to a non-retryable failure: `dead_letter` continues with the next message, `stop` stops the shell, `escalate`
    /// drains and ends the process. The message becomes a dead letter in any case.
    #[schema(value_type = String)]
    pub on_non_retryable: OnNonRetryable,
}

impl Default for ShellSection {
    fn default() -> Self {
        let Policy {
            claim_ttl_ms,
            requeue_attempts_max,
            retry_budget_max,
            backoff_ms,
            backoff_ms_max,
            batch_max,
            idle_ms_max,
            on_non_retryable,
        } = Policy::default();
        Self {
            claim_ttl_ms,
            requeue_attempts_max,
            retry_budget_max,
            backoff_ms,
            backoff_ms_max,
            batch_max,
            idle_ms_max,
            on_non_retryable: on_non_retryable.into(),
        }
    }
}

impl ShellSection {
    pub(super) fn policy(&self) -> Policy {
        let Self {
            claim_ttl_ms,
            requeue_attempts_max,
            retry_budget_max,
            backoff_ms,
            backoff_ms_max,
            batch_max,
            idle_ms_max,
            on_non_retryable,
        } = *self;
        Policy {
            claim_ttl_ms,
            requeue_attempts_max,
            retry_budget_max,
            backoff_ms,
            backoff_ms_max,
            batch_max,
            idle_ms_max,
            on_non_retryable: on_non_retryable.into(),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("shell.claim_ttl_ms", self.claim_ttl_ms, 100..=600_000)?;
        within("shell.requeue_attempts_max", self.requeue_attempts_max, 1..=100)?;
        within("shell.retry_budget_max", self.retry_budget_max, 1..=1_000)?;
        within("shell.backoff_ms", self.backoff_ms, 1..=60_000)?;
        within("shell.backoff_ms_max", self.backoff_ms_max, 1..=3_600_000)?;
        within("shell.batch_max", self.batch_max, 1..=limits::CLAIMS_MAX)?;
        within("shell.idle_ms_max", self.idle_ms_max, 10..=600_000)
    }
}
