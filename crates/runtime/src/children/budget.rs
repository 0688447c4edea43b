//! Debits for a child: recorded values, made by the transaction that ends or reports a piece of work.

use super::{CallLog, hold_violated};
use crate::{Plane, metrics::Metrics};
use futures_util::future::BoxFuture;
use mundi_model::{Code, Coded, child::Spend};
use mundi_store::protocol::{ChildClaim, DebitChild, Debited};
use std::sync::Arc;

/// Debits a run while it goes on.
pub trait Meter: Send + Sync {
    /// Reports all that the run has used so far beside its time. False: the child has ended, and its work must stop.
    fn debit(&self, spent: Spend) -> BoxFuture<'_, Result<bool, RefusedDebit>>;
}

/// The store did not take a report. What was used is reported again with the next one.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct RefusedDebit {
    pub code: Code,
    pub reason: String,
}

/// The meter of a child that an executor runs.
pub(super) struct LeaseMeter<P> {
    pub(super) plane: P,
    pub(super) claim: ChildClaim,
    pub(super) started_at_ns: u64,
    pub(super) calls: CallLog,
    pub(super) metrics: Arc<Metrics>,
}

impl<P: Plane> Meter for LeaseMeter<P> {
    fn debit(&self, spent: Spend) -> BoxFuture<'_, Result<bool, RefusedDebit>> {
        Box::pin(async move {
            let now_ns = self.plane.now_ns();
            let spent = spent.lasting(self.started_at_ns, now_ns);
            let debited =
                self.plane.run(&DebitChild { claim: self.claim, spent, calls: self.calls.value(), now_ns }).await;
            match hold_violated(&self.plane, self.claim.universe, debited.map(|done| done.output)).await {
                Ok(Debited::Accepted) => Ok(true),
                Ok(_) => {
                    let ChildClaim { universe, parent, child, .. } = self.claim;
                    self.metrics.children().perhaps_ended(&self.plane, (universe, parent, child), now_ns).await;
                    Ok(false)
                }
                Err(error) if error.code() == Code::UrmChildClaimLost => Ok(false),
                Err(error) => {
                    tracing::warn!(child = %self.claim.child, %error, "a debit of a child was not taken");
                    Err(RefusedDebit { code: error.code(), reason: error.to_string() })
                }
            }
        })
    }
}
