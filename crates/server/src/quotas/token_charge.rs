//! What is brought in with a token, charged in the store: exact, in every process.

use super::{Amounts, Quota, QuotaExceeded, Scope, counts};
use crate::node::NodePlane;
use mundi_engine::Engine;
use mundi_runtime::{Plane, RuntimeError};
use mundi_store::{
    keyspace::{quotas::Quotas, token::TokenId},
    protocol::{ChargeToken, Charged},
};
use std::time::Duration;

/// What a token has brought in does not become less by itself: someone has to raise its quota.
const LATER: Duration = Duration::from_secs(3_600);

/// A charge that was made.
pub(crate) struct TokenCharge {
    charge: ChargeToken,
}

/// Why there is no charge.
pub(crate) enum NotCharged {
    Exceeded(QuotaExceeded),
    Failed(RuntimeError),
}

impl TokenCharge {
    /// Charges a token, if something of what it brings in is limited.
    pub(crate) async fn make<E: Engine>(
        plane: &NodePlane<E>,
        id: TokenId,
        quotas: Quotas,
        amounts: Amounts,
    ) -> Result<Option<Self>, NotCharged> {
        if !counts::is_limited(&quotas) {
            return Ok(None);
        }
        let change = u64::from_be_bytes(plane.random());
        let charge = ChargeToken { id, amount: amounts.into(), quotas, give_back: false, change };
        match plane.run(&charge).await.map_err(|error| NotCharged::Failed(error.into()))?.output {
            Charged::Yes => Ok(Some(Self { charge })),
            Charged::No(usage) => {
                let usage = Amounts::from(usage);
                let (quota, limit) = usage.beyond(amounts, &quotas).unwrap_or((Quota::StoredBytes, 0));
                let current = usage.of(quota).unwrap_or_default();
                Err(NotCharged::Exceeded(QuotaExceeded {
                    scope: Scope::Token,
                    quota,
                    limit,
                    current,
                    retry_after: LATER,
                }))
            }
        }
    }

    /// What was charged for was not made. If this is not reached, the token has paid for nothing: better than the other way round.
    pub(crate) async fn give_back<E: Engine>(self, plane: &NodePlane<E>) {
        let change = u64::from_be_bytes(plane.random());
        if let Err(error) = plane.run(&ChargeToken { give_back: true, change, ..self.charge }).await {
            tracing::debug!(%error, "a charge was not given back");
        }
    }
}
