//! Reports of failed steps: a warning, and a count by program and code.

use crate::metrics::Metrics;
use mundi_model::{
    Code, Hash, Height, WorldId,
    record::{Body, Held, Sealed, StepFailed},
};

/// Failures of one turn that are logged one by one; the rest is logged as a number.
const TOLD_MAX: usize = 8;

/// A step that failed.
pub(super) struct FailedStep {
    /// Of the record whose step failed, as the caller hears it; of the hold, if the input was not consumed.
    height: Height,
    code: String,
    reason: String,
}

impl FailedStep {
    /// Those of a turn. What an operator skipped is no failure of the program's.
    pub(super) fn all(records: &[Sealed]) -> Vec<Self> {
        let (mut found, mut taken) = (Vec::new(), None);
        for record in records.iter().map(Sealed::record) {
            match &record.body {
                Body::Ingress(_) => taken = Some(record.height),
                Body::StepFailed(StepFailed { code, .. }) if code == Code::StepSkipped.as_str() => {}
                Body::StepFailed(StepFailed { code, reason }) => {
                    let height = taken.unwrap_or(record.height);
                    found.push(Self { height, code: code.clone(), reason: reason.clone() });
                }
                Body::Held(Held { code, reason, failed: Some(_) }) => {
                    found.push(Self { height: record.height, code: code.clone(), reason: reason.clone() });
                }
                _ => {}
            }
        }
        found
    }
}

/// Tells of failures that are journaled.
pub(super) fn tell(
    (world, name): (WorldId, Option<&str>),
    program: Hash,
    failed: &[FailedStep],
    metrics: Option<&Metrics>,
) {
    for FailedStep { height, code, reason } in failed.iter().take(TOLD_MAX) {
        tracing::warn!(%world, name, %program, %height, code, reason, "a step failed");
    }
    if failed.len() > TOLD_MAX {
        tracing::warn!(%world, name, %program, more = failed.len() - TOLD_MAX, "more steps of the same turn failed");
    }
    if let Some(metrics) = metrics {
        failed.iter().for_each(|failed| metrics.count_failure(program, &failed.code));
    }
}
