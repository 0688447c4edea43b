//! Quotas of the universes and tokens that this process serves.

use super::{Node, Shared, Universe};
use crate::{
    api::Problem,
    quotas::{
        Amounts, Held, NotCharged, Quota, QuotaExceeded, Refusals, Reservation, Scope, TokenCharge, UniverseQuotas,
    },
};
use futures_util::future::BoxFuture;
use mundi_adapters::room::Room;
use mundi_model::{Coded, Hash, UniverseId, limits};
use mundi_runtime::effects::failed;
use mundi_store::{
    protocol::{Failure, Repeat},
    values::{Quotas, TokenId},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

/// The universe and the token of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// The token that it shows, with its quotas.
    pub(crate) token: Option<(TokenId, Quotas)>,
    /// Whether it may read what worlds hold.
    pub(crate) may_read: bool,
}

/// A token is charged with so many bytes at a time for a body that does not say how many it has: not every piece is a transaction.
const CHARGED_AHEAD_BYTES: u64 = 1 << 20;

/// A reservation against the quotas. Unless it is kept, it is given back.
#[derive(Default)]
pub(crate) struct Growth {
    reservation: Option<Reservation>,
    charge: Option<TokenCharge>,
}

impl Node {
    /// The quotas of a universe, as they are configured.
    pub(super) fn quotas_of(&self, name: &str, id: UniverseId) -> Arc<UniverseQuotas> {
        let rules = self.rules(name, id).map(|rules| rules.quotas).unwrap_or_default();
        let built_in: BTreeSet<Hash> = self.built_in().map(|program| Hash::of(&program.program)).collect();
        UniverseQuotas::new(id, rules.or(&self.config().quotas.per_universe), built_in.len() as u64)
    }

    pub(crate) fn refusals(&self) -> &Refusals {
        &self.0.refusals
    }

    fn refused(&self, exceeded: QuotaExceeded) -> QuotaExceeded {
        self.0.refusals.count(&exceeded);
        exceeded
    }

    /// One event comes in.
    pub(crate) fn admit_event(&self, universe: &Universe, tenant: Tenant) -> Result<(), QuotaExceeded> {
        let quotas = universe.quotas();
        if let Some((token, limits)) = tenant.token.filter(|(_, limits)| limits.events_per_second_max.is_some()) {
            let now_ns = quotas.now_ns();
            let account = self.0.token_accounts.of(token, now_ns);
            account.events(Scope::Token, &limits, now_ns, 1).map_err(|exceeded| self.refused(exceeded))?;
        }
        quotas.events(1).map_err(|exceeded| self.refused(exceeded))
    }

    /// Others came in with one that was admitted.
    pub(crate) fn note_events(&self, universe: &Universe, tenant: Tenant, count: u64) {
        let quotas = universe.quotas();
        if let Some((token, limits)) = tenant.token.filter(|(_, limits)| limits.events_per_second_max.is_some()) {
            let now_ns = quotas.now_ns();
            self.0.token_accounts.of(token, now_ns).more_events(&limits, now_ns, count);
        }
        quotas.more_events(count);
    }

    /// A call or a stream begins, and ends when the returned guard is dropped.
    pub(crate) fn begin(&self, universe: &Universe, tenant: Tenant, quota: Quota) -> Result<Held, QuotaExceeded> {
        let of_token =
            tenant.token.and_then(|(token, limits)| Some((token, quota.of(&limits)?))).map(|(token, limit)| {
                self.0.token_accounts.of(token, universe.quotas().now_ns()).begin(Scope::Token, quota, Some(limit))
            });
        let of_token = of_token.transpose().map_err(|exceeded| self.refused(exceeded))?;
        let of_universe = universe.quotas().begin(quota).map_err(|exceeded| self.refused(exceeded))?;
        Ok(Held::new(of_universe, of_token))
    }

    /// Room for what is about to be made.
    pub(crate) async fn grow(&self, universe: &Universe, tenant: Tenant, more: Amounts) -> Result<Growth, Problem> {
        let plane = universe.plane();
        let reserved = universe.quotas().reserve(plane, more).await?;
        let reservation = reserved.map_err(|exceeded| self.refused(exceeded))?;
        let charge = self.charge(universe, tenant, more).await?;
        Ok(Growth { reservation, charge })
    }

