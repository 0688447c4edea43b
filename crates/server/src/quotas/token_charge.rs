//! The usage of a token, charged in the store: exact over all processes.

use super::{Amounts, Quota, QuotaExceeded, Scope, counts};
use crate::node::NodePlane;
use mundi_runtime::{Plane, RuntimeError};
use mundi_store::{
    protocol::{ChargeToken, Charged},
    values::{Quotas, TokenId},
};
use std::time::Duration;

/// A token's total does not fall by itself: someone has to raise its quota.
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
    pub(crate) async fn make(
        plane: &NodePlane,
        id: TokenId,
        quotas: Quotas,
        amounts: Amounts,
    ) -> Result<Option<Self>, NotCharged> {
        if !counts::is_limited(&quotas) {
            return Ok(None);
        }
        let charge = ChargeToken { id, amount: amounts.into(), quotas, give_back: false, change: change(plane) };
        make(plane, &charge).await?;
        Ok(Some(Self { charge }))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.charge.amount.bytes
    }

    /// The object of the charge turned out to have more bytes.
    pub(crate) async fn add_bytes(&mut self, plane: &NodePlane, more: u64) -> Result<(), NotCharged> {
        make(plane, &ChargeToken { amount: Amounts::bytes(more).into(), change: change(plane), ..self.charge }).await?;
        self.charge.amount.bytes = self.charge.amount.bytes.saturating_add(more);
        Ok(())
    }

    /// It was made, with so many bytes: the excess charge is returned.
    pub(crate) async fn settle(mut self, plane: &NodePlane, bytes: u64) {
        let surplus = self.bytes().saturating_sub(bytes);
        if surplus > 0 {
            self.charge.amount = Amounts::bytes(surplus).into();
            self.give_back(plane).await;
        }
    }

    /// Returns a charge whose object was not created. If this is not reached, the token has paid for nothing: better than the other way round.
    pub(crate) async fn give_back(self, plane: &NodePlane) {
        if let Err(error) = plane.run(&ChargeToken { give_back: true, change: change(plane), ..self.charge }).await {
            tracing::debug!(%error, "a quota charge could not be returned");
        }
    }
}

async fn make(plane: &NodePlane, charge: &ChargeToken) -> Result<(), NotCharged> {
    match plane.run(charge).await.map_err(|error| NotCharged::Failed(error.into()))?.output {
        Charged::Yes => Ok(()),
        Charged::No(usage) => {
            let usage = Amounts::from(usage);
            let beyond = usage.beyond(charge.amount.into(), &charge.quotas);
            let (quota, limit) = beyond.unwrap_or((Quota::StoredBytes, 0));
            let current = usage.of(quota).unwrap_or_default();
            Err(NotCharged::Exceeded(QuotaExceeded { scope: Scope::Token, quota, limit, current, retry_after: LATER }))
        }
    }
}

/// Names one change, so that one with an unknown result counts once.
fn change(plane: &NodePlane) -> u64 {
    u64::from_be_bytes(plane.random())
}
