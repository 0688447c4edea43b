//! The values under the keys, for layers that may know no key.
//!
//! The types are defined beside their key families, in [`keyspace`](crate::keyspace); here is what the layers above the runtime
//! read and show of them. Nothing in this module builds a key.

pub use crate::keyspace::{
    child_budget::ChildBudget,
    child_state::{ActiveChild, ChildState},
    dead_letter::DeadLetter,
    effect_attempt::FailedAttempt,
    effect_pending::{EffectItem, EffectTerms, RateTerms},
    effect_place::{EffectPlace, EffectStage},
    inbox_dedupe::DedupeId,
    journal_head::Position,
    kept_object::Kind as KeptKind,
    mailbox::MailPlace,
    pool::PoolRecord,
    queue::{Queue, QueueSeq},
    queue_notify::Seen as SeenQueue,
    quotas::Quotas,
    ready::PRIORITY_NORMAL,
    schema_version::SchemaVersion,
    sweep_state::{Finished as FinishedSweep, Running as RunningSweep, SweepState},
    timer_due::TimerPlace,
    token::{TokenId, TokenRecord},
    token_usage::TokenUsage,
    world_failure::WorldFailure,
    world_log::{LogLevel, LoggedLine},
    world_meta::{Hold, Lineage, ListedState, WorldMeta, WorldState},
};