    /// Room for payloads that are stored as objects because they are large.
    pub(crate) async fn grow_payloads(
        &self,
        universe: &Universe,
        tenant: Tenant,
        payloads: impl Iterator<Item = usize>,
    ) -> Result<Growth, Problem> {
        let large = payloads.filter(|bytes| *bytes > limits::PAYLOAD_INLINE_BYTES_MAX);
        let more = large.fold(Amounts::default(), |sum, bytes| sum.plus(Amounts::blob(bytes as u64)));
        match more == Amounts::default() {
            true => Ok(Growth::default()),
            false => Box::pin(self.grow(universe, tenant, more)).await,
        }
    }

    /// Whether a query may use fuel now.
    pub(crate) fn admit_query(&self, universe: &Universe) -> Result<(), QuotaExceeded> {
        universe.quotas().fuel().map_err(|exceeded| self.refused(exceeded))
    }

    /// Charges the token with what is brought in with it, if that is limited.
    async fn charge(&self, universe: &Universe, tenant: Tenant, more: Amounts) -> Result<Option<TokenCharge>, Problem> {
        let Some((token, limits)) = tenant.token.filter(|_| more != Amounts::default()) else { return Ok(None) };
        TokenCharge::make(universe.plane(), token, limits, more).await.map_err(|not| self.not_charged(not))
    }

    fn not_charged(&self, not: NotCharged) -> Problem {
        match not {
            NotCharged::Exceeded(exceeded) => self.refused(exceeded).into(),
            NotCharged::Failed(error) => error.into(),
        }
    }

    /// For adapters, which the node itself keeps running: it does not keep the node.
    pub(super) fn room(&self) -> NodeRoom {
        NodeRoom(Arc::downgrade(&self.0))
    }
}

impl Growth {
    /// Raises the reservation to so many bytes; fails if there is no room for them.
    pub(crate) async fn grow_to(&mut self, node: &Node, universe: &Universe, bytes: u64) -> Result<(), Problem> {
        if let Some(reservation) = &mut self.reservation {
            let more = bytes.saturating_sub(reservation.bytes());
            let grown = universe.quotas().grow(reservation, Amounts::bytes(more));
            grown.map_err(|exceeded| node.refused(exceeded))?;
        }
        let Some(charge) = &mut self.charge else { return Ok(()) };
        let more = bytes.saturating_sub(charge.bytes());
        if more == 0 {
            return Ok(());
        }
        let charged = match charge.add_bytes(universe.plane(), more.max(CHARGED_AHEAD_BYTES)).await {
            Err(NotCharged::Exceeded(_)) => charge.add_bytes(universe.plane(), more).await,
            charged => charged,
        };
        charged.map_err(|not| node.not_charged(not))
    }

    /// It was made, with so many bytes.
    pub(crate) async fn keep_bytes(mut self, universe: &Universe, bytes: u64) {
        if let Some(charge) = self.charge.take() {
            charge.settle(universe.plane(), bytes).await;
        }
        self.keep();
    }

    /// It was made.
    pub(crate) fn keep(self) {
        if let Some(reservation) = self.reservation {
            reservation.keep();
        }
    }

    /// Keeps it if it was made.
    pub(crate) async fn settle(self, universe: &Universe, is_made: bool) {
        if is_made {
            self.keep();
        } else {
            self.give_back(universe).await;
        }
    }

    /// It was not made, or was there before.
    pub(crate) async fn give_back(self, universe: &Universe) {
        if let Some(charge) = self.charge {
            charge.give_back(universe.plane()).await;
        }
    }
}

/// Whether universes have room for what their programs make.
pub(super) struct NodeRoom(Weak<Shared>);

impl NodeRoom {
    async fn ask(&self, universe: UniverseId, more: Amounts) -> Result<(), Failure> {
        let Some(node) = self.0.upgrade().map(Node) else { return Ok(()) };
        let Some(universe) = node.universe(&universe.to_string()) else { return Ok(()) };
        let reserved = universe.quotas().reserve(universe.plane(), more).await;
        match reserved.map_err(|error| failed(error.to_string()))? {
            Ok(reservation) => {
                // If it comes to nothing, the next count finds that out.
                if let Some(reservation) = reservation {
                    reservation.keep();
                }
                Ok(())
            }
            Err(exceeded) => {
                let exceeded = node.refused(exceeded);
                Err(Failure { code: exceeded.code(), reason: exceeded.to_string(), repeat: Repeat::Backoff })
            }
        }
    }
}

impl Room for NodeRoom {
    fn world(&self, universe: UniverseId) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.ask(universe, Amounts::WORLD))
    }

    fn blob(&self, universe: UniverseId, bytes: usize) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.ask(universe, Amounts::blob(bytes as u64)))
    }
}
